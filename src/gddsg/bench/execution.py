"""One run, from features to a record."""

from __future__ import annotations

import hashlib
import json
import platform
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from gddsg.bench.datasets import FeatureSource, load
from gddsg.bench.experiment import METHODS, Run
from gddsg.bench.pictures import draw
from gddsg.bench.records import Record
from gddsg.core.similarity_graph import Label
from gddsg.data import FeatureDataset, Stream, class_prototypes, class_stream, task_sizes
from gddsg.data.orders import (
    dissimilar_order,
    extreme_order,
    searched_order,
    seeded_order,
    similarity_sorted_order,
)
from gddsg.evaluation import metrics
from gddsg.evaluation.protocol import PROTOCOLS, StepResult, closing_metrics, evaluate_stream

_PACKAGES = ("gddsg", "numpy", "torch", "scikit-learn", "scipy", "lightgbm", "umap-learn")


def run_id(run: Run, source: FeatureSource) -> str:
    """The same for the same run on the same data: what is recorded under it need not be run again."""
    learner = {key: value for key, value in asdict(run.learner).items() if key not in ("orders", "tasks")}
    known = {**asdict(run), "learner": learner, "dataset": source.name, "data": source.fingerprint}
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()[:16]


def execute(run: Run, source: FeatureSource, revision: str) -> Record:
    """Run it and say what came out; a learner that raises gives a record of its error."""
    head = run_head(run, source, revision)
    try:
        data = _loaded(source)
        return {**head, **_found(run, data)}
    except Exception as error:  # whatever it is, the other runs go on
        return {**head, "error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc(limit=-4)}


@lru_cache(maxsize=1)
def _loaded(source: FeatureSource) -> FeatureDataset:
    return load(source)


def run_head(run: Run, source: FeatureSource, revision: str) -> Record:
    """What identifies a run."""
    spec, cls = run.learner, METHODS[run.learner.method]
    return {
        "kind": run.kind,
        "run": run_id(run, source),
        "experiment": run.experiment,
        "dataset": source.name,
        "backbone": source.backbone,
        "data_fingerprint": source.fingerprint,
        "learner": spec.name,
        "method": spec.method,
        "parameters": dict(spec.parameters),
        "exemplar_free": bool(getattr(cls, "exemplar_free", False)),
        "incremental": bool(getattr(cls, "incremental", True)),
        "protocol": spec.protocol,
        "leaks": bool(PROTOCOLS[spec.protocol].leaks),
        "order": run.order_name,
        "blur": run.blur,
        "imbalance": run.imbalance,
        "seed": run.seed,
        "versions": _versions(),
        "revision": revision,
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # an extra that is not installed had no part in the run
            continue
    return found


def _found(run: Run, data: FeatureDataset) -> Record:
    return _measured(run, data) if run.kind == "stream" else draw(run.kind, new_learner(run), data, run.seed)


def _measured(run: Run, data: FeatureDataset) -> Record:
    classes = np.unique(data.train_labels).tolist()
    sizes = _sizes(run, len(classes))
    stream = _stream(run, data, _order(run, data, sizes), sizes)
    learner = new_learner(run)
    protocol = PROTOCOLS[run.learner.protocol]
    steps = list(evaluate_stream(learner, stream, protocol, run.seed, run.learner.only_last))
    closing = closing_metrics(learner, stream, steps[-1], protocol, run.seed)
    name = _names(data)
    return {
        "class_order": [name(label) for label in stream.order],
        "sizes": list(stream.sizes),
        "metrics": _metrics(steps, stream, closing),
        "class_accuracies": [_percent(step.accuracies) for step in steps],
        **({} if steps[-1].groups is None else {"groups": [step.groups for step in steps]}),
        "seconds_per_task": [round(step.seconds_learning + step.seconds_predicting, 3) for step in steps],
        "state_MB_per_task": [round(step.state_bytes / 1e6, 3) for step in steps],
        "confusions": [[name(truth), name(taken), times] for truth, taken, times in steps[-1].confusions()],
    }


def _names(data: FeatureDataset) -> Any:
    return lambda label: label if isinstance(label, str) else data.classes[label]


def new_learner(run: Run) -> Any:
    """The learner of a run, unfitted."""
    return METHODS[run.learner.method](**{"seed": run.seed, **run.learner.parameters})


def _sizes(run: Run, n_classes: int) -> tuple[int, ...]:
    if isinstance(run.tasks, tuple):
        return task_sizes(n_classes, sizes=run.tasks)
    return task_sizes(n_classes, run.tasks, base=run.base)


def _stream(run: Run, data: FeatureDataset, order: Sequence[Label], sizes: Sequence[int]) -> Stream:
    return class_stream(data, order, sizes, blur=run.blur, imbalance=run.imbalance, seed=run.seed)


def _order(run: Run, data: FeatureDataset, sizes: tuple[int, ...]) -> tuple[Label, ...]:
    classes, prototypes = class_prototypes(data)
    if isinstance(run.order, int):
        return seeded_order(classes, run.order)
    if run.order == "similar together":
        return similarity_sorted_order(classes, prototypes)
    if run.order == "similar apart":
        return dissimilar_order(classes, prototypes, sizes)
    if run.order == "searched":
        return _searched(run, data, seeded_order(classes, run.seed), sizes)
    return extreme_order(classes, prototypes, sizes, run.order)  # type: ignore[arg-type]  # checked on reading


def _searched(run: Run, data: FeatureDataset, start: tuple[Label, ...], sizes: tuple[int, ...]) -> tuple[Label, ...]:
    """The worst order for the learner itself that a local search finds, judged on training samples held back."""
    half = _training_halves(data, run.seed)

    def score(order: tuple[Label, ...]) -> float:
        stream = _stream(run, half, order, sizes)
        steps = evaluate_stream(new_learner(run), stream, PROTOCOLS[run.learner.protocol], run.seed)
        return float(np.mean([np.nanmean(step.accuracies) for step in steps]))

    return searched_order(start, sizes, score, run.search_steps, run.seed)[0]


def _training_halves(data: FeatureDataset, seed: int) -> FeatureDataset:
    """Training samples alone, half of them to test on: a search must not see the test samples either."""
    test = np.zeros(len(data.train_labels), dtype=bool)
    rng = np.random.default_rng(seed)
    for label in np.unique(data.train_labels):
        rows = rng.permutation(np.flatnonzero(data.train_labels == label))
        test[rows[: len(rows) // 2]] = True
    features, labels = data.train_features, data.train_labels
    return FeatureDataset(data.name, features[~test], labels[~test], features[test], labels[test], data.classes)


def _metrics(steps: list[StepResult], stream: Stream, closing: dict[str, float]) -> dict[str, float]:
    """All figures of a run; accuracies in per cent."""
    shares = {"A_N": float(np.nanmean(steps[-1].accuracies)), **closing}
    if len(steps) == len(stream.sizes) > 1:
        table = np.full((len(steps), len(stream.order)), np.nan)
        for row, step in zip(table, steps, strict=True):
            row[: len(step.accuracies)] = step.accuracies
        shares |= {
            "F_N": metrics.forgetting(table),
            "AIA": metrics.average_incremental_accuracy(table),
            "BWT": metrics.backward_transfer(metrics.task_matrix(table, stream.sizes)),
        }
    return {
        **{name: round(100 * value, 3) for name, value in shares.items() if not np.isnan(value)},
        "seconds_learning": round(sum(step.seconds_learning for step in steps), 3),
        "seconds_predicting": round(sum(step.seconds_predicting for step in steps), 3),
        "state_MB": round(steps[-1].state_bytes / 1e6, 3),
    }


def _percent(shares: Any) -> list[float | None]:
    return [None if np.isnan(share) else round(100 * float(share), 2) for share in shares]
