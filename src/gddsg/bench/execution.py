"""One run, from features to a record."""

from __future__ import annotations

import hashlib
import json
import platform
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from gddsg.bench.datasets import FeatureSource, load, load_images
from gddsg.bench.experiment import Run
from gddsg.bench.findings import Findings, StreamFindings
from gddsg.bench.measurements import MEASUREMENTS, Setting
from gddsg.bench.memory import measure_memory
from gddsg.bench.methods import learner_class, new_learner
from gddsg.bench.pictures import draw
from gddsg.bench.record import Head, Record, record_from_json, record_to_json
from gddsg.core.label import Label
from gddsg.data import Dataset, FeatureDataset, InputDataset, Stream, class_prototypes, class_stream, task_sizes
from gddsg.data.orders import (
    dissimilar_order,
    extreme_order,
    permuted_tasks,
    searched_order,
    seeded_order,
    similarity_sorted_order,
)
from gddsg.evaluation import metrics
from gddsg.evaluation.protocol import PROTOCOLS, StepResult, closing_metrics, evaluate_stream

_LONGEST = 10_000
_OF_THE_PLAN = ("orders", "tasks", "seeds", "orders_once", "once_on")  # which runs there are, not what any of them does
_PACKAGES = ("gddsg", "numpy", "torch", "scikit-learn", "scipy", "lightgbm", "umap-learn")


def run_id(run: Run, source: FeatureSource) -> str:
    """The same for the same run on the same data: what is recorded under it need not be run again.

    Parameters
    ----------
    run : Run
        What is run.
    source : FeatureSource
        On what.

    Returns
    -------
    str
        Sixteen hexadecimal digits.
    """
    learner = {key: value for key, value in asdict(run.learner).items() if key not in _OF_THE_PLAN}
    # keys that came later count only where they are used, so that ids of older records hold
    given = {key: value for key, value in asdict(run).items() if value is not None}
    known = {**given, "learner": learner, "dataset": source.name, "data": source.fingerprint}
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()[:16]


