"""The protocol: what a learner is shown, and what is measured."""

import numpy as np
import pytest

from gddsg import GDDSG, SimpleCIL
from gddsg.data import class_stream, task_sizes
from gddsg.errors import InputError
from gddsg.evaluation.leak_check import overlapping_classes
from gddsg.evaluation.protocol import (
    BATCH_WISE,
    ORACLE_GROUP,
    PROTOCOLS,
    RELEASED,
    TASK_AWARE,
    closing_metrics,
    evaluate_stream,
    shuffled_pool,
)


@pytest.fixture
def stream():
    data = overlapping_classes()
    order = tuple(np.random.RandomState(0).permutation(12).tolist())
    return class_stream(data, order, task_sizes(12, 4))


class Spy:
    """Learns nothing and remembers what it was shown."""

    def __init__(self):
        self.learnt, self.asked = [], []

    def partial_fit(self, X, y):
        self.learnt.append((X, y))
        return self

    def state_bytes(self):
        return 0

    def predict(self, *arguments):
        self.asked.append(arguments)
        return np.full(len(arguments[0]), self.learnt[0][1][0])


def test_a_learner_sees_the_present_task_and_bare_inputs(stream):
    spy = Spy()
    results = list(evaluate_stream(spy, stream))
    assert [set(y.tolist()) for _, y in spy.learnt] == [set(stream.order[i : i + 3]) for i in (0, 3, 6, 9)]
    assert all(len(arguments) == 1 for arguments in spy.asked)
    assert [len(X) for (X,) in spy.asked] == [3 * 40 * (i + 1) for i in range(4)]
    assert [len(result.accuracies) for result in results] == [3, 6, 9, 12]


def test_test_samples_of_all_tasks_are_mixed(stream):
    pool = shuffled_pool(stream, 3, 0)
    first_half = {label for label in pool.labels[: len(pool.labels) // 2].tolist()}
    assert first_half == set(stream.order)
    changes = int((pool.labels[1:] != pool.labels[:-1]).sum())
    assert changes > 0.8 * len(pool.labels)


def test_accuracies_are_those_of_the_classes_in_order_of_appearance(stream):
    learner = SimpleCIL()
    *_, last = evaluate_stream(learner, stream)
    for label, accuracy in zip(stream.order, last.accuracies, strict=True):
        rows = stream.test_labels == label
        assert accuracy == pytest.approx(np.mean(learner.predict(stream.test_inputs[rows]) == label))
    assert last.groups is None
    assert last.seconds_learning > 0
    assert last.seconds_predicting > 0
    assert last.state_bytes == pytest.approx(learner.state_bytes())


def test_only_the_last_task_can_be_tested(stream):
    every = list(evaluate_stream(SimpleCIL(), stream))
    (last,) = evaluate_stream(SimpleCIL(), stream, only_last=True)
    assert np.array_equal(last.accuracies, every[-1].accuracies)


def test_confusions_are_counted(stream):
    *_, last = evaluate_stream(SimpleCIL(), stream)
    confusions = last.confusions(10**6)
    assert sum(times for *_, times in confusions) == int((last.labels != last.predictions).sum())
    assert [times for *_, times in confusions] == sorted((times for *_, times in confusions), reverse=True)
    truth, taken_for, times = confusions[0]
    assert times == int(((last.labels == truth) & (last.predictions == taken_for)).sum())


def test_an_oracle_of_groups_is_an_upper_bound(stream):
    learner = GDDSG(projection_dim=64, decision="hard")
    *_, honest = evaluate_stream(learner, stream)
    *_, told = evaluate_stream(GDDSG(projection_dim=64, decision="hard"), stream, ORACLE_GROUP)
    assert honest.groups == len(learner.class_groups_) > 1
    assert told.accuracies.mean() > honest.accuracies.mean()
    found = closing_metrics(learner, stream, honest)
    assert found["group_accuracy"] * found["accuracy_in_group"] == pytest.approx(honest.accuracies.mean(), abs=1e-9)
    assert 0 <= found["ECE"] < 0.5


class ByItself:
    """A user's learner, which knows nothing of ours."""

    def __init__(self):
        self.inner = SimpleCIL()

    def partial_fit(self, X, y):
        self.inner.partial_fit(X, y)

    def predict(self, X):
        return self.inner.predict(X)

    def predict_proba(self, X):
        return self.inner.predict_proba(X)

    @property
    def classes_(self):
        return self.inner.classes_


def test_calibration_is_measured_where_probabilities_are_the_methods_own(stream):
    for learner, measured in ((SimpleCIL(), False), (ByItself(), True), (GDDSG(projection_dim=64), True)):
        *_, last = evaluate_stream(learner, stream)
        assert ("ECE" in closing_metrics(learner, stream, last)) == measured


def test_protocols_that_leak_say_so_and_need_their_own_learners(stream):
    assert [name for name, protocol in PROTOCOLS.items() if not protocol.leaks] == ["honest"]
    for protocol in (RELEASED, ORACLE_GROUP, BATCH_WISE, TASK_AWARE):
        with pytest.raises(InputError, match=protocol.name):
            next(evaluate_stream(SimpleCIL(), stream, protocol))
