"""Regularised quadratic discriminant from class cards: the evidence for every class."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from gddsg.core.class_card import Moments
from gddsg.core.similarity_graph import Label

SHRINKAGE_GRID = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

CLASS_SHARE_MIN, CLASS_SHARE_MAX, CLASS_SHARE_PRIOR = 0.05, 0.5, 1.5
"""Share b of a class's own scatter: n / (n + 1.5 dim). A covariance takes samples in proportion to its dimension, so
the pooled one counts like that many samples of the class."""

TEMPERATURE_SCALE, TEMPERATURE_PRIOR = 2.6, 5
"""See :meth:`Discriminant.temperature`; measured once on features of 16 to 1280 dimensions."""

_MAX_OPTIMISM = 0.5
_RIVALS = 5
_RIVAL_CLASSES = 256  # an average over this many classes is as good as one over all, and a big model stays quick
_RIVAL_SHRINKAGE = 0.3  # rivals are looked for once, at a shrinkage in the middle of the grid
_CANDIDATE_LOG_ODDS = 12.0  # classes this far behind the best get no quadratic term: e^-12 changes no probability
_MAX_CANDIDATES = 32
_BUCKETS = 16
_ROWS_AT_ONCE = 4096


class ScatterPool:
    """Sum of the classes' scatters, kept in buckets by class name so that a changed class costs one bucket only.

    Buckets are summed in a fixed order, so that the result has the same bits however the classes arrived.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, tuple[tuple[Moments, ...], Tensor]] = {}

    def total(self, moments: Mapping[Label, Moments]) -> Tensor:
        """``(dim, dim)`` float64 sum over the classes, taken in the order of ``moments``."""
        members: dict[int, list[Moments]] = {}
        for label, part in moments.items():
            members.setdefault(zlib.crc32(repr(label).encode()) % _BUCKETS, []).append(part)
        self._buckets = {bucket: self._bucket(bucket, tuple(parts)) for bucket, parts in sorted(members.items())}
        dim = next(iter(moments.values())).dim
        total = torch.zeros(dim, dim, dtype=torch.float64)
        for _, scatter in self._buckets.values():
            total += scatter
        total.diagonal().add_(sum(part.residual for part in moments.values()) / 2 / dim)
        return total

    def _bucket(self, bucket: int, parts: tuple[Moments, ...]) -> tuple[tuple[Moments, ...], Tensor]:
        known = self._buckets.get(bucket)
        if known is not None and len(known[0]) == len(parts) and all(map(_same, known[0], parts)):
            return known
        rows = torch.cat([part.factor * span_inflation(part) for part in parts])
        return parts, rows.T @ rows


def _same(a: object, b: object) -> bool:
    return a is b


def span_inflation(part: Moments) -> float:
    """Half of the energy that a cut factor lost goes back into its span, the other half is isotropic.

    Isotropic alone acts as a second shrinkage and costs 0.5 points on CIFAR-100; in the span alone costs 1 point.
    """
    kept = part.energy - part.residual
    return float((1 + part.residual / kept / 2) ** 0.5) if kept > 0 else 1.0


@dataclass(frozen=True, eq=False)
class _Whitening:
    """Pooled covariance S = Q diag(values) Qᵀ and the shrinkage g chosen for it."""

    values: Tensor
    vectors: Tensor
    shrinkage: float
    expected_error: float

    @property
    def level(self) -> float:
        """tr(S) / p."""
        return float(self.values.mean())

    @property
    def shrunk(self) -> Tensor:
        """Eigenvalues of T_0 = (1 - g) S + g tr(S)/p I."""
        return (1 - self.shrinkage) * self.values + self.shrinkage * self.level


