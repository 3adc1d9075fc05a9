"""Ridge regression from running sums, where samples held out by their content may choose the penalty."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gddsg.core.content_hash import hash_rows, is_held_out
from gddsg.core.decompositions import cholesky, symmetric_solve
from gddsg.core.gram import add_gram
from gddsg.core.label import Label

REGULARISATIONS = tuple(10.0**k for k in range(-8, 9))
"""Candidates for λ."""

FeatureMap = Callable[[Tensor], Tensor]
"""From some rows of features to the float64 vectors that are regressed on."""

_ROWS_AT_ONCE = 4096
_NARROW = 2048  # a factorisation of this size takes a hundredth of the time of one of 10,000


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
        # float64: in float32 the Gram matrix, and with it a probability, would depend on which samples came together
        grams = self.grams.to(features.device, copy=True)
        new = grams.new_zeros(len(grams), len(names), grams.shape[1])
        for rows in torch.arange(len(features), device=features.device).split(_ROWS_AT_ONCE):
            vectors, own = feature_map(features[rows]), classes[rows]
            for share, chosen in enumerate(self._shares(features[rows])):
                add_gram(grams[share], vectors[chosen])
                new[share].index_add_(0, own[chosen], vectors[chosen])
        own_sums = {name: self.sums.get(name, 0) + new[:, i].cpu() for name, i in place.items()}
        return RidgeSums(grams.cpu(), {**self.sums, **own_sums})

    def _shares(self, features: Tensor) -> list[Tensor]:
        """Which rows count to which share; a matter of their content alone."""
        if len(self.grams) == 1:
            return [torch.ones(len(features), dtype=torch.bool, device=features.device)]
        held = is_held_out(hash_rows(features)).to(features.device)
        return [~held, held]

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
        shifted = self.grams.sum(0)
        shifted.diagonal().add_(regularisation)
        return symmetric_solve(shifted, sums.sum(0))


def ridge_scores(features: Tensor, feature_map: FeatureMap, weights: Tensor) -> Tensor:
    """``h(x) Θ``, ``(n, n_classes)`` float64."""
    return torch.cat([feature_map(rows) @ weights for rows in features.split(_ROWS_AT_ONCE)])


def choose_regularisation(grams: Tensor, sums: Tensor) -> float:
    """The λ of the grid with the least squared error on the held-out share; the error has one valley.

    Each factorisation gives the slope of the error along with the error itself, so that two of them, on either side
    of the valley, are enough where the search starts well.

    Parameters
    ----------
    grams : Tensor
        ``(2, dim, dim)``, of the learnt and of the held-out share.
    sums : Tensor
        ``(2, dim, n_classes)``.
    """
    place = _start(grams, sums)
    error, slope = _held_out_error(grams, sums, REGULARISATIONS[place])
    step = -1 if slope > 0 else 1
    while slope and 0 <= place + step < len(REGULARISATIONS):
        next_error, next_slope = _held_out_error(grams, sums, REGULARISATIONS[place + step])
        if next_error >= error:
            break
        place, error = place + step, next_error
        if next_slope * step >= 0:  # uphill from here on
            break
    return REGULARISATIONS[place]


def _start(grams: Tensor, sums: Tensor) -> int:
    """Place in the grid: near the mean eigenvalue, or for wide layers where their first units have their valley."""
    dim = grams.shape[1]
    if dim >= 2 * _NARROW:  # random units are alike: as many times more of them have eigenvalues as many times larger
        found = choose_regularisation(grams[:, :_NARROW, :_NARROW], sums[:, :_NARROW]) * dim / _NARROW
    else:
        found = max(float(grams[0].diagonal().mean()), 1e-8)
    return int(np.argmin([abs(math.log10(candidate / found)) for candidate in REGULARISATIONS]))


def _held_out_error(grams: Tensor, sums: Tensor, regularisation: float) -> tuple[float, float]:
    """``Σ ‖y - Θᵀh‖²`` over the held-out samples, up to their number, and its derivative by λ."""
    shifted = grams[0].clone()
    shifted.diagonal().add_(regularisation)
    factor = cholesky(shifted)
    weights = torch.cholesky_solve(sums[0], factor)
    gradient = grams[1] @ weights - sums[1]  # half of that by Θ
    error = (weights * (gradient - sums[1])).sum()
    slope = -2 * (gradient * torch.cholesky_solve(weights, factor)).sum()  # dΘ/dλ = -(HᵀH + λ I)⁻¹ Θ
    return float(error), float(slope)
