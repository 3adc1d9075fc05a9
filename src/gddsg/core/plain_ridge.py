"""Ridge regression from running sums, a fifth of the samples apart: they may choose the penalty before they join."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gddsg.core.content_hash import hash_rows, is_held_out
from gddsg.core.decompositions import symmetric_solve
from gddsg.core.label import Label

FeatureMap = Callable[[Tensor], Tensor]
"""From some rows of features to the float64 vectors that are regressed on."""

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class RidgeSums:
    """Running sums of vectors h: of all samples, or of those learnt from and those held out.

    Attributes
    ----------
    grams : Tensor
        ``HᵀH``, ``(shares, dim, dim)`` float64. One share holds all samples; of two, the second is held out.
    sums : mapping of int or str to Tensor
        Columns of ``HᵀY``, ``(shares, dim)`` float64 by class.
    """

    grams: Tensor
    sums: Mapping[Label, Tensor]

    @classmethod
    def empty(cls, dim: int, hold_out: bool) -> RidgeSums:
        """Of no sample; ``hold_out`` says whether a fifth will be held out."""
        return cls(torch.zeros(2 if hold_out else 1, dim, dim, dtype=torch.float64), {})

    def plus(self, features: Tensor, labels: Sequence[Label], feature_map: FeatureMap) -> RidgeSums:
        """These and those of a batch."""
        names = sorted(set(labels))
        place = {name: i for i, name in enumerate(names)}
        classes = torch.tensor([place[label] for label in labels], device=features.device)
        grams = self.grams.to(features.device, copy=True)
        new = grams.new_zeros(len(grams), len(names), grams.shape[1])
        for rows, own in zip(features.split(_ROWS_AT_ONCE), classes.split(_ROWS_AT_ONCE), strict=True):
            vectors = feature_map(rows)
            held = is_held_out(hash_rows(rows)).to(rows.device) & (len(grams) > 1)
            for share, chosen in enumerate((~held, held)[: len(grams)]):
                grams[share].addmm_(vectors[chosen].T, vectors[chosen])
                new[share].index_add_(0, own[chosen], vectors[chosen])
        known = {name: self.sums.get(name, 0) + new[:, i].cpu() for name, i in place.items()}
        return RidgeSums(grams.cpu(), {**self.sums, **known})

    def weights(self, labels: Sequence[Label], regularisation: float) -> Tensor:
        """``Θ = (HᵀH + λ I)⁻¹ HᵀY`` of all samples, ``(dim, n_classes)`` in the order of ``labels``.

        Parameters
        ----------
        labels : sequence of int or str
            The classes.
        regularisation : float
            λ.
        """
        shifted = self.grams.sum(0)
        shifted.diagonal().add_(regularisation)
        return symmetric_solve(shifted, torch.stack([self.sums[label] for label in labels], dim=2).sum(0))


def ridge_scores(features: Tensor, feature_map: FeatureMap, weights: Tensor) -> Tensor:
    """``h(x) Θ``, ``(n, n_classes)`` float64."""
    return torch.cat([feature_map(rows) @ weights for rows in features.split(_ROWS_AT_ONCE)])
