"""Samples themselves, for the learners that are allowed to keep some: references, not class-incremental methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gddsg.core.by_class import rows_by_class
from gddsg.core.content_hash import hash_rows
from gddsg.core.label import Label


@dataclass(frozen=True, eq=False)
class KeptSamples:
    """Rows of features by class, in the order of their content hash: whatever came when, equal samples lie alike.

    Attributes
    ----------
    rows : mapping of int or str to Tensor
        ``(n_class, feature_dim)`` float32 by class.
    quota : int or None
        Samples that a class may keep, since some had to go; None as long as all are there.
    """

    rows: Mapping[Label, Tensor] = field(default_factory=dict)
    quota: int | None = None

    def plus(self, features: Tensor, labels: Sequence[Label]) -> KeptSamples:
        """These and a batch of further samples.

        Parameters
        ----------
        features : Tensor
            ``(n, feature_dim)``.
        labels : sequence of int or str
            One for every row.
        """
        rows = dict(self.rows)
        for label, new in rows_by_class(features, labels):
            rows[label] = _by_hash(torch.cat([rows[label], new.cpu()]) if label in rows else new.cpu())
        return KeptSamples(rows, self.quota)

    def cut(self, budget: int) -> KeptSamples:
        """At most ``budget`` samples, an equal number of every class as far as it has them, at least one of each.

        Those of the lowest hash stay. More samples never raise the number a class may keep, so that cutting again and
        again, by the same budget, leaves what one cut at the end would have left.
        """
        counts = [len(own) for own in self.rows.values()]
        quota = equal_quota(counts, budget)
        if self.quota is not None:
            quota = min(quota, self.quota)  # samples that went earlier are not in the counts any more
        rows = {label: own[:quota].clone() for label, own in self.rows.items()}
        return KeptSamples(rows, quota if max(counts, default=0) > quota else self.quota)

    @property
    def nbytes(self) -> int:
        """Size of all rows."""
        return sum(own.nbytes for own in self.rows.values())

    def joined(self, labels: Sequence[Label]) -> tuple[Tensor, Tensor]:
        """All rows ``(n, feature_dim)``, class after class in the order of ``labels``, and the index of their class."""
        counts = torch.tensor([len(self.rows[label]) for label in labels])
        return torch.cat([self.rows[label] for label in labels]), torch.arange(len(labels)).repeat_interleave(counts)


def equal_quota(counts: Sequence[int], budget: int) -> int:
    """The largest q with ``Σ min(n_c, q) ≤ budget``, at least 1.

    Examples
    --------
    A class of two leaves its share to the others:

    >>> equal_quota([2, 50, 50], budget=12)
    5
    """
    left, quota = budget, 0
    for taken, count in enumerate(sorted(counts)):
        quota = left // (len(counts) - taken)
        if count > quota:
            return max(quota, 1)
        left -= count
    return max([quota, *counts])


def _by_hash(rows: Tensor) -> Tensor:
    return rows[torch.from_numpy(np.argsort(hash_rows(rows), kind="stable"))]
