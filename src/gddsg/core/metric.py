"""The metric that all classes share: their pooled covariance, shrunk."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gddsg.core.class_card import ClassCard
from gddsg.core.decompositions import cholesky, low_rank_eigen, power_of_two, symmetric_eigen
from gddsg.core.moments import CodedMoments, Moments
from gddsg.core.rivals import nearest_rivals
from gddsg.core.transform import View
from gddsg.core.view_choice import choose_view

ALL_CLASSES, SAMPLED_CLASSES, SAMPLED_DEGREES = 256, 128, 4.0
"""See :func:`sample_classes`. On CUB-200 a sample with 2.3 times as many degrees of freedom as dimensions cost 0.06
points, one with 1.1 times as many 0.5."""

SHRINKAGE_GRID = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

CLASS_SHARE_MIN, CLASS_SHARE_MAX, CLASS_SHARE_PRIOR = 0.05, 0.5, 1.5
"""Share b of a class's own scatter: n / (n + 1.5 dim). A covariance takes samples in proportion to its dimension, so
the pooled one counts like that many samples of the class."""

TEMPERATURE_SCALE, TEMPERATURE_PRIOR = 2.6, 5
"""See :meth:`Metric.temperature`; measured once on features of 16 to 1280 dimensions."""

_MAX_OPTIMISM = 0.5
_RIVAL_SHRINKAGE = 0.3  # rivals are looked for once, at a shrinkage in the middle of the grid
_CLASSES_AT_ONCE = 64
_NO_SCATTER = 1e-12  # of the spread of the means: less scatter within classes tells nothing
_ROUNDING = 1e-13  # of the square of a number: what float32 features, and sums of them, leave of a difference of zero


@dataclass(frozen=True, eq=False)
class Metric:
    """``T_0 = (1-g) S + g tr(S)/p I`` with S the pooled covariance of a sample of the classes.

    Attributes
    ----------
    sample : tuple of ClassCard
        The cards it is made of.
    view : {"root", "raw"}
        How it sees the features, see :func:`gddsg.core.view_choice.choose_view`.
    rooted : bool
        Whether all classes of the model have square roots, whatever the view.
    pooled : Tensor
        ``(dim, dim)`` float64, S; isotropic where no class has two different samples.
    values, vectors : Tensor
        Spectrum of S, ``(dim,)`` float64 and ``(dim, dim)`` float32.
    shrinkage : float
        g, see :func:`choose_shrinkage`.
    whitener, quick_whitener : Tensor
        ``(dim, dim)`` float64 and float32, see :func:`shrunk_whitener`: vectors times it have T_0 as identity.
    degrees_of_freedom : float
        Samples minus classes, at least 1.
    effective_dim : float
        ``tr(S T_0⁻¹)``: the number of directions that count after shrinkage.
    temperature : float
        Factor that makes log-likelihoods log-probabilities one can trust.
    """

    sample: tuple[ClassCard, ...]
    view: View
    rooted: bool
    pooled: Tensor
    values: Tensor
    vectors: Tensor
    shrinkage: float
    whitener: Tensor
    quick_whitener: Tensor
    degrees_of_freedom: float
    effective_dim: float
    temperature: float

    @property
    def optimism(self) -> float:
        """Share ``tr((1-g) S T_0⁻¹) / dof`` by which distances of learnt samples fall short of those of fresh ones."""
        return (1 - self.shrinkage) * self.effective_dim / self.degrees_of_freedom

    def whiten(self, vectors: Tensor) -> Tensor:
        """Vectors ``(n, dim)`` in coordinates in which T_0 is the identity."""
        return vectors.double() @ self.whitener


def sample_classes(cards: Iterable[ClassCard]) -> tuple[ClassCard, ...]:
    """The classes that the metric is made of: all where they are few, else those whose cards hash lowest.

    A new class is then seldom one of them, so that a large model need not be derived afresh; and which ones they are
    depends on nothing but the set of cards. They are at least 128, and so many that their samples give the pooled
    covariance four times as many degrees of freedom as it has dimensions.

    Parameters
    ----------
    cards : iterable of ClassCard
        In canonical order, which is that of the hashes.
    """
    every = tuple(cards)
    if len(every) <= ALL_CLASSES:
        return every
    wanted = SAMPLED_DEGREES * every[0].raw.dim
    degrees = itertools.accumulate(card.count - 1 for card in every)
    enough = next(
        (n for n, found in enumerate(degrees, start=1) if n >= SAMPLED_CLASSES and found >= wanted), len(every)
    )
    return every[:enough]


def shared_metric(sample: Sequence[ClassCard], rooted: bool = True) -> Metric:
    """The metric of some classes, in the view that suits them.

    Parameters
    ----------
    sample : sequence of ClassCard
        What it is made of.
    rooted : bool
        Whether all other classes of the model have square roots, too.
    """
    view: View = choose_view(sample) if rooted else "raw"
    parts = [part for part in (card.view(view) for card in sample) if part is not None]
    counts = torch.tensor([float(part.count) for part in parts], dtype=torch.float64)
    means, dof = torch.stack([part.mean for part in parts]), max(float(counts.sum()) - len(parts), 1.0)
    pooled = pooled_covariance(pooled_scatter(parts) / dof, means)
    values, vectors = pooled_spectrum(pooled, parts)
    g, level = choose_shrinkage(values, vectors, means, counts, dof), float(pooled.diagonal().mean())
    whitener = shrunk_whitener(pooled, g)
    # T_0 = (1-g) S + g level I, hence (1-g) tr(S T_0⁻¹) = dim - g level tr(T_0⁻¹)
    effective_dim = (len(pooled) - g * level * float(whitener.square().sum())) / (1 - g)
    return Metric(
        sample=tuple(sample),
        view=view,
        rooted=rooted,
        pooled=pooled,
        values=values,
        vectors=vectors,
        shrinkage=g,
        whitener=whitener,
        quick_whitener=whitener.float(),
        degrees_of_freedom=dof,
        effective_dim=effective_dim,
        temperature=_temperature(parts, effective_dim),
    )


def _temperature(parts: Sequence[CodedMoments], effective_dim: float) -> float:
    """``min(1, 2.6 w s / √d)``: how far log-likelihoods of d effective dimensions can be trusted.

    A Gaussian log-likelihood adds up that many terms as if they were independent. In real features they err together,
    so evidence grows like the root of their number; few samples a class (s) make it weaker still.
    """
    samples = sum(part.count for part in parts) / len(parts)
    share = samples / (samples + TEMPERATURE_PRIOR)
    # own scatter on top of T_0 widens every class: distances shrink by that much and are stretched back here
    widening = 1 + sum(own_weight(part) for part in parts) / len(parts)
    return min(1.0, TEMPERATURE_SCALE * widening * share / math.sqrt(max(effective_dim, 1.0)))


def own_weight(part: CodedMoments) -> float:
    """``b / (1 - b)``: weight of a class's own covariance beside the pooled one."""
    share = part.count / (part.count + CLASS_SHARE_PRIOR * part.dim)
    share = min(max(share, CLASS_SHARE_MIN), CLASS_SHARE_MAX)
    return share / (1 - share)


