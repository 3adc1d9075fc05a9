"""The penalty of a ridge regression that only has to rank: a common factor of all scores is no matter."""

from __future__ import annotations

import math

from torch import Tensor

from gddsg.core.decompositions import symmetric_solve

REGULARISATIONS = tuple(10 ** (k / 2) for k in range(-16, 17))
"""Candidates for λ."""


def scale_free_regularisation(grams: Tensor, sums: Tensor) -> float:
    """The λ of the grid whose scores, multiplied by what suits them best, are nearest to the held-out targets.

    ``min_s Σ ‖y - s Θᵀh‖² = n - tr(Θᵀ HᵀY)² / tr(Θᵀ HᵀH Θ)``, from sums of the held-out samples. A penalty shrinks all
    scores. Plain squared error counts that as error and prefers another penalty than accuracy does, which is blind
    to it, all the more so the more directions the vectors have that say little about classes.

    Parameters
    ----------
    grams : Tensor
        ``(2, dim, dim)`` float64, of the learnt and of the held-out share.
    sums : Tensor
        ``(2, dim, n_classes)``.
    """
    level = max(float(grams[0].diagonal().mean()), REGULARISATIONS[0])
    place = min(range(len(REGULARISATIONS)), key=lambda k: abs(math.log(REGULARISATIONS[k] / level)))
    most = _explained(grams, sums, REGULARISATIONS[place])
    for step in (-1, 1):  # there is one peak: downhill on one side means uphill on the other, or nowhere
        while 0 <= place + step < len(REGULARISATIONS):
            found = _explained(grams, sums, REGULARISATIONS[place + step])
            if found <= most:
                break
            place, most = place + step, found
    return REGULARISATIONS[place]


def _explained(grams: Tensor, sums: Tensor, regularisation: float) -> float:
    """``tr(Θᵀ HᵀY)² / tr(Θᵀ HᵀH Θ)``, what scores with the best factor explain of the held-out targets."""
    shifted = grams[0].clone()
    shifted.diagonal().add_(regularisation)
    weights = symmetric_solve(shifted, sums[0])
    agreement = float((weights * sums[1]).sum())
    energy = float((weights * (grams[1] @ weights)).sum())
    return agreement * abs(agreement) / energy if energy > 0 else 0.0
