"""The demonstration: letters, digits and Greek in many typefaces, learnt a few classes at a time."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from gddsg.backbones import Backbone, FeatureCache, load_backbone
from gddsg.core.model import Model
from gddsg.data.dataset import FeatureDataset, ImageDataset
from gddsg.data.glyphs import glyphs
from gddsg.errors import DataError
from gddsg.evaluation import average_accuracy
from gddsg.learners import GDDSG, Learner, RanPAC, SimpleCIL
from gddsg.photos.embedding import embed_dataset
from gddsg.report.graph_page import save_graph_html
from gddsg.report.graph_picture import save_graph_png
from gddsg.store import read_model, write_model

Labels = np.ndarray[Any, np.dtype[np.str_]]

_TASKS, _M = 6, 2_000
_SHOWN = 8
_FORGOTTEN = "capital O"


def run(folder: Path, console: Console, classes: Sequence[str] | None = None) -> None:
    """Print what happens, and leave the model, two pictures of its classes and some glyphs in a folder.

    Parameters
    ----------
    folder : Path
        Made if there is none.
    console : Console
        Where to print.
    classes : sequence of str or None
        Some of :data:`gddsg.data.glyphs.GLYPHS`, with capital O among them; all unless named.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"Cannot make the folder {folder} ({error.strerror}). Name another with --folder.") from error
    photos = ImageDataset("glyphs", *glyphs(n_train=16, n_test=8, seed=0, classes=classes))
    console.print(
        f"{len(photos.classes)} classes of glyphs: {len(photos.train)} images to learn, and {len(photos.test)} in "
        "other typefaces to be tested on.",
        soft_wrap=True,
    )
    console.print("No learner keeps an image, or sees a class before its task or a label at test.")
    console.print()
    backbone = load_backbone(device="cpu")
    data = _embedded(photos, backbone, console)
    order = np.random.RandomState(1993).permutation(data.classes)
    model = _compare(data, order, backbone, console)
    _look_alikes(model, folder, console)
    path = folder / "glyphs.gddsg"
    write_model(path, model)
    _predictions(model, data, photos, folder, console)
    _forget(path, data, console)


def _embedded(photos: ImageDataset, backbone: Backbone, console: Console) -> FeatureDataset:
    total = len(photos.train) + len(photos.test)
    with FeatureCache() as cache, Progress(console=console, transient=True) as bars:
        task = bars.add_task(f"Embedding with {backbone.name}", total=total)
        return embed_dataset(photos, backbone, cache, lambda done, _: bars.update(task, completed=done))


def _compare(data: FeatureDataset, order: Labels, backbone: Backbone, console: Console) -> Model:
    """Every learner in one class order, GDDSG also in the opposite one; accuracy after every task."""
    console.print("Mean accuracy (%) over all classes seen so far, after every task:")
    table = Table("learner", box=None, pad_edge=False)
    for task in range(_TASKS):
        table.add_column(f"task {task + 1}", justify="right")
    model, opposite = (GDDSG(projection_dim=_M, backbone=backbone.identity) for _ in range(2))
    runs: list[tuple[str, Learner[Any], Labels]] = [
        ("simplecil", SimpleCIL(), order),
        ("ranpac", RanPAC(projection_dim=_M), order),
        ("gddsg", model, order),
        ("gddsg, opposite order", opposite, order[::-1]),
    ]
    for title, learner, classes in runs:
        table.add_row(title, *(f"{100 * accuracy:.1f}" for accuracy in _grow(learner, data, classes)))
    console.print(table)
    tables = [learner.predict_proba(data.test_features) for learner in (model, opposite)]
    same = model.cards_ == opposite.cards_ and np.array_equal(*tables)
    verdict = "equal bit by bit" if same else "DIFFERENT"
    console.print()
    console.print(f"The models of both class orders, all class cards and all probabilities: {verdict}.")
    return model.model_


def _grow(learner: Learner[Any], data: FeatureDataset, order: Labels) -> list[float]:
    accuracies, seen = [], order[:0]
    for task in np.array_split(order, _TASKS):
        rows, seen = np.isin(data.train_labels, task), np.concatenate([seen, task])
        learner.partial_fit(data.train_features[rows], data.train_labels[rows])
        tested = np.isin(data.test_labels, seen)
        predicted = learner.predict(data.test_features[tested])
        accuracies.append(average_accuracy(data.test_labels[tested], predicted))
    return accuracies


def _look_alikes(model: Model, folder: Path, console: Console) -> None:
    graph = model.graph
    pairs = sorted(
        (float(graph.distances[i, j]), a, b)
        for i, a in enumerate(graph.labels)
        for j, b in enumerate(graph.labels)
        if i < j and graph.adjacency[i, j]
    )
    console.print()
    console.print(f"Closest look-alikes, which the {len(model.groups)} groups keep apart:")
    for distance, a, b in pairs[:_SHOWN]:
        console.print(f"  {a} and {b} (distance {distance:.3f})")
    counts = {label: card.count for label, card in model.cards.items()}
    for name, save in (("look-alikes.png", save_graph_png), ("look-alikes.html", save_graph_html)):
        save(folder / name, graph, model.groups, counts)
        console.print(f"Coloured graph of look-alikes: {folder / name}", soft_wrap=True)


def _predictions(model: Model, data: FeatureDataset, photos: ImageDataset, folder: Path, console: Console) -> None:
    chosen = np.random.RandomState(0).choice(len(data.test_features), _SHOWN, replace=False)
    images = folder / "some-glyphs"
    images.mkdir(exist_ok=True)
    console.print()
    console.print(f"What it says of some images in {images}:", soft_wrap=True)
    table = np.exp(model.predictor.predict_log_proba(data.test_features[chosen]))
    for i, row in zip(chosen, table, strict=True):
        truth, label = data.test_labels[i], model.labels[int(row.argmax())]
        Image.fromarray(np.asarray(photos.test[i].pixels)).save(images / f"{truth}.png")
        verdict = "right" if label == truth else "wrong"
        console.print(f"  {truth}.png: {label} ({100 * row.max():.0f} %), {verdict}")


def _forget(path: Path, data: FeatureDataset, console: Console) -> None:
    predictor = read_model(path).without(_FORGOTTEN).predictor
    rows = data.test_labels == _FORGOTTEN
    names, counts = np.unique(predictor.predict(data.test_features[rows]), return_counts=True)
    taken_for = ", ".join(f"{name} ({n})" for n, name in sorted(zip(counts, names, strict=True), reverse=True)[:3])
    console.print()
    console.print(f"After forgetting {_FORGOTTEN} a copy takes its test images for {taken_for}.", soft_wrap=True)
    console.print(f"The model itself is in {path} ({path.stat().st_size / 1e6:.0f} MB). Try:", soft_wrap=True)
    command = "gddsg" if shutil.which("gddsg") else sys.argv[0]  # a virtual environment need not be on the path
    console.print(f"  {command} inspect {path}", soft_wrap=True)
    console.print(f"  {command} predict {path} {path.parent / 'some-glyphs'}", soft_wrap=True)
