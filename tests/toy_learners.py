"""Small honest learners, for tests that need one that is easy to see through."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from gddsg.core.by_class import rows_by_class
from gddsg.core.label import Label
from gddsg.data.images import Images
from gddsg.learners import FeatureLearner, ImageLearner, Learnt

Sums = Mapping[Label, tuple[int, Tensor]]


def with_rows(sums: Sums, rows: Tensor, labels: Sequence[Label]) -> Sums:
    """Count and sum of every class, with those of a batch."""
    found = dict(sums)
    for label, own in rows_by_class(rows, labels):
        count, total = found.get(label, (0, 0))
        found[label] = (count + len(own), total + own.sum(0, dtype=torch.float64))
    return found


def nearest(sums: Sums, classes: list[Label], rows: Tensor) -> Tensor:
    """Log-probabilities from squared distances to class means."""
    means = torch.stack([sums[label][1] / sums[label][0] for label in classes])
    return (-(rows.double()[:, None] - means).square().sum(2)).log_softmax(1)


class NearestMean(FeatureLearner[Sums]):
    """The nearest class mean of features."""

    fixed_by_learning = ("scale",)

    def __init__(self, scale: float = 1.0):
        self.scale = scale

    def _next_state(self, state, inputs, labels):
        return with_rows(state or {}, inputs * self.scale, labels)

    def _log_probabilities(self, learnt: Learnt[Sums], inputs):
        return nearest(learnt.state, learnt.classes.tolist(), inputs * self.scale)


class MeanColour(ImageLearner[Sums]):
    """The nearest class by the mean colour of its images."""

    def _next_state(self, state, inputs, labels):
        return with_rows(state or {}, mean_colours(inputs), labels)

    def _log_probabilities(self, learnt: Learnt[Sums], inputs):
        return nearest(learnt.state, learnt.classes.tolist(), mean_colours(inputs))


def mean_colours(images: Images) -> Tensor:
    return torch.from_numpy(images.pixels(8).astype(np.float64).mean((1, 2)) / 16)
