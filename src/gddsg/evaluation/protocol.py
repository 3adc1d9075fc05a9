"""The protocol: learn a task, test on all classes seen so far, and again, with nothing told that a user would not know.

``honest`` is the only protocol whose numbers compare with anything. The others answer a question about it and are
labelled wherever they appear: ``released`` is how the code released with the paper evaluates, ``oracle-group`` is what
a perfect identification of groups would give, ``batch-wise-prompts`` is how the code released with L2P and DualPrompt
tests them, ``task-aware`` is how methods were published that have a head for every task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gddsg.core.label import Label
from gddsg.data.dataset import Inputs
from gddsg.data.stream import Stream, own_rows
from gddsg.errors import InputError
from gddsg.evaluation.batch_wise import predict_by_vote
from gddsg.evaluation.metrics import accuracy_in_group, class_accuracies, expected_calibration_error, group_accuracy
from gddsg.learners.base import pickled_bytes

Labels = NDArray[Any]

_CONFUSIONS = 20


@dataclass(frozen=True, eq=False)
class TestPool:
    """Test samples of all classes seen so far, in random order.

    A protocol that does not leak looks at ``inputs`` alone.

    Attributes
    ----------
    inputs : Inputs
        Features or images, with nothing about them that :func:`gddsg.data.stream.own_rows` takes away.
    labels : ndarray
        ``(n_samples,)``, the truth.
    tasks : tuple of tuple
        The classes of every task so far.
    """

    __test__ = False  # not a test case, whatever pytest makes of the name

    inputs: Inputs
    labels: Labels
    tasks: tuple[tuple[Label, ...], ...]

    def rows(self, chosen: NDArray[Any]) -> TestPool:
        """Some of the samples."""
        return TestPool(own_rows(self.inputs, chosen), self.labels[chosen], self.tasks)


@dataclass(frozen=True)
class Protocol:
    """A way to get predictions from a learner.

    Attributes
    ----------
    name : str
        What records and reports call it.
    predict : callable
        Labels predicted for a pool.
    identify : callable or None
        Groups predicted for a pool, by a learner that has groups; None where nothing is identified.
    leaks : str
        What it tells the learner that nobody knows in use; empty for an honest one.
    """

    name: str
    predict: Callable[[Any, TestPool], Labels]
    identify: Callable[[Any, TestPool], Labels] | None
    leaks: str = ""


@dataclass(frozen=True, eq=False)
class StepResult:
    """What was measured after one task.

    Attributes
    ----------
    accuracies : ndarray
        Accuracy of every class seen, in order of appearance.
    seconds_learning, seconds_predicting : float
        Wall-clock time of learning since the result before, and of testing.
    state_bytes : int
        What the learner carries from this task to the next.
    groups : int or None
        Number of class groups; None for a learner without groups.
    labels, predictions : ndarray
        Of the test pool.
    """

    accuracies: NDArray[np.float64]
    seconds_learning: float
    seconds_predicting: float
    state_bytes: int
    groups: int | None
    labels: Labels
    predictions: Labels

    def confusions(self, most: int = _CONFUSIONS) -> list[tuple[Any, Any, int]]:
        """Truth, what it was taken for and how often, the most frequent first."""
        wrong = self.labels != self.predictions
        pairs = Counter(zip(self.labels[wrong].tolist(), self.predictions[wrong].tolist(), strict=True))
        ranked = sorted(pairs.items(), key=lambda pair: (-pair[1], str(pair[0])))
        return [(truth, taken_for, times) for (truth, taken_for), times in ranked[:most]]


def _honest(learner: Any, pool: TestPool) -> Labels:
    return np.asarray(learner.predict(pool.inputs))


def _released(learner: Any, pool: TestPool) -> Labels:
    if not hasattr(learner, "predict_knowing_task"):
        raise InputError(
            f"The protocol 'released' was given a {type(learner).__name__}; expected the released recipe, "
            "ReleasedRecipe, which alone wants to be told the task of a test sample."
        )
    return _task_by_task(learner.predict_knowing_task, pool, pool.labels.dtype)


def _released_groups(learner: Any, pool: TestPool) -> Labels:
    return _task_by_task(learner.identify_knowing_task, pool, np.dtype(np.int64))


def _task_by_task(ask: Callable[..., Labels], pool: TestPool, dtype: np.dtype[Any]) -> Labels:
    answers = np.empty(len(pool.labels), dtype=dtype)
    for classes in pool.tasks:
        own = np.isin(pool.labels, list(classes))  # this is the leak: the truth decides whose prototypes are used
        if own.any():
            answers[own] = ask(pool.inputs[own], classes)
    return answers


def _oracle_group(learner: Any, pool: TestPool) -> Labels:
    if not hasattr(learner, "predict_in_group"):
        raise InputError(
            f"The protocol 'oracle-group' was given a {type(learner).__name__}, which has no groups; use it with GDDSG."
        )
    return np.asarray(learner.predict_in_group(pool.inputs, _true_groups(learner, pool.labels)))


def _true_groups(learner: Any, labels: Labels) -> NDArray[np.int64]:
    group_of = {label: group for group, members in enumerate(learner.class_groups_) for label in members}
    return np.array([group_of[label] for label in labels.tolist()], dtype=np.int64)


def _batch_wise(learner: Any, pool: TestPool) -> Labels:
    answers = np.empty(len(pool.labels), dtype=pool.labels.dtype)
    for classes in pool.tasks:
        # this is the leak: the truth decides who chooses prompts together
        rows = np.concatenate([np.flatnonzero(pool.labels == label) for label in classes])
        if len(rows):
            answers[rows] = predict_by_vote(learner, pool.inputs[rows])
    return answers


def _task_aware(learner: Any, pool: TestPool) -> Labels:
    if not hasattr(learner, "predict_in_task"):
        raise InputError(
            f"The protocol 'task-aware' was given a {type(learner).__name__}; expected a method with a head for every "
            "task, such as APD, APDfix or HALRP, which can be told the task of a test sample."
        )
    return _task_by_task(learner.predict_in_task, pool, pool.labels.dtype)


HONEST = Protocol("honest", _honest, lambda learner, pool: np.asarray(learner.predict_group(pool.inputs)))
RELEASED = Protocol("released", _released, _released_groups, leaks="the task of each test sample is told")
ORACLE_GROUP = Protocol("oracle-group", _oracle_group, None, leaks="the group of each test sample is told: a bound")
BATCH_WISE = Protocol(
    "batch-wise-prompts", _batch_wise, None, leaks="test samples of a class are tested together and share prompts"
)
TASK_AWARE = Protocol("task-aware", _task_aware, None, leaks="the task of each test sample is told, as published")

PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol for protocol in (HONEST, RELEASED, ORACLE_GROUP, BATCH_WISE, TASK_AWARE)
}
"""The protocols by name."""


def shuffled_pool(stream: Stream, step: int, seed: int) -> TestPool:
    """The test samples of all classes seen after task ``step``, shuffled."""
    ends = np.cumsum(stream.sizes)[: step + 1].tolist()
    tasks = tuple(tuple(stream.order[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True))
    rows = np.flatnonzero(np.isin(stream.test_labels, list(stream.seen(step))))
    rows = np.random.default_rng([seed, step]).permutation(rows)
    return TestPool(own_rows(stream.test_inputs, rows), stream.test_labels[rows], tasks)


def evaluate_stream(
    learner: Any, stream: Stream, protocol: Protocol = HONEST, seed: int = 0, only_last: bool = False
) -> Iterator[StepResult]:
    """Learn task after task and test after each on all classes seen so far: one shuffled pool, bare inputs.

    Parameters
    ----------
    learner : object
        Unfitted; has ``partial_fit(X, y)`` and what the protocol asks of it.
    stream : Stream
        The tasks, and the test samples; of features or of images, whatever the learner takes.
    protocol : Protocol
        How predictions are asked for.
    seed : int
        Of the shuffling of the test samples.
    only_last : bool
        Test after the last task only.
    """
    learning = 0.0
    for step, task in enumerate(stream.tasks()):
        start = perf_counter()
        learner.partial_fit(task.inputs, task.labels)
        learning += perf_counter() - start
        if only_last and step < len(stream.sizes) - 1:
            continue
        pool, size = shuffled_pool(stream, step, seed), int(_state_bytes(learner))
        start = perf_counter()
        predictions = protocol.predict(learner, pool)
        predicting = perf_counter() - start
        found = class_accuracies(pool.labels, predictions)
        yield StepResult(
            accuracies=np.array([found.get(label, np.nan) for label in stream.seen(step)]),
            seconds_learning=learning,
            seconds_predicting=predicting,
            state_bytes=size,
            groups=len(learner.class_groups_) if hasattr(learner, "class_groups_") else None,
            labels=pool.labels,
            predictions=predictions,
        )
        learning = 0.0


def closing_metrics(
    learner: Any, stream: Stream, last: StepResult, protocol: Protocol = HONEST, seed: int = 0
) -> dict[str, float]:
    """What can be told of a learner of the last task: calibration, and how well it identifies groups; as shares.

    A learner whose ``calibrated`` is False has no calibration error: the scale of its scores is not the method's own.

    Parameters
    ----------
    learner : object
        As :func:`evaluate_stream` left it.
    stream : Stream
        The same as there.
    last : StepResult
        The last result of :func:`evaluate_stream`.
    protocol : Protocol
        The same as there.
    seed : int
        The same as there.
    """
    pool, found = shuffled_pool(stream, len(stream.sizes) - 1, seed), {}
    if protocol is HONEST and hasattr(learner, "predict_proba") and getattr(learner, "calibrated", True):
        found["ECE"] = expected_calibration_error(learner.predict_proba(pool.inputs), pool.labels, learner.classes_)
    if protocol.identify is not None and hasattr(learner, "class_groups_"):
        truth, guess = _true_groups(learner, pool.labels), protocol.identify(learner, pool)
        found["group_accuracy"] = group_accuracy(truth, guess)
        found["accuracy_in_group"] = accuracy_in_group(truth, guess, last.labels, last.predictions)
    return found


def _state_bytes(learner: Any) -> int:
    """What a learner says it carries on; the size of its pickle where it is no :class:`gddsg.learners.Learner`."""
    return int(learner.state_bytes()) if hasattr(learner, "state_bytes") else pickled_bytes(learner)