def span_inflation(part: Moments) -> float:
    """Half of the energy that a cut factor lost goes back into its span, the other half is isotropic.

    All of it isotropic would act as a second shrinkage, all of it in the span as if nothing lay outside.
    """
    kept = part.energy - part.residual
    return float((1 + part.residual / kept / 2) ** 0.5) if kept > 0 else 1.0


def pooled_scatter(parts: Sequence[CodedMoments]) -> Tensor:
    """``(dim, dim)`` float64 sum of the classes' scatters; the same bits for the same classes in the same order."""
    dim = parts[0].dim
    total = torch.zeros(dim, dim, dtype=torch.float64)
    for start in range(0, len(parts), _CLASSES_AT_ONCE):
        decoded = [part.decoded() for part in parts[start : start + _CLASSES_AT_ONCE]]
        rows = torch.cat([part.factor * span_inflation(part) for part in decoded])
        # float32 rounds far below any shrinkage where many directions share the energy, not where a few have it all
        rows = (rows.double() if _is_low_rank(parts) else rows) / (scale := power_of_two(rows))
        total.add_(rows.T @ rows, alpha=scale**2)
    total.diagonal().add_(math.fsum(part.residual for part in parts) / 2 / dim)
    return total


def _is_low_rank(parts: Sequence[CodedMoments]) -> bool:
    """Whether the classes' factors together leave most directions without scatter, as those of few samples do."""
    return 2 * sum(len(part.factor) for part in parts) <= parts[0].dim


