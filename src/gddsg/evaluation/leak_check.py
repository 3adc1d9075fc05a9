"""The leak check: whether anything reaches a prediction that nobody would know in use.

A learner can be told of the future in many ways: by a parameter set with the data set in view, by labels that count up
to the number of classes, by an object that leads to the whole data set, by the frames of its caller, by a copy of
itself that has lived before. The check does not look for the way. It alters what must not matter and compares
predictions: it finds that something got through, whichever way it came, and nothing where predictions do not show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from gddsg.core.label import Label
from gddsg.data.dataset import Dataset, FeatureDataset, InputDataset
from gddsg.data.stream import Stream, class_stream, own_labels, own_rows, task_sizes
from gddsg.errors import InputError
from gddsg.evaluation.protocol import HONEST, Labels, Protocol, TestPool, shuffled_pool
from gddsg.wording import counted

_ALONE = 48
_LEFT_OUT = 0.1
_ROUNDING = 1e-6


@dataclass(frozen=True)
class LeakReport:
    """How many predictions changed with something that must not matter.

    Attributes
    ----------
    changed : dict of str to int
        By what was altered. About the test samples: ``test order``, ``single samples``, ``task by task``,
        ``test labels``. About what a learner of the first tasks might be told: ``repetition`` (nothing is altered: only
        chance can change a prediction), ``label values``, ``parameters``, ``future classes``, ``future samples``,
        ``earlier copies`` (another copy has learnt what is yet to come); here a probability that changed counts too.
    """

    changed: dict[str, int]

    @property
    def leaks(self) -> bool:
        """Whether any prediction changed."""
        return any(self.changed.values())

    def __str__(self) -> str:
        if not self.leaks:
            return "No leak found."
        found = ", ".join(f"{what} ({counted(count, 'prediction')})" for what, count in self.changed.items() if count)
        return f"Predictions depend on what must not matter: {found}."


def leak_check(
    learner: Any, dataset: Dataset, n_tasks: int = 4, protocol: Protocol = HONEST, seed: int = 0
) -> LeakReport:
    """Put a learner through everything that must not change its predictions.

    Parameters
    ----------
    learner : object
        Unfitted, with the parameters it would have on this data set; copies of it are used.
    dataset : Dataset
        Of features or images, with at least ``n_tasks`` classes; better one that is not too easy, or nothing can
        change.
    n_tasks : int
        From 2; the classes come in so many tasks; half of them are then the future.
    protocol : Protocol
        How predictions are asked for.
    seed : int
        Of all alterations, and of the samples used: nine in ten, so that no earlier run can have met these very tasks.
        Give another seed to check again a learner that may have kept something of the last check.

    Examples
    --------
    >>> from gddsg import SimpleCIL
    >>> from gddsg.evaluation.leak_check import leak_check, overlapping_classes
    >>> print(leak_check(SimpleCIL(), overlapping_classes()))
    No leak found.
    """
    if n_tasks < 2:
        raise InputError(f"n_tasks={n_tasks!r} was given; expected at least 2: some must be yet to come.")
    rng = np.random.default_rng(seed)
    stream = _in_tasks(_drawn(dataset, rng), n_tasks)
    told = _told(protocol, learner, stream, dataset.classes, rng)  # first: no copy has seen a later task yet
    learnt, pool = _learnt(learner, stream, n_tasks), shuffled_pool(stream, n_tasks - 1, seed)
    return LeakReport({**_asked(protocol, learnt, pool, rng), **told})


def _learnt(learner: Any, stream: Stream, n_tasks: int) -> Any:
    """A copy that has learnt the first tasks, with the whole stream at hand as in any evaluation."""
    copy = clone(learner)
    for task in islice(stream.tasks(), n_tasks):
        copy.partial_fit(task.inputs, task.labels)
    return copy


# Test samples.


def _asked(protocol: Protocol, learnt: Any, pool: TestPool, rng: np.random.Generator) -> dict[str, int]:
    """Alter the test set: its order, its neighbours, its labels."""
    expected = protocol.predict(learnt, pool)
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


# What is told in advance.


def _told(
    protocol: Protocol, learner: Any, stream: Stream, names: tuple[str, ...], rng: np.random.Generator
) -> dict[str, int]:
    """Learn the first tasks again and again, each time with something else that must not matter."""
    now = len(stream.sizes) // 2
    short, other = _without_future(stream, now), _another_future(stream, now, rng)
    renamed, new_names = _renamed(short)

    def answers(given: Any, known: Stream) -> _Answers:
        return _answers(protocol, _learnt(given, known, now), shuffled_pool(known, now - 1, 0))

    expected = answers(learner, short)
    changed = {
        "repetition": answers(learner, short).unlike(expected),
        "label values": answers(learner, renamed).unlike(expected, new_names),
        "parameters": answers(_retold(learner, stream, now, names), short).unlike(expected),
        "future classes": answers(learner, stream).unlike(expected),
        "future samples": answers(learner, other).unlike(expected),
    }
    for known in (other, stream):  # two futures, so that one that was met before the check cannot hide the other
        protocol.predict(_learnt(learner, known, len(known.sizes)), shuffled_pool(known, len(known.sizes) - 1, 0))
    return {**changed, "earlier copies": answers(learner, short).unlike(expected)}


@dataclass(frozen=True, eq=False)
class _Answers:
    """Labels, and probabilities where there are any: these show what is too little to change a label."""

    labels: Labels
    probabilities: NDArray[np.float64] | None

    def unlike(self, expected: _Answers, names: Mapping[Label, Label] | None = None) -> int:
        """How many predictions differ from those expected, whose labels have new names perhaps."""
        wrong = self.labels != (expected.labels if names is None else _mapped(expected.labels, names))
        if self.probabilities is None or expected.probabilities is None:
            return int(wrong.sum())
        if self.probabilities.shape != expected.probabilities.shape:
            return len(wrong)
        return int((wrong | (np.abs(self.probabilities - expected.probabilities) > _ROUNDING).any(1)).sum())


def _answers(protocol: Protocol, learnt: Any, pool: TestPool) -> _Answers:
    labels = np.asarray(protocol.predict(learnt, pool))
    scored = protocol is HONEST and hasattr(learnt, "predict_proba")
    return _Answers(labels, np.asarray(learnt.predict_proba(pool.inputs)) if scored else None)


def _without_future(stream: Stream, now: int) -> Stream:
    """The first tasks, from a data set that has no other classes."""
    seen = stream.seen(now - 1)
    train, test = (np.flatnonzero(np.isin(labels, list(seen))) for labels in (stream.train_labels, stream.test_labels))
    return class_stream(_parted(stream, train, test), seen, stream.sizes[:now])


def _another_future(stream: Stream, now: int, rng: np.random.Generator) -> Stream:
    """The same first tasks, then twice the classes in twice the tasks, with new names and inputs of any class."""
    seen = stream.seen(now - 1)
    halves = _names_of_halves(stream.order, seen)
    train, test = (_split(labels, halves) for labels in (stream.train_labels, stream.test_labels))
    later = np.flatnonzero(~np.isin(train, list(seen)))
    rows = np.arange(len(train))
    rows[later] = rng.integers(len(train), size=len(later))
    added = sorted((set(train.tolist()) & set(test.tolist())) - set(seen))
    n_tasks = min(2 * (len(stream.sizes) - now), len(added))
    data = InputDataset("another future", own_rows(stream.train_inputs, rows), train, stream.test_inputs, test, ())
    return class_stream(data, (*seen, *added), (*stream.sizes[:now], *task_sizes(len(added), n_tasks)))


def _names_of_halves(order: Sequence[Label], seen: Sequence[Label]) -> dict[Label, tuple[Label, Label]]:
    """Two new labels for every class yet to come, beyond those there are and longer than any of them."""
    top = max((label for label in order if isinstance(label, int)), default=0) + 1
    return {
        label: (top + 2 * rank, top + 2 * rank + 1)
        if isinstance(label, int)
        else (f"{label}, the first half of a class that is yet to come", f"{label}, the other half of it")
        for rank, label in enumerate(order[len(seen) :])
    }


def _split(labels: Labels, halves: Mapping[Label, tuple[Label, Label]]) -> Labels:
    """Labels by which every second sample of a class belongs to its other half."""
    split: list[Label] = labels.tolist()
    for label, names in halves.items():
        for count, row in enumerate(np.flatnonzero(labels == label).tolist()):
            split[row] = names[count % 2]
    return np.array(split)


def _renamed(stream: Stream) -> tuple[Stream, Mapping[Label, Label]]:
    """The stream with other labels in the same order: large numbers far apart, or longer names."""
    classes = sorted(stream.order)
    names: dict[Label, Label] = {
        label: 1000 * rank + 7007 if isinstance(label, int) else f"class {rank:09} that was {label}"
        for rank, label in enumerate(classes)
    }
    labels = (_mapped(known, names) for known in (stream.train_labels, stream.test_labels))
    data = InputDataset("renamed", stream.train_inputs, next(labels), stream.test_inputs, next(labels), ())
    return class_stream(data, [names[label] for label in stream.order], stream.sizes), names


def _retold(learner: Any, stream: Stream, now: int, names: tuple[str, ...]) -> Any:
    """A copy whose parameters speak of the first tasks where they spoke of all."""
    found = {
        name: _cut_down(value, stream, now, names)
        for name, value in learner.get_params(deep=False).items()
        if not _is_default(learner, name, value)
    }
    return clone(learner).set_params(**found)


def _cut_down(value: Any, stream: Stream, now: int, names: tuple[str, ...]) -> Any:
    """The number of classes or tasks, the sizes of tasks, or a list of classes, as it would be without the future."""
    seen = stream.seen(now - 1)
    numbers = {len(stream.order): len(seen), len(stream.sizes): now}
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return numbers.get(int(value), value)
    if not isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return value
    entries = value.tolist() if isinstance(value, np.ndarray) else list(value)
    later: set[Any] = {*stream.order} - {*seen}
    later |= {names[label] for label in later if isinstance(label, int) and 0 <= label < len(names)}
    kept = entries[:now] if tuple(entries) == stream.sizes else [one for one in entries if not _among(one, later)]
    if len(kept) == len(entries):
        return value
    return np.array(kept) if isinstance(value, np.ndarray) else type(value)(kept)


def _among(one: Any, later: set[Any]) -> bool:
    return isinstance(one, int | str) and one in later


def _is_default(learner: Any, name: str, value: Any) -> bool:
    """Whether a parameter is what it would be on any data set; whole numbers may be equal by another object."""
    parameter = signature(type(learner)).parameters.get(name)
    if parameter is None:
        return False
    return value is parameter.default or (isinstance(value, int) and bool(value == parameter.default))


# Data sets with something altered.


def _in_tasks(dataset: Dataset, n_tasks: int) -> Stream:
    order = tuple(np.unique(dataset.train_labels).tolist())
    return class_stream(dataset, order, task_sizes(len(order), n_tasks))


def _drawn(dataset: Dataset, rng: np.random.Generator) -> Dataset:
    """Most of the training samples, one of every class at least: a selection that nobody has met before."""
    kept = rng.random(len(dataset.train_labels)) >= _LEFT_OUT
    kept[np.unique(dataset.train_labels, return_index=True)[1]] = True
    return _parted(dataset, np.flatnonzero(kept), np.arange(len(dataset.test_labels)))


def _parted(data: Dataset | Stream, train: NDArray[np.intp], test: NDArray[np.intp]) -> Dataset:
    """Some of the samples, from which nobody can get to the others."""
    return InputDataset(
        "some of the samples",
        own_rows(data.train_inputs, train),
        own_labels(data.train_labels, train),
        own_rows(data.test_inputs, test),
        own_labels(data.test_labels, test),
        (),
    )


def _mapped(labels: Labels, names: Mapping[Label, Label]) -> Labels:
    return np.array([names.get(label, label) for label in labels.tolist()])


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
