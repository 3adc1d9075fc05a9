"""A first look at all classes of a large model, in the directions in which classes differ most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gddsg.core.decompositions import symmetric_eigen
from gddsg.core.discriminant import moments_in
from gddsg.core.metric import Metric

Halves = NDArray[np.float32]

LEADING_DIRECTIONS = 192
"""With so many, what the first look misses is in ``benchmarks/records/classes.json``."""

LISTED_CLASSES = 768


@dataclass(frozen=True, eq=False)
class Leading:
    """The directions in which the classes differ most that a metric is made of.

    Like the metric they follow from a sample of the classes, so that a newcomer seldom moves them.

    Attributes
    ----------
    centre : ndarray
        ``(dim,)`` float32, middle of the whitened means.
    basis : ndarray
        ``(dim, n_directions)`` float32, orthonormal.
    """

    centre: Halves
    basis: Halves

    @classmethod
    def of(cls, metric: Metric) -> Leading:
        """Those of a metric, by the singular vectors of its whitened means."""
        means = metric.whiten(torch.stack([moments_in(metric, card).mean for card in metric.sample])).float()
        centre = means.mean(0)
        apart = (means - centre).double()
        _, vectors = symmetric_eigen(apart.T @ apart)
        count = min(LEADING_DIRECTIONS, max(len(means) - 1, 1))
        return cls(centre.numpy(), vectors.flip(1)[:, :count].float().contiguous().numpy())

    def places(self, whitened: NDArray[np.floating]) -> Halves:
        """Whitened vectors ``(n, dim)`` in these directions, ``(n, n_directions)``."""
        found: Halves = np.matmul(whitened.astype(np.float32) - self.centre, self.basis)
        return found


@dataclass(frozen=True, eq=False)
class Shortlist:
    """Picks the classes that deserve an exact score.

    Attributes
    ----------
    leading : Leading
        The directions.
    places : ndarray
        ``(n_classes, n_directions)`` float32, of the class means.
    biases : ndarray
        ``(n_classes,)`` float32, half of the squared lengths of the places, less what the means err by.
    """

    leading: Leading
    places: Halves
    biases: Halves

    @classmethod
    def of(cls, leading: Leading, places: Halves, allowances: NDArray[np.float64]) -> Shortlist:
        """Of all classes of a model."""
        return cls(leading, places, ((np.square(places).sum(1) - allowances) / 2).astype(np.float32))

    def rough_scores(self, whitened: NDArray[np.float64]) -> Halves:
        """Scores ``(n, n_classes)`` by the leading directions alone, row by row up to a constant."""
        scores: Halves = self.leading.places(whitened) @ self.places.T
        scores -= self.biases
        return scores


def pick(scores: Halves, most: int) -> NDArray[np.intp]:
    """Columns ``(n, ≤ most)`` of the highest scores of each row, in the order of the columns."""
    if scores.shape[1] <= most:
        return np.tile(np.arange(scores.shape[1]), (len(scores), 1))
    listed = np.argpartition(scores, -most, axis=1)[:, -most:]
    listed.sort(axis=1)
    return listed