@dataclass(eq=False)
class Discriminant:
    """Gaussian classes with covariance ``T_c = T_0 + (1-g) b_c/(1-b_c) S_c``, ``T_0 = (1-g) S + g tr(S)/p I``.

    S is the pooled and S_c the class's own covariance; g minimises a closed-form estimate of the error
    (:func:`choose_shrinkage`). All is derived from counts, means and scatter, hence blind to the order of classes.

    Parameters
    ----------
    moments : of every class, in canonical order.
    scatter : ``(dim, dim)`` sum of their scatters.
    """

    moments: Sequence[Moments]
    scatter: Tensor
    _terms: dict[int, tuple[Tensor, Tensor, float]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def counts(self) -> Tensor:
        """Samples of every class."""
        return torch.tensor([float(part.count) for part in self.moments], dtype=torch.float64)

    @cached_property
    def means(self) -> Tensor:
        """``(n_classes, dim)`` float64."""
        return torch.stack([part.mean for part in self.moments])

    @cached_property
    def degrees_of_freedom(self) -> float:
        """Samples minus classes, at least 1."""
        return max(float(self.counts.sum()) - len(self.moments), 1.0)

    @cached_property
    def pooled(self) -> Tensor:
        """``(dim, dim)`` pooled covariance; isotropic where no class has two different samples."""
        covariance = self.scatter / self.degrees_of_freedom
        level = float(covariance.diagonal().mean())
        spread = float((self.means - self.means.mean(0)).square().mean()) or 1.0
        if level <= 1e-12 * spread:
            covariance = spread * torch.eye(len(covariance), dtype=torch.float64)
        return covariance

    @cached_property
    def whitening(self) -> _Whitening:
        """Spectrum of the pooled covariance with the chosen shrinkage."""
        # float32 halves the time of adding a class; the metric itself comes from a float64 Cholesky factor below
        values, vectors = torch.linalg.eigh(self.pooled.float())
        values, vectors = values.double().clamp(min=0), vectors.double()
        shrinkage, error = choose_shrinkage(values, vectors, self.means, self.counts, self.degrees_of_freedom)
        return _Whitening(values, vectors, shrinkage, error)

    @cached_property
    def _whitener(self) -> Tensor:
        return shrunk_whitener(self.pooled, self.whitening.shrinkage)

    @cached_property
    def _whitened_means(self) -> Tensor:
        return self.whiten(self.means)

    @cached_property
    def effective_dim(self) -> float:
        """``tr(S T_0⁻¹)``: the number of directions that count after shrinkage."""
        return float((self.whitening.values / self.whitening.shrunk).sum())

    @cached_property
    def optimism(self) -> float:
        """Share ``tr((1-g) S T_0⁻¹) / dof`` by which distances of learnt samples fall short of those of fresh ones."""
        return (1 - self.whitening.shrinkage) * self.effective_dim / self.degrees_of_freedom

    @cached_property
    def temperature(self) -> float:
        """Factor that makes the scores log-probabilities one can trust.

        A Gaussian log-likelihood adds up ``effective_dim`` terms as if they were independent. In real features they
        err together, so evidence grows like the root of that number; few samples a class make it weaker still.
        """
        samples = float(self.counts.sum()) / len(self.counts)
        share = samples / (samples + TEMPERATURE_PRIOR)
        # own scatter on top of T_0 widens every class: distances shrink by that much and are stretched back here
        widening = 1 + sum(_own_weight(part) for part in self.moments) / len(self.moments)
        return min(1.0, TEMPERATURE_SCALE * widening * share / math.sqrt(max(self.effective_dim, 1.0)))

    def whiten(self, vectors: Tensor) -> Tensor:
        """Vectors ``(n, dim)`` in coordinates in which T_0 is the identity."""
        return vectors.double() @ self._whitener

    def distances(self, whitened: Tensor) -> Tensor:
        """Squared distances ``(n, n_classes)`` to the means in the shared metric T_0."""
        means = self._whitened_means
        squares = whitened.square().sum(1)[:, None] + means.square().sum(1)
        return (squares - 2 * whitened @ means.T).clamp_(min=0)

    def scores(self, vectors: Tensor) -> Tensor:
        """Evidence ``(n, n_classes)``: temperature times log-likelihood, row by row up to a constant."""
        return torch.cat([self._scores(chunk) for chunk in vectors.split(_ROWS_AT_ONCE)])

    def _scores(self, vectors: Tensor) -> Tensor:
        whitened = self.whiten(vectors)
        # a mean of n samples errs by tr(S T_0⁻¹)/n in squared distance: without this, small classes would lose
        linear = -(self.distances(whitened) - self.effective_dim / self.counts) / 2
        candidates = self._candidates(linear)
        scores = linear.clone()
        for c in torch.nonzero(candidates.any(0))[:, 0].tolist():
            rows = candidates[:, c]
            scores[rows, c] += self._class_term(c, whitened[rows])
        return _continue_below(scores, linear, candidates) * self.temperature

    def _candidates(self, linear: Tensor) -> Tensor:
        """Classes worth a quadratic term, row by row; a row with a single one needs none."""
        top = linear.topk(min(_MAX_CANDIDATES, linear.shape[1]), dim=1).values
        floor = torch.maximum(top[:, -1:], top[:, :1] - _CANDIDATE_LOG_ODDS / self.temperature)
        candidates = linear >= floor
        return candidates & (candidates.sum(1, keepdim=True) > 1)

    def _class_term(self, c: int, whitened: Tensor) -> Tensor:
        """``½ ‖A_c (z - m_c)‖² - ½ log det``: what the class's own scatter adds to the linear score (Woodbury)."""
        if c not in self._terms:
            self._terms[c] = self._own_scatter(c)
        directions, offsets, log_det = self._terms[c]
        return ((whitened @ directions.T - offsets).square().sum(1) - log_det) / 2

    def _own_scatter(self, c: int) -> tuple[Tensor, Tensor, float]:
        part = self.moments[c]
        weight = (1 - self.whitening.shrinkage) * _own_weight(part) / max(part.count - 1, 1)
        rows = self.whiten(part.factor) * weight**0.5
        cholesky = torch.linalg.cholesky(rows @ rows.T + torch.eye(len(rows), dtype=torch.float64))
        directions = torch.linalg.solve_triangular(cholesky, rows, upper=False)
        log_det = 2 * float(cholesky.diagonal().log().sum())
        return directions, directions @ self._whitened_means[c], log_det


def shrunk_whitener(covariance: Tensor, shrinkage: float) -> Tensor:
    """``L⁻ᵀ`` for ``L Lᵀ = (1-g) S + g tr(S)/p I``; inverted once, as a triangular solve a class costs far more."""
    shrunk = (1 - shrinkage) * covariance
    shrunk.diagonal().add_(shrinkage * float(covariance.diagonal().mean()))
    identity = torch.eye(len(shrunk), dtype=torch.float64)
    inverse: Tensor = torch.linalg.solve_triangular(torch.linalg.cholesky(shrunk), identity, upper=False)
    return inverse.T.contiguous()


def _own_weight(part: Moments) -> float:
    """``b / (1 - b)``: weight of a class's own covariance beside the pooled one."""
    share = part.count / (part.count + CLASS_SHARE_PRIOR * part.dim)
    share = min(max(share, CLASS_SHARE_MIN), CLASS_SHARE_MAX)
    return share / (1 - share)


def _continue_below(scores: Tensor, linear: Tensor, candidates: Tensor) -> Tensor:
    """Let the classes without a quadratic term follow the last candidate at their linear distance from it."""
    inf = torch.tensor(torch.inf, dtype=scores.dtype)
    last_score = torch.where(candidates, scores, inf).amin(1, keepdim=True)
    last_linear = torch.where(candidates, linear, inf).amin(1, keepdim=True)
    shift = torch.where(candidates.any(1, keepdim=True), last_score - last_linear, 0.0)
    return torch.where(candidates, scores, linear + shift)


def choose_shrinkage(values: Tensor, vectors: Tensor, means: Tensor, counts: Tensor, dof: float) -> tuple[float, float]:
    """The shrinkage g with the least expected error against each class's nearest rivals, and that error.

    For H = T_0⁻¹, a = tr((1-g) S H)/dof and 1+d = 1/(1-a), the margin of a fresh sample of class i against class j has
    mean ``D/2 - (1+d) tr(S H)/n_i`` with ``D = δᵀ H δ``, ``δ = μ_i - μ_j``, and deviation ``(1+d) sqrt(δᵀ H S H δ)``.
    Shrinkages with a > 1/2 are left out: with so few samples S says nothing of most directions, and the estimate fails.
    ``values`` and ``vectors`` are the spectrum of S, ``means`` ``(n_classes, dim)`` the class means.
    """
    if len(means) < 2:
        return 0.5, 0.0
    level = values.mean()
    means = means @ vectors
    first, second = _nearest(means / ((1 - _RIVAL_SHRINKAGE) * values + _RIVAL_SHRINKAGE * level).sqrt())
    gaps = (means[first] - means[second]).square()  # (pairs, dim)
    g = torch.tensor(SHRINKAGE_GRID, dtype=torch.float64)
    inverse = 1 / ((1 - g) * values[:, None] + g * level)  # (dim, grid)
    trace = (values[:, None] * inverse).sum(0)
    optimism = (1 - g) * trace / dof
    inflation = 1 / (1 - optimism.clamp(max=0.99))
    margin = gaps @ inverse / 2 - inflation * trace / counts[first, None]
    deviation = inflation * (gaps @ (inverse.square() * values[:, None])).sqrt()
    # in logarithms: the errors of well separated classes would all be rounded to zero
    log_errors = torch.special.log_ndtr(-margin / deviation.clamp(min=1e-300)).logsumexp(0) - math.log(len(gaps))
    trusted = optimism <= _MAX_OPTIMISM
    trusted[-1] = True
    best = int(torch.where(trusted, log_errors, torch.inf).argmin())
    return SHRINKAGE_GRID[best], math.exp(float(log_errors[best]))


def _nearest(points: Tensor) -> tuple[Tensor, Tensor]:
    """Index pairs (class, rival): classes, evenly picked where there are many, with their nearest other classes."""
    n = len(points)
    picked = torch.linspace(0, n - 1, min(n, _RIVAL_CLASSES)).round().long()
    distances = points.square().sum(1) - 2 * points[picked] @ points.T
    distances[torch.arange(len(picked)), picked] = torch.inf
    rivals = distances.topk(min(_RIVALS, n - 1), largest=False).indices
    return picked.repeat_interleave(rivals.shape[1]), rivals.flatten()