def execute(run: Run, source: FeatureSource, head: Head) -> Record:
    """Run it and say what came out; a learner that raises gives a record of its error.

    Parameters
    ----------
    run : Run
        What to run.
    source : FeatureSource
        On what.
    head : Head
        What :func:`run_head` says of it.

    Returns
    -------
    Record
        What was found, or why nothing was.
    """
    try:
        return _written_and_read(Record(head, _found(run, source)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever it is, a call of sys.exit too, the other runs go on
        return failed_record(head, error)


def _written_and_read(record: Record) -> Record:
    """The record as a report will read it: a learner that answers with what no record holds has failed."""
    return record_from_json(json.loads(json.dumps(record_to_json(record), allow_nan=False)), "What was measured")


def failed_record(head: Head, error: BaseException) -> Record:
    """The record of a run that failed.

    Parameters
    ----------
    head : Head
        What identifies it.
    error : BaseException
        Why.

    Returns
    -------
    Record
        With the reason in words.
    """
    try:
        reason = f"{type(error).__name__}: {error}"
    except Exception:  # a stranger's exception may be unable to say what it is about
        reason = type(error).__name__
    trace = "".join(traceback.format_exception(error, limit=-4)) if error.__traceback__ else ""
    return Record(
        head, None, *(text.encode("utf-8", "backslashreplace").decode()[:_LONGEST] for text in (reason, trace))
    )


@lru_cache(maxsize=1)
def _loaded(source: FeatureSource) -> FeatureDataset:
    return load(source)


def run_head(run: Run, source: FeatureSource, revision: str) -> Head:
    """What identifies a run.

    Parameters
    ----------
    run : Run
        What is run.
    source : FeatureSource
        On what.
    revision : str
        Commit of this code.

    Returns
    -------
    Head
        The beginning of its record.
    """
    spec, cls = run.learner, learner_class(run.learner.method)
    return Head(
        kind=run.kind,
        run=run_id(run, source),
        experiment=run.experiment,
        dataset=source.name,
        learner=spec.name,
        backbone=source.backbone,
        data_fingerprint=source.fingerprint,
        method=spec.method,
        parameters=dict(spec.parameters),
        exemplar_free=bool(getattr(cls, "exemplar_free", False)),
        incremental=bool(getattr(cls, "incremental", True)),
        protocol=spec.protocol,
        leaks=PROTOCOLS[spec.protocol].leaks,
        order=run.order_name,
        blur=run.blur,
        imbalance=run.imbalance,
        seed=run.seed,
        versions=_versions(),
        revision=revision,
        order_invariant=spec.orders_once,
    )


@lru_cache(maxsize=1)  # asking takes longer than all else that a head needs
def _versions() -> Mapping[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # an extra that is not installed had no part in the run
            continue
    return found


def _found(run: Run, source: FeatureSource) -> Findings:
    if run.kind == "memory":
        return measure_memory(_learner_and_stream, run, source)
    data = _loaded(source)
    if run.kind == "stream":
        takes = getattr(_new_learner(run), "takes", "features")  # some learners take either, by their parameters
        return _measured(run, data, data if takes == "features" else load_images(source, run.dataset))
    if run.kind in MEASUREMENTS:
        return MEASUREMENTS[run.kind](_setting(run, source, data))
    return draw(run.kind, _new_learner(run), data, run.seed)


def _measured(run: Run, features: FeatureDataset, data: Dataset) -> StreamFindings:
    """What comes out on ``data``, the data set in the form the learner takes; features tell which classes are alike."""
    stream, learner = _ordered_stream(run, features, data), _new_learner(run)
    protocol = PROTOCOLS[run.learner.protocol]
    steps = list(evaluate_stream(learner, stream, protocol, run.seed, run.learner.only_last))
    closing = closing_metrics(learner, stream, steps[-1], protocol, run.seed)
    name = _names(data)
    return StreamFindings(
        class_order=tuple(name(label) for label in stream.order),
        sizes=tuple(stream.sizes),
        metrics=_metrics(steps, stream, closing),
        class_accuracies=tuple(_percent(step.accuracies) for step in steps),
        seconds_per_task=tuple(round(step.seconds_learning + step.seconds_predicting, 3) for step in steps),
        state_megabytes=tuple(round(step.state_bytes / 1e6, 3) for step in steps),
        confusions=tuple((name(truth), name(taken), times) for truth, taken, times in steps[-1].confusions()),
        groups=tuple(step.groups for step in steps if step.groups is not None),
    )


def _names(data: Dataset) -> Callable[[Any], str]:
    """Names of labels; one that is no class of the data set, which a learner may predict, is its own name."""
    n_classes = len(data.classes)
    return lambda label: data.classes[label] if isinstance(label, int) and 0 <= label < n_classes else str(label)


def _new_learner(run: Run) -> Any:
    return new_learner(run.learner.method, run.learner.parameters, run.seed)


def _learner_and_stream(run: Run, source: FeatureSource) -> tuple[Any, Stream]:
    data = load(source)
    return _new_learner(run), _ordered_stream(run, data, data)


def _setting(run: Run, source: FeatureSource, data: FeatureDataset) -> Setting:
    parameters = json.dumps(dict(run.learner.parameters), sort_keys=True)
    return Setting(
        new_learner=partial(_new_learner, run),
        whole=partial(_learnt_at_once, source, run.learner.method, parameters, run.seed),
        data=data,
        stream=_ordered_stream(run, data, data),
        parts=run.parts or 1,
        seed=run.seed,
    )


@lru_cache(maxsize=1)
def _learnt_at_once(source: FeatureSource, method: str, parameters: str, seed: int) -> Any:
    """The learner that runs in many class orders and cuts are compared with, learnt once in a process."""
    data = _loaded(source)
    return new_learner(method, json.loads(parameters), seed).partial_fit(data.train_features, data.train_labels)


def _ordered_stream(run: Run, features: FeatureDataset, data: Dataset) -> Stream:
    sizes = _sizes(run, len(np.unique(features.train_labels)))
    return _stream(run, data, _order(run, features, data, sizes), sizes)


def _sizes(run: Run, n_classes: int) -> tuple[int, ...]:
    if run.length is not None:
        full, rest = divmod(n_classes, run.length)
        return (run.length,) * full + (rest,) * (rest > 0)
    if isinstance(run.tasks, tuple):
        return task_sizes(n_classes, sizes=run.tasks)
    return task_sizes(n_classes, run.tasks, base=run.base)


def _stream(run: Run, data: Dataset, order: Sequence[Label], sizes: Sequence[int]) -> Stream:
    return class_stream(data, order, sizes, blur=run.blur, imbalance=run.imbalance, seed=run.seed)


def _order(run: Run, features: FeatureDataset, data: Dataset, sizes: tuple[int, ...]) -> tuple[Label, ...]:
    if run.order == "searched":
        return _searched(run, data, seeded_order(np.unique(data.train_labels).tolist(), run.seed), sizes)
    order, name = _order_by_features(run, features, sizes), _names(features)
    return order if data is features else tuple(name(label) for label in order)  # photos are labelled by name


def _order_by_features(run: Run, data: FeatureDataset, sizes: tuple[int, ...]) -> tuple[Label, ...]:
    classes, prototypes = class_prototypes(data)
    if run.tasks_of is not None and isinstance(run.order, int):
        fixed = seeded_order(classes, run.tasks_of)
        return fixed if run.order == run.tasks_of else permuted_tasks(fixed, sizes, run.order)
    if isinstance(run.order, int):
        return seeded_order(classes, run.order)
    if run.order == "similar together":
        return similarity_sorted_order(classes, prototypes)
    if run.order == "similar apart":
        return dissimilar_order(classes, prototypes, sizes)
    return extreme_order(classes, prototypes, sizes, run.order)  # type: ignore[arg-type]  # checked on reading


def _searched(run: Run, data: Dataset, start: tuple[Label, ...], sizes: tuple[int, ...]) -> tuple[Label, ...]:
    """The worst order for the learner itself that a local search finds, judged on training samples held back."""
    half = _training_halves(data, run.seed)

    def score(order: tuple[Label, ...]) -> float:
        stream = _stream(run, half, order, sizes)
        steps = evaluate_stream(_new_learner(run), stream, PROTOCOLS[run.learner.protocol], run.seed)
        return float(np.mean([np.nanmean(step.accuracies) for step in steps]))

    return searched_order(start, sizes, score, run.search_steps, run.seed)[0]


def _training_halves(data: Dataset, seed: int) -> Dataset:
    """Training samples alone, half of them to test on: a search must not see the test samples either."""
    test = np.zeros(len(data.train_labels), dtype=bool)
    rng = np.random.default_rng(seed)
    for label in np.unique(data.train_labels):
        rows = rng.permutation(np.flatnonzero(data.train_labels == label))
        test[rows[: len(rows) // 2]] = True
    inputs, labels = data.train_inputs, data.train_labels
    return InputDataset(data.name, inputs[~test], labels[~test], inputs[test], labels[test], data.classes)


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


def _percent(shares: Any) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(share) else round(100 * float(share), 2) for share in shares)
