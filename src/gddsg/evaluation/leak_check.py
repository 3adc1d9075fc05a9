"""The leak check: whether anything reaches a prediction that nobody would know in use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from gddsg.data.dataset import Dataset, FeatureDataset, InputDataset
from gddsg.data.stream import Stream, class_stream
from gddsg.evaluation.protocol import HONEST, Labels, Protocol, TestPool, shuffled_pool

_ALONE = 48


@dataclass(frozen=True)
class LeakReport:
    """How many predictions changed with something that must not matter.

    Attributes
    ----------
    changed : dict of str to int
        By what was altered: ``test order``, ``single samples``, ``task by task``, ``test labels``, ``future classes``,
        ``future labels``.
    """

    changed: dict[str, int]

    @property
    def leaks(self) -> bool:
        """Whether any prediction changed."""
        return any(self.changed.values())

    def __str__(self) -> str:
        if not self.leaks:
            return "No leak found."
        found = ", ".join(f"{what} ({count} predictions)" for what, count in self.changed.items() if count)
        return f"Predictions depend on what must not matter: {found}."


def leak_check(
    learner: Any, dataset: Dataset, n_tasks: int = 4, protocol: Protocol = HONEST, seed: int = 0
) -> LeakReport:
    """Put a learner through everything that must not change its predictions.

    Parameters
    ----------
    learner : object
        Unfitted; copies of it are used.
    dataset : Dataset
        Of features or images, with at least ``n_tasks`` classes; better one that is not too easy, or nothing can
        change.
    n_tasks : int
        The classes come in so many tasks; half of them are then the future.
    protocol : Protocol
        How predictions are asked for.
    seed : int
        Of all alterations.

    Examples
    --------
    >>> from gddsg import SimpleCIL
    >>> from gddsg.evaluation.leak_check import leak_check, overlapping_classes
    >>> print(leak_check(SimpleCIL(), overlapping_classes()))
    No leak found.
    """
    rng = np.random.default_rng(seed)
    order = tuple(np.unique(dataset.train_labels).tolist())
    sizes = tuple(len(part) for part in np.array_split(np.arange(len(order)), n_tasks))
    stream = class_stream(dataset, order, sizes)
    pool = shuffled_pool(stream, n_tasks - 1, seed)
    learnt = _learnt(learner, stream, n_tasks)
    expected = protocol.predict(learnt, pool)
    return LeakReport(
        {
            **_present(protocol, learnt, pool, expected, rng),
            **_future(protocol, learner, dataset, stream, rng),
        }
    )


def _learnt(learner: Any, stream: Stream, n_tasks: int) -> Any:
    copy = clone(learner)
    for _, task in zip(range(n_tasks), stream.tasks(), strict=False):
        copy.partial_fit(task.inputs, task.labels)
    return copy


def _present(
    protocol: Protocol, learnt: Any, pool: TestPool, expected: Labels, rng: np.random.Generator
) -> dict[str, int]:
    """Alter the test set: its order, its neighbours, its labels."""
    shuffled = rng.permutation(len(pool.labels))
    alone = rng.permutation(len(pool.labels))[:_ALONE]
    parts = [np.flatnonzero(np.isin(pool.labels, list(classes))) for classes in pool.tasks]
    wrong = TestPool(pool.inputs, rng.permutation(pool.labels), pool.tasks)
    return {
        "test order": _changed(protocol.predict(learnt, pool.rows(shuffled)), expected[shuffled]),
        "single samples": sum(
            _changed(protocol.predict(learnt, pool.rows(np.array([i]))), expected[[i]]) for i in alone
        ),
        "task by task": sum(_changed(protocol.predict(learnt, pool.rows(part)), expected[part]) for part in parts),
        "test labels": _changed(protocol.predict(learnt, wrong), expected),
    }


def _future(
    protocol: Protocol, learner: Any, dataset: Dataset, stream: Stream, rng: np.random.Generator
) -> dict[str, int]:
    """Alter what comes later: fewer classes, other inputs, other labels."""
    now = len(stream.sizes) // 2
    pool = shuffled_pool(stream, now - 1, 0)
    expected = protocol.predict(_learnt(learner, stream, now), pool)
    later = np.flatnonzero(~np.isin(dataset.train_labels, list(stream.seen(now - 1))))
    relabelled = dataset.train_labels.copy()
    relabelled[later] = rng.permutation(relabelled[later])
    renewed = np.arange(len(relabelled))
    renewed[later] = rng.integers(len(relabelled), size=len(later))  # inputs of any class, whatever they are
    altered = {
        "future labels": class_stream(_with(dataset, labels=relabelled), stream.order, stream.sizes),
        "future classes": class_stream(_with(dataset, rows=renewed), stream.order, stream.sizes),
    }
    changed = {
        what: _changed(protocol.predict(_learnt(learner, other, now), pool), expected)
        for what, other in altered.items()
    }
    short = class_stream(dataset, stream.seen(now - 1), stream.sizes[:now])
    changed["future classes"] += _changed(protocol.predict(_learnt(learner, short, now), pool), expected)
    return changed


def _with(dataset: Dataset, rows: Any = None, labels: Any = None) -> Dataset:
    return InputDataset(
        dataset.name,
        dataset.train_inputs if rows is None else dataset.train_inputs[rows],
        dataset.train_labels if labels is None else labels,
        dataset.test_inputs,
        dataset.test_labels,
        dataset.classes,
    )


def _changed(found: Labels, expected: Labels) -> int:
    return int((np.asarray(found) != np.asarray(expected)).sum())


def overlapping_classes(n_classes: int = 12, n: int = 40, dim: int = 16, seed: int = 0) -> FeatureDataset:
    """A data set to check with: classes of non-negative features that overlap, so that small changes show."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0, 4, (n_classes, dim))
    labels = np.repeat(np.arange(n_classes), n)
    parts = [np.abs(rng.normal(centres[labels], 1.5)).astype(np.float32) for _ in range(2)]
    names = tuple(f"c{c:02d}" for c in range(n_classes))
    return FeatureDataset("overlapping classes", parts[0], labels, parts[1], labels.copy(), names)
