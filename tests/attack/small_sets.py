"""What a new user tries first: a few classes of a few simple pictures, learnt and predicted on some threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter
from tests.attack.counts import Counts
from threadpoolctl import threadpool_limits

from gddsg.backbones import Backbone, load_backbone
from gddsg.core.model import Model, Settings

THREADS = (1, 2, 4)
_SIDE = 64
_MOST_CLASSES, _MOST_PICTURES = 5, 6
_COPIED_ALIKE = 0.3  # share of data sets of copies in which two classes hold one and the same picture
_SUM_ERROR = 1e-9

Picture = Image.Image
Draw = Callable[[int, np.random.Generator], Picture]
"""A picture of a class, given by its number."""


@dataclass(frozen=True)
class SmallSet:
    """A small labelled data set, and further pictures like those in it.

    Attributes
    ----------
    kind : str
        What is on the pictures, a key of :data:`KINDS`.
    pictures : tuple of Image
        To learn.
    labels : tuple of str
        One a picture.
    fresh : tuple of Image
        To predict: one further picture of every class.
    """

    kind: str
    pictures: tuple[Picture, ...]
    labels: tuple[str, ...]
    fresh: tuple[Picture, ...]


def small_sets(n: int, seed: int) -> Iterator[SmallSet]:
    """``n`` random data sets of 2 to 5 classes with 1 to 6 pictures each; all kinds in turn."""
    random, kinds = np.random.default_rng(seed), list(KINDS)
    for i in range(n):
        kind = kinds[i % len(kinds)]
        draw, n_classes = KINDS[kind](random), int(random.integers(2, _MOST_CLASSES + 1))
        counts = random.integers(1, _MOST_PICTURES + 1, n_classes)
        labels = [c for c, count in enumerate(counts) for _ in range(count)]
        pictures = [draw(c, random) for c in labels]
        fresh = [draw(c, random) for c in range(n_classes)]
        yield SmallSet(kind, tuple(pictures), tuple(f"class {c}" for c in labels), tuple(fresh))


def attack_small_sets(n: int, seed: int) -> Counts:
    """Learn and predict ``n`` data sets on 1, 2 and 4 threads: without an error, and with equal labels."""
    backbone, counts = load_backbone("efficientnet-lite0", "cpu"), Counts()
    for small_set in small_sets(n, seed):
        features = embedded(backbone, [*small_set.pictures, *small_set.fresh])
        wrong = trouble_with(features, small_set.labels)
        counts.fail(f"{small_set.kind}: {wrong}") if wrong else counts.count(small_set.kind)
    return counts


def embedded(backbone: Backbone, pictures: Sequence[Picture]) -> torch.Tensor:
    """Features ``(n, feature_dim)``."""
    return torch.from_numpy(backbone.embed(np.stack([backbone.preprocess(picture) for picture in pictures])))


def trouble_with(features: torch.Tensor, labels: Sequence[str]) -> str:
    """What goes wrong where the first rows of ``features`` ``(n, feature_dim)`` are learnt and all are predicted."""
    answers = []
    for threads in THREADS:
        try:
            with on_threads(threads):
                answers.append(learnt_and_predicted(features, labels))
        except Exception as error:  # whatever it is, it is what a user would see
            return f"{threads} threads, {type(error).__name__}: {error}"
    if not all(np.isfinite(p).all() and np.abs(p.sum(1) - 1).max() < _SUM_ERROR for p, _ in answers):
        return "its probabilities are none"
    return "labels depend on threads" if any((own != answers[0][1]).any() for _, own in answers) else ""


@contextmanager
def on_threads(threads: int) -> Iterator[None]:
    """Torch and the BLAS have so many threads within."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


def learnt_and_predicted(features: torch.Tensor, labels: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Probabilities ``(n, n_classes)`` and labels ``(n,)`` of all rows by a model of the first ones."""
    model = Model(Settings())
    model = model.plus(model.make_cards(features[: len(labels)], labels))
    rows = features.numpy()
    labels_found: NDArray[np.str_] = model.predictor.predict(rows)
    return np.exp(model.predictor.predict_log_proba(rows)), labels_found


# ---------------------------------------------------------------- what is on the pictures


def _shapes(random: np.random.Generator) -> Draw:
    """A shape in a colour for every class, at another place and of another size on each picture."""
    looks = [(int(random.integers(4)), _colour(random)) for _ in range(_MOST_CLASSES)]
    paper = _colour(random) if random.random() < 0.5 else (255, 255, 255)

    def draw(c: int, random: np.random.Generator) -> Picture:
        picture = Image.new("RGB", (_SIDE, _SIDE), paper)
        x, y, size = random.integers(2, _SIDE // 2, 3).tolist()
        _outline(ImageDraw.Draw(picture), looks[c][0], (x, y, x + size, y + size), looks[c][1])
        return picture

    return draw


def _outline(pen: ImageDraw.ImageDraw, shape: int, box: tuple[int, int, int, int], colour: tuple[int, ...]) -> None:
    left, top, right, bottom = box
    if shape == 0:
        pen.ellipse(box, fill=colour)
    elif shape == 1:
        pen.rectangle(box, fill=colour)
    elif shape == 2:
        pen.polygon([(left, bottom), (right, bottom), ((left + right) // 2, top)], fill=colour)
    else:
        pen.line([(left, top), (right, bottom)], fill=colour, width=3)


def _colours(random: np.random.Generator) -> Draw:
    """One plain colour a class; on its pictures a little lighter or darker, or exactly the same."""
    base, spread = random.integers(0, 256, (_MOST_CLASSES, 3)), int(random.choice([0, 1, 8]))

    def draw(c: int, random: np.random.Generator) -> Picture:
        shade = np.clip(base[c] + random.integers(-spread, spread + 1, 3), 0, 255)
        return Image.new("RGB", (_SIDE, _SIDE), tuple(shade.tolist()))

    return draw


def _noise(random: np.random.Generator) -> Draw:
    """Noise about a grey of its own for every class."""
    levels = random.integers(20, 200, _MOST_CLASSES)

    def draw(c: int, random: np.random.Generator) -> Picture:
        return Image.fromarray(random.integers(0, 56, (_SIDE, _SIDE, 3), dtype=np.uint8) + np.uint8(levels[c]))

    return draw


def _blurred(random: np.random.Generator) -> Draw:
    """The same noise in all classes, blurred more in one than in the other."""
    radii = random.uniform(1, 12, _MOST_CLASSES)

    def draw(c: int, random: np.random.Generator) -> Picture:
        picture = Image.fromarray(random.integers(0, 256, (_SIDE, _SIDE, 3), dtype=np.uint8))
        return picture.filter(ImageFilter.GaussianBlur(float(radii[c])))

    return draw


def _copies(random: np.random.Generator) -> Draw:
    """One picture a class, again and again; in some data sets two classes hold the same one."""
    source = KINDS[str(random.choice(["shapes", "colours", "noise", "blurred"]))](random)
    kept = [source(c, random) for c in range(_MOST_CLASSES)]
    if random.random() < _COPIED_ALIKE:
        kept[1] = kept[0]
    return lambda c, random: kept[c]


def _colour(random: np.random.Generator) -> tuple[int, int, int]:
    red, green, blue = random.integers(0, 256, 3).tolist()
    return red, green, blue


KINDS: dict[str, Callable[[np.random.Generator], Draw]] = {
    "shapes": _shapes,
    "colours": _colours,
    "noise": _noise,
    "blurred": _blurred,
    "copies": _copies,
}
