"""The leak check passes what is honest and finds what is not."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from gddsg import GDDSG, LEARNERS
from gddsg.evaluation.leak_check import leak_check, overlapping_classes
from gddsg.evaluation.protocol import ORACLE_GROUP, RELEASED
from gddsg.evaluation.released import ReleasedRecipe


@pytest.mark.parametrize("name", LEARNERS)
def test_no_learner_leaks(name):
    report = leak_check(LEARNERS[name](**LEARNERS[name].test_params()), overlapping_classes())
    assert not report.leaks, str(report)
    assert set(report.changed) == {
        "test order",
        "single samples",
        "task by task",
        "test labels",
        "future classes",
        "future labels",
    }


def test_the_released_protocol_leaks():
    report = leak_check(ReleasedRecipe(projection_dim=64, trials=5), overlapping_classes(), protocol=RELEASED)
    assert report.changed["test labels"] > 0
    assert "test labels" in str(report)


def test_an_oracle_of_groups_leaks():
    report = leak_check(GDDSG(projection_dim=64), overlapping_classes(), protocol=ORACLE_GROUP)
    assert report.changed["test labels"] > 0


class _NearestMean(BaseEstimator):
    def partial_fit(self, X, y):
        self.means_ = {**getattr(self, "means_", {}), **{c: X[y == c].mean(0) for c in np.unique(y).tolist()}}
        return self

    def _nearest(self, X):
        names = list(self.means_)
        distances = np.linalg.norm(X[:, None] - np.array([self.means_[c] for c in names])[None], axis=2)
        return np.array(names)[distances.argmin(1)]

    def predict(self, X):
        return self._nearest(X)


class _CentresTheBatch(_NearestMean):
    """Knows the other test samples."""

    def predict(self, X):
        return self._nearest(X - X.mean(0) + np.mean(list(self.means_.values()), axis=0))


class _VotesByBatch(_NearestMean):
    """Takes neighbouring test samples for one class, as prompt methods with a vote over the batch do."""

    def predict(self, X):
        single = self._nearest(X)
        votes = [np.bincount(single[i : i + 8]).argmax() for i in range(0, len(single), 8)]
        return np.repeat(votes, 8)[: len(single)]


class _KnowsTheFuture(_NearestMean):
    """Remembers, outside of itself, what other runs on the data set were shown: classes that are yet to come."""

    shown: ClassVar[list] = []

    def partial_fit(self, X, y):
        self.shown.append(X.mean(0))
        super().partial_fit(X, y)
        self.shift_ = np.mean(self.shown, axis=0) - np.mean(list(self.means_.values()), axis=0)
        return self

    def predict(self, X):
        return self._nearest(X * (1 + self.shift_))


@pytest.mark.parametrize(
    ("learner", "found"),
    [(_CentresTheBatch(), "task by task"), (_VotesByBatch(), "test order"), (_KnowsTheFuture(), "future labels")],
)
def test_leaking_learners_are_found(learner, found):
    assert not leak_check(_NearestMean(), overlapping_classes()).leaks
    report = leak_check(learner, overlapping_classes())
    assert report.changed[found] > 0
    assert found in str(report)
