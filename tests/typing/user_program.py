"""A program as a user may write it. It is never run: mypy --strict reads it, here and against the installed wheel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import gddsg
from gddsg import GDDSG, LEARNERS, ClassCard, PhotoClassifier, RanPAC
from gddsg.backbones import Backbone, load_backbone
from gddsg.bench import Record, experiment_from, read_records, run_experiment
from gddsg.checks import check_learner
from gddsg.core.model import Model
from gddsg.data import feature_file, load_dataset
from gddsg.errors import GddsgError, InputError
from gddsg.evaluation import average_accuracy
from gddsg.export import export_onnx
from gddsg.learners import FeatureLearner, Learner, Learnt
from gddsg.store import read_model

Means = dict[int | str, tuple[torch.Tensor, int]]


class NearestMean(FeatureLearner[Means]):
    """A learner of one's own."""

    def __init__(self, shrink: float = 0.0) -> None:
        self.shrink = shrink

    def _next_state(self, state: Means | None, features: torch.Tensor, labels: Sequence[int | str]) -> Means:
        means = dict(state or {})
        for label in sorted(set(labels), key=str):
            own = features[torch.tensor([name == label for name in labels])]
            means[label] = own.sum(0), len(own)
        return means

    def _log_probabilities(self, learnt: Learnt[Means], features: torch.Tensor) -> torch.Tensor:
        means = torch.stack([total / count for total, count in learnt.state.values()])
        return (-torch.cdist(features, means)).log_softmax(1)


def on_features(train: NDArray[np.float32], labels: Sequence[str], test: NDArray[np.float32], file: Path) -> float:
    """Learn, ask, forget, merge, save and load."""
    model: GDDSG = GDDSG(projection_dim=2_000, rank=64, seed=0).partial_fit(train, labels)
    found: NDArray[Any] = model.predict(test, reject=0.99)
    probabilities: NDArray[np.float64] = model.predict_proba(test)
    print(model.explain(test[0]).label, model.class_groups_, model.similarity_graph_.to_networkx(), probabilities.sum())
    cards: dict[int | str, ClassCard] = dict(model.cards_)
    other = GDDSG().fit(train, labels)
    model.forget("wolf").rename("fox", "red fox").merge(other).save(file)
    value: Model = GDDSG.load(file).model_
    export_onnx(value, file.with_suffix(".onnx"))
    print(len(cards), read_model(file).labels, RanPAC(projection_dim=100).fit(train, labels).score(test, labels))
    return average_accuracy(np.array(labels), found)


def on_photos(folder: Path) -> list[str]:
    """Photos in, labels out."""
    animals = PhotoClassifier("animals.gddsg", backbone="efficientnet-lite0", device="cpu")
    backbone: Backbone = load_backbone("efficientnet-lite0")
    try:
        report = animals.learn(folder)
        predicted = animals.predict(folder / "1.jpg", top=3)
    except InputError as error:
        return [str(error)]
    except GddsgError:
        return []
    animals.forget("wolf")
    print(report, backbone.feature_dim, predicted.skipped, animals.evaluate(folder).accuracy)
    return [one.label for one in predicted if one.probability > 0.5]


def beside_others(folder: Path) -> list[Record]:
    """Every learner by name, and the benchmark."""
    check_learner(NearestMean(shrink=0.1))
    learners: dict[str, Learner[Any]] = {name: kind() for name, kind in LEARNERS.items()}
    learners["mine"] = NearestMean()
    data = feature_file(folder / "birds.npz")
    print(gddsg.__version__, data.classes, load_dataset(folder).classes)
    run_experiment(experiment_from("mine", {"datasets": ["birds"], "learners": ["gddsg"]}), folder / "records.jsonl")
    return read_records(folder / "records.jsonl")