def pooled_covariance(covariance: Tensor, means: Tensor) -> Tensor:
    """The covariance within classes; isotropic where no class has two different samples."""
    level, size = float(covariance.diagonal().mean()), float(means.square().mean())
    spread = float((means - means.mean(0)).square().mean())
    if level > max(_NO_SCATTER * spread, _ROUNDING * size):
        return covariance
    level = spread if spread > _ROUNDING * size else size or 1.0
    return level * torch.eye(len(covariance), dtype=torch.float64)


def pooled_spectrum(pooled: Tensor, parts: Sequence[CodedMoments]) -> tuple[Tensor, Tensor]:
    """Values ``(dim,)`` float64 and vectors ``(dim, dim)`` float32 of the covariance within classes."""
    if _is_low_rank(parts):
        values, vectors = low_rank_eigen(pooled, torch.cat([part.factor.decoded() for part in parts]))
    else:
        values, vectors = symmetric_eigen(pooled, rough=True)  # nothing exact is made of it
    return values.clamp(min=0), vectors.float()


def shrunk_whitener(covariance: Tensor, shrinkage: float) -> Tensor:
    """``L⁻ᵀ`` for ``L Lᵀ = (1-g) S + g tr(S)/p I``; inverted once, as a triangular solve a class costs far more.

    Float64 numbers that float32 has, too: so files keep them, and what answers from a file answers like the model.
    """
    shrunk = (1 - shrinkage) * covariance
    shrunk.diagonal().add_(shrinkage * float(covariance.diagonal().mean()))
    identity = torch.eye(len(shrunk), dtype=torch.float64)
    inverse: Tensor = torch.linalg.solve_triangular(cholesky(shrunk), identity, upper=False)
    return inverse.T.contiguous().float().double()


def choose_shrinkage(values: Tensor, vectors: Tensor, means: Tensor, counts: Tensor, dof: float) -> float:
    """The shrinkage g with the least expected error against each class's nearest rivals.

    For H = T_0⁻¹, a = tr((1-g) S H)/dof and 1+d = 1/(1-a), the margin of a fresh sample of class i against class j has
    mean ``D/2 - (1+d) tr(S H)/n_i`` with ``D = δᵀ H δ``, ``δ = μ_i - μ_j``, and deviation ``(1+d) sqrt(δᵀ H S H δ)``.
    Errors are those of Gaussian margins, which tells one g from another, though hardly how large the errors are.
    Shrinkages with a > 1/2 are left out: with so few samples S says nothing of most directions, and the estimate fails.

    Parameters
    ----------
    values, vectors : Tensor
        The spectrum of S, ``(dim,)`` and ``(dim, dim)``.
    means : Tensor
        ``(n_classes, dim)``.
    counts : Tensor
        ``(n_classes,)``.
    dof : float
        Degrees of freedom of S.
    """
    if len(means) < 2:
        return 0.5
    level = values.mean()
    # float32 is exact enough to choose from a grid, once the part that all means share is gone
    means = ((means - means.mean(0)).float() @ vectors.float()).double()
    first, second = nearest_rivals(means / ((1 - _RIVAL_SHRINKAGE) * values + _RIVAL_SHRINKAGE * level).sqrt())
    gaps = (means[first] - means[second]).square()  # (pairs, dim)
    g = torch.tensor(SHRINKAGE_GRID, dtype=torch.float64)
    inverse = 1 / ((1 - g) * values[:, None] + g * level)  # (dim, grid)
    trace = (values[:, None] * inverse).sum(0)
    optimism = (1 - g) * trace / dof
    inflation = 1 / (1 - optimism.clamp(max=0.99))
    margin = gaps @ inverse / 2 - inflation * trace / counts[first, None]
    deviation = inflation * (gaps @ (inverse.square() * values[:, None])).sqrt()
    # in logarithms: the errors of well separated classes would all be rounded to zero
    log_errors = torch.special.log_ndtr(-margin / deviation.clamp(min=1e-300)).logsumexp(0)
    trusted = optimism <= _MAX_OPTIMISM
    trusted[-1] = True
    return SHRINKAGE_GRID[int(torch.where(trusted, log_errors, torch.inf).argmin())]
