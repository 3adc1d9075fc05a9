"""Ridge regression from running sums of features, with the penalty chosen on samples held out by their content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gddsg.core.content_hash import hash_rows, is_held_out
from gddsg.core.decompositions import symmetric_solve
from gddsg.core.label import Label

REGULARISATIONS = tuple(10.0**k for k in range(-8, 9))
"""Candidates for λ."""

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

    def weights(self, labels: Sequence[Label], regularisation: float | None) -> Tensor:
        """``Θ = (HᵀH + λ I)⁻¹ HᵀY`` of all samples, ``(dim, n_classes)`` in the order of ``labels``.

        Parameters
        ----------
        labels : sequence of int or str
            The classes.
        regularisation : float or None
            λ; ``None`` takes the best of :data:`REGULARISATIONS` on the held-out share.
        """
        sums = torch.stack([self.sums[label] for label in labels], dim=2)
        if regularisation is None:
            regularisation = choose_regularisation(self.grams, sums)
        return _solved(self.grams.sum(0), sums.sum(0), regularisation)


def ridge_scores(features: Tensor, feature_map: FeatureMap, weights: Tensor) -> Tensor:
    """``h(x) Θ``, ``(n, n_classes)`` float64."""
    return torch.cat([feature_map(rows) @ weights for rows in features.split(_ROWS_AT_ONCE)])


def choose_regularisation(grams: Tensor, sums: Tensor) -> float:
    """The λ of the grid with the least squared error on the held-out share; the error has one valley.

    Parameters
    ----------
    grams : Tensor
        ``(2, dim, dim)``, of the learnt and of the held-out share.
    sums : Tensor
        ``(2, dim, n_classes)``.
    """

    def held_out_error(place: int) -> float:
        weights = _solved(grams[0], sums[0], REGULARISATIONS[place])
        return float((weights * (grams[1] @ weights - 2 * sums[1])).sum())  # Σ ‖y - Θᵀh‖² but for the number of samples

    level = max(float(grams[0].diagonal().mean()), 1e-8)
    best = int(np.argmin([abs(np.log10(candidate / level)) for candidate in REGULARISATIONS]))
    least = held_out_error(best)
    for step in (-1, 1):
        start = best
        while 0 <= best + step < len(REGULARISATIONS) and (error := held_out_error(best + step)) < least:
            best, least = best + step, error
        if best != start:
            break
    return REGULARISATIONS[best]


def _solved(gram: Tensor, sums: Tensor, regularisation: float) -> Tensor:
    """``(HᵀH + λ I)⁻¹ HᵀY``."""
    shifted = gram.clone()
    shifted.diagonal().add_(regularisation)
    return symmetric_solve(shifted, sums)
