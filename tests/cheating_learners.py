"""Learners that know what nobody would know in use, each by a way of its own, for tests of the leak check.

They are the nearest class mean; what they have been told shows in how they scale a test sample.
"""

import hashlib
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from tests.toy_learners import MeanColour, mean_colours, nearest


class Honest(BaseEstimator):
    """The nearest class mean; nobody tells it anything."""

    def partial_fit(self, X, y):
        self.means_ = {**getattr(self, "means_", {}), **{c: X[y == c].mean(0) for c in np.unique(y).tolist()}}
        self.told_ = self._told(X, y)
        return self

    def predict(self, X):
        return self._nearest(X * (1 + self.told_ / 20))

    def _told(self, X, y):
        return 0

    def _nearest(self, X):
        names = list(self.means_)
        distances = np.linalg.norm(X[:, None] - np.array([self.means_[c] for c in names])[None], axis=2)
        return np.array(names)[distances.argmin(1)]


# By the other test samples.


class CentresTheBatch(Honest):
    def predict(self, X):
        return self._nearest(X - X.mean(0) + np.mean(list(self.means_.values()), axis=0))


class VotesByBatch(Honest):
    """Takes neighbouring test samples for one class, as prompt methods with a vote over the batch do."""

    def predict(self, X):
        single = self._nearest(X)
        votes = [np.bincount(single[i : i + 8]).argmax() for i in range(0, len(single), 8)]
        return np.repeat(votes, 8)[: len(single)]


# By its parameters.


class ToldTheNumberOfClasses(Honest):
    def __init__(self, n_classes=100):
        self.n_classes = n_classes

    def _told(self, X, y):
        return self.n_classes


class ToldTheNumberOfTasks(Honest):
    def __init__(self, n_tasks=10):
        self.n_tasks = n_tasks

    def _told(self, X, y):
        return self.n_tasks


class ToldTheClasses(Honest):
    """Names of classes, or sizes of tasks: their number tells."""

    def __init__(self, classes=()):
        self.classes = classes

    def _told(self, X, y):
        return len(self.classes)


class WantsAllClasses(Honest):
    """Takes all classes in advance, as scikit-learn's classifiers do, where somebody hands them over."""

    def partial_fit(self, X, y, classes=None):
        self.handed_ = 0 if classes is None else len(classes)
        return super().partial_fit(X, y)

    def _told(self, X, y):
        return self.handed_


# By the labels.


class CountsLabelsUp(Honest):
    """Where labels are numbers from 0, the largest tells how many classes there are at least."""

    def _told(self, X, y):
        return (int(y.max()) + 1) % 1000


class MeasuresNames(Honest):
    """Where labels are text in an array, each takes as much room as the longest."""

    def _told(self, X, y):
        return y.dtype.itemsize


# By what the inputs lead to.


class FollowsTheView(Honest):
    """A view leads to the array it was cut from."""

    def _told(self, X, y):
        return 0 if X.base is None else len(X.base) / 20


class FollowsTheImages(MeanColour):
    """Some rows of images lead to all of them."""

    def _log_probabilities(self, learnt, inputs):
        rows = mean_colours(inputs) + len(inputs.source) / 100
        return nearest(learnt.state, learnt.classes.tolist(), rows)


class ReadsTheCaller(Honest):
    """The frames of its callers hold the stream."""

    def _told(self, X, y):
        frame = sys._getframe()
        while frame is not None and "stream" not in frame.f_locals:
            frame = frame.f_back
        return 0 if frame is None else len(frame.f_locals["stream"].order)


# By copies that lived before.


class RemembersOtherCopies(Honest):
    """How many classes any copy has learnt so far."""

    most: ClassVar[int] = 0

    def _told(self, X, y):
        type(self).most = max(self.most, len(self.means_))
        return self.most


class GathersFromCopies(Honest):
    """The mean of all that any copy was shown."""

    shown: ClassVar[list] = []

    def _told(self, X, y):
        self.shown.append(X.mean(0))
        return 20 * (np.mean(self.shown, axis=0) - np.mean(list(self.means_.values()), axis=0))


class KeepsFiles(Honest):
    """Writes to a file, named by the first batch, how many classes came after it, and looks there the next time."""

    def __init__(self, folder="."):
        self.folder = folder

    def _told(self, X, y):
        if not hasattr(self, "file_"):
            self.file_ = Path(self.folder) / hashlib.sha256(np.ascontiguousarray(X).tobytes()).hexdigest()
        known = int(self.file_.read_text()) if self.file_.exists() else 0
        self.file_.write_text(str(max(known, len(self.means_))))
        return known
