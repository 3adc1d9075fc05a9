"""In which view of their features classes lie farther apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gddsg.core.class_card import ClassCard
from gddsg.core.moments import CodedMoments
from gddsg.core.rivals import nearest_rivals
from gddsg.core.transform import View


def choose_view(cards: Sequence[ClassCard]) -> View:
    """The view in which nearest class means would err less: plain, or square roots, which win a tie.

    A class without roots has a negative feature, or may not be transformed; one such class makes all be seen plainly.
    """
    roots = [card.root for card in cards if card.root is not None]
    if len(roots) < len(cards):
        return "raw"
    plain = [card.raw for card in cards]
    rows = [min(len(a.factor), len(b.factor)) for a, b in zip(roots, plain, strict=True)]  # the same for both
    return "raw" if nearest_mean_error(plain, rows) < nearest_mean_error(roots, rows) else "root"


def nearest_mean_error(parts: Sequence[CodedMoments], rows: Sequence[int]) -> float:
    """How likely a fresh sample lies nearer to the mean of a rival than to that of its class, on average over rivals.

    The margin of class i against class j has mean ``‖δ‖²/2 - tr(S_i)/n_i`` for ``δ = μ_i - μ_j``, where the second term
    is for the error of the mean itself, and variance ``δᵀ S_i δ``; errors are those of Gaussian margins. Nearest means
    are a poor classifier, but one that inverts no covariance: what is estimated of it from the very samples it has
    learnt is not too good to be true, as it is of a discriminant.

    Parameters
    ----------
    parts : sequence of CodedMoments
        Of every class, in one view.
    rows : sequence of int
        How many rows of a class's factor count; the energy of the others is taken to lie in all directions alike.
    """
    if len(parts) < 2:
        return 0.0
    means = torch.stack([part.mean for part in parts])
    first, second = nearest_rivals(means)
    gaps = (means[first] - means[second]).unflatten(0, (len(parts), -1))  # (n_classes, rivals, dim)
    errors = [_errors(*one) for one in zip(gaps, parts, rows, strict=True)]
    return float(torch.stack(errors).mean())


def _errors(gaps: Tensor, part: CodedMoments, rows: int) -> Tensor:
    """Of one class against its rivals."""
    factor, freedom, energy = part.factor.decoded()[:rows].double(), max(part.count - 1, 1), part.energy
    rest = max(energy - float(factor.square().sum()), 0.0)
    lengths = gaps.square().sum(1)
    variances = ((gaps @ factor.T).square().sum(1) + lengths * rest / part.dim) / freedom
    margins = lengths / 2 - energy / freedom / part.count
    errors: Tensor = torch.special.ndtr(-margins / variances.sqrt().clamp(min=torch.finfo(torch.float64).tiny))
    return errors
