"""Class means from running sums, the cosine to them, and means that have to be guessed from those of other classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gddsg.core.by_class import rows_by_class
from gddsg.core.label import Label
from gddsg.core.transform import unit

COSINE_SCALE = 16.0
"""Cosines lie within 1 of each other: unscaled, every probability would be near ``1 / n_classes``."""


@dataclass(frozen=True, eq=False)
class ClassMeans:
    """Sums and counts of features by class; learning gives another value.

    Attributes
    ----------
    sums : mapping of int or str to Tensor
        ``(feature_dim,)`` float64 by class.
    counts : mapping of int or str to int
        Samples by class.

    Examples
    --------
    >>> means = ClassMeans().plus(torch.tensor([[1.0, 0.0], [3.0, 2.0]]), ["cat", "cat"])
    >>> means.of(["cat"]).tolist()
    [[2.0, 1.0]]
    """

    sums: Mapping[Label, Tensor] = field(default_factory=dict)
    counts: Mapping[Label, int] = field(default_factory=dict)

    def plus(self, features: Tensor, labels: Sequence[Label]) -> ClassMeans:
        """These and those of a batch, features ``(n, feature_dim)``."""
        sums, counts = dict(self.sums), dict(self.counts)
        for label, rows in rows_by_class(features, labels):
            sums[label] = sums.get(label, 0) + rows.sum(0, dtype=torch.float64).cpu()
            counts[label] = counts.get(label, 0) + len(rows)
        return ClassMeans(sums, counts)

    def of(self, labels: Sequence[Label]) -> Tensor:
        """Means ``(n_classes, feature_dim)`` float64, in the order of ``labels``."""
        return torch.stack([self.sums[label] / self.counts[label] for label in labels])


def cosines(vectors: Tensor, others: Tensor) -> Tensor:
    """``cos(x, y)`` of all pairs, ``(n, dim)`` and ``(m, dim)`` to ``(n, m)`` float64; 0 where one of them is zero."""
    return unit(vectors.double()) @ unit(others.double()).T


def synthesised_means(old: Tensor, new: Tensor, new_elsewhere: Tensor) -> Tensor:
    """``softmax(cos(old, new)) · new_elsewhere``: where old classes may lie in a space that never saw their samples.

    Parameters
    ----------
    old, new : Tensor
        Means of old classes ``(n_old, dim)`` and of new ones ``(n_new, dim)`` in a space that knows both.
    new_elsewhere : Tensor
        Means of the new classes in the other space, ``(n_new, other_dim)``.
    """
    return cosines(old, new).softmax(1) @ new_elsewhere.double()
