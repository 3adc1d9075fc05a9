"""Regularised quadratic discriminant from class cards: the evidence for every class."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gddsg.core.class_card import Moments
from gddsg.core.scatter_pool import pooled_covariance, spectrum

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
_CANDIDATE_LOG_ODDS = 12.0  # classes this far behind the best by shared scatter alone get no quadratic term
_MAX_CANDIDATES = 32
_ROWS_AT_ONCE, _CLASSES_AT_ONCE = 4096, 64


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
    sampled_spectrum : eigenvalues and eigenvectors that stand in for those of the pooled covariance, where a good
        guess is enough; computed if not given.
    """

    moments: Sequence[Moments]
    scatter: Tensor
    sampled_spectrum: tuple[Tensor, Tensor] | None = None
    _terms: dict[int, tuple[Tensor, Tensor, float]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def counts(self) -> Tensor:
        """Samples of every class."""
        return torch.tensor([float(part.count) for part in self.moments], dtype=torch.float64)

    @cached_property
    def means(self) -> Tensor:
        """``(n_classes, dim)`` float64."""
        return torch.stack([part.total for part in self.moments]) / self.counts.clamp(min=1)[:, None]

    @cached_property
    def degrees_of_freedom(self) -> float:
        """Samples minus classes, at least 1."""
        return max(float(self.counts.sum()) - len(self.moments), 1.0)

    @cached_property
    def pooled(self) -> Tensor:
        """``(dim, dim)`` pooled covariance; isotropic where no class has two different samples."""
        return pooled_covariance(self.moments, self.scatter)

    @cached_property
    def whitening(self) -> _Whitening:
        """Spectrum of the pooled covariance with the chosen shrinkage."""
        values, vectors = self.sampled_spectrum or spectrum(self.pooled)
        shrinkage, error = choose_shrinkage(values, vectors, self.means, self.counts, self.degrees_of_freedom)
        return _Whitening(values, vectors, shrinkage, error)

    @cached_property
    def whitener(self) -> Tensor:
        """``(dim, dim)``, see :func:`shrunk_whitener`."""
        return shrunk_whitener(self.pooled, self.whitening.shrinkage)

    @cached_property
    def whitened_means(self) -> Tensor:
        """``(n_classes, dim)``."""
        return self.whiten(self.means)

    @cached_property
    def effective_dim(self) -> float:
        """``tr(S T_0⁻¹)``: the number of directions that count after shrinkage."""
        g, level = self.whitening.shrinkage, float(self.pooled.diagonal().mean())
        # T_0 = (1-g) S + g level I, hence (1-g) tr(S T_0⁻¹) = dim - g level tr(T_0⁻¹)
        return (len(self.pooled) - g * level * float(self.whitener.square().sum())) / (1 - g)

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
        return vectors.double() @ self.whitener

    def distances(self, whitened: Tensor) -> Tensor:
        """Squared distances ``(n, n_classes)`` to the means in the shared metric T_0."""
        means = self.whitened_means
        squares = whitened.square().sum(1)[:, None] + means.square().sum(1)
        return (squares - 2 * whitened @ means.T).clamp_(min=0)

    def scores(self, vectors: Tensor) -> Tensor:
        """Evidence ``(n, n_classes)``: temperature times log-likelihood, row by row up to a constant."""
        return torch.cat([self._scores(chunk) for chunk in vectors.split(_ROWS_AT_ONCE)])

    def _scores(self, vectors: Tensor) -> Tensor:
        whitened = self.whiten(vectors)
        # a mean of n samples errs by tr(S T_0⁻¹)/n in squared distance: without this, small classes would lose
        linear = -(self.distances(whitened) - self.effective_dim / self.counts) / 2
        candidates = candidate_classes(linear, self.temperature)
        scores = linear.T.clone(
            memory_format=torch.contiguous_format
        )  # a class is a row here, so that its scores lie side by side
        wanted, rows = torch.nonzero(candidates.T, as_tuple=True)
        classes, sizes = (part.tolist() for part in wanted.unique_consecutive(return_counts=True))
        self._prepare(classes)
        for c, size, stop in zip(classes, sizes, itertools.accumulate(sizes), strict=True):
            own = rows[stop - size : stop]
            scores[c, own] += self._class_term(c, whitened[own])
        return continue_below(scores.T, linear, candidates) * self.temperature

    def _class_term(self, c: int, whitened: Tensor) -> Tensor:
        """``½ ‖A_c (z - m_c)‖² - ½ log det``: what the class's own scatter adds to the linear score (Woodbury)."""
        directions, offsets, log_det = self._terms[c]
        return ((whitened @ directions.T - offsets).square().sum(1) - log_det) / 2

    def _prepare(self, classes: Sequence[int]) -> None:
        """Whiten the own scatter of classes that have not been candidates before; many at once, which is quicker."""
        missing = [c for c in classes if c not in self._terms]
        for some in (missing[i : i + _CLASSES_AT_ONCE] for i in range(0, len(missing), _CLASSES_AT_ONCE)):
            self._terms |= dict(zip(some, self._own_scatters(some), strict=True))

    def own_terms(self) -> tuple[Tensor, Tensor, Tensor]:
        """Directions ``(n_classes, rank, dim)``, offsets ``(n_classes, rank)`` and log-determinants of all classes.

        Class c adds ``½ (‖directions_c z - offsets_c‖² - log_det_c)`` to its linear score. Short factors end in zeros.
        """
        self._prepare(range(len(self.moments)))
        directions, offsets, log_dets = zip(*(self._terms[c] for c in range(len(self.moments))), strict=True)
        rows = pad_sequence(list(directions), batch_first=True)
        return rows, pad_sequence(list(offsets), batch_first=True), torch.tensor(log_dets, dtype=torch.float64)

    def _own_scatters(self, classes: Sequence[int]) -> Iterator[tuple[Tensor, Tensor, float]]:
        parts = [self.moments[c] for c in classes]
        weights = torch.tensor([_own_weight(part) / max(part.count - 1, 1) for part in parts], dtype=torch.float64)
        rows = pad_sequence([part.factor for part in parts], batch_first=True)  # shorter factors end in zeros
        rows = self.whiten(rows.flatten(0, 1)).view(rows.shape)
        rows *= ((1 - self.whitening.shrinkage) * weights).sqrt()[:, None, None]
        identity = torch.eye(rows.shape[1], dtype=torch.float64)
        cholesky = torch.linalg.cholesky(rows @ rows.mT + identity)
        directions = torch.linalg.solve_triangular(cholesky, identity, upper=False) @ rows
        offsets = (directions @ self.whitened_means[list(classes), :, None])[..., 0]
        log_dets = 2 * cholesky.diagonal(dim1=1, dim2=2).log().sum(1)
        for own, offset, log_det, part in zip(directions, offsets, log_dets.tolist(), parts, strict=True):
            yield own[: len(part.factor)], offset[: len(part.factor)], log_det


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


def candidate_classes(linear: Tensor, temperature: float) -> Tensor:
    """Classes worth a quadratic term, row by row; a row with a single one needs none."""
    top = linear.topk(min(_MAX_CANDIDATES, linear.shape[1]), dim=1).values
    floor = torch.maximum(top[:, -1:], top[:, :1] - _CANDIDATE_LOG_ODDS / temperature)
    candidates = linear >= floor
    return candidates & (candidates.sum(1, keepdim=True) > 1)


def continue_below(scores: Tensor, linear: Tensor, candidates: Tensor) -> Tensor:
    """Let the classes without a quadratic term follow the last candidate at their linear distance from it."""
    inf = torch.tensor(torch.inf, dtype=scores.dtype)
    last_score = torch.where(candidates, scores, inf).amin(1, keepdim=True)
    last_linear = torch.where(candidates, linear, inf).amin(1, keepdim=True)
    shift = torch.where(candidates.any(1, keepdim=True), last_score - last_linear, 0.0)
    return torch.where(candidates, scores, linear + shift)


def choose_shrinkage(values: Tensor, vectors: Tensor, means: Tensor, counts: Tensor, dof: float) -> tuple[float, float]:
    """The shrinkage g with the least expected error against each class's nearest rivals, and its heavy-tailed error.

    For H = T_0⁻¹, a = tr((1-g) S H)/dof and 1+d = 1/(1-a), the margin of a fresh sample of class i against class j has
    mean ``D/2 - (1+d) tr(S H)/n_i`` with ``D = δᵀ H δ``, ``δ = μ_i - μ_j``, and deviation ``(1+d) sqrt(δᵀ H S H δ)``.
    Errors are those of Gaussian margins; but to compare feature spaces, which may be far from Gaussian, the error of
    the chosen g is given as if margins had the heavier tails of a logistic distribution.
    Shrinkages with a > 1/2 are left out: with so few samples S says nothing of most directions, and the estimate fails.
    ``values`` and ``vectors`` are the spectrum of S, ``means`` ``(n_classes, dim)`` the class means.
    """
    if len(means) < 2:
        return 0.5, 0.0
    level = values.mean()
    # float32 is exact enough to choose from a grid, once the part that all means share is gone
    means = ((means - means.mean(0)).float() @ vectors.float()).double()
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
    odds = margin / deviation.clamp(min=1e-300)
    log_errors = torch.special.log_ndtr(-odds).logsumexp(0)
    trusted = optimism <= _MAX_OPTIMISM
    trusted[-1] = True
    best = int(torch.where(trusted, log_errors, torch.inf).argmin())
    return SHRINKAGE_GRID[best], float(torch.sigmoid(-odds[:, best]).mean())


def _nearest(points: Tensor) -> tuple[Tensor, Tensor]:
    """Index pairs (class, rival): classes, evenly picked where there are many, with their nearest other classes."""
    n = len(points)
    picked = torch.linspace(0, n - 1, min(n, _RIVAL_CLASSES)).round().long()
    distances = points.square().sum(1) - 2 * points[picked] @ points.T
    distances[torch.arange(len(picked)), picked] = torch.inf
    rivals = distances.topk(min(_RIVALS, n - 1), largest=False).indices
    return picked.repeat_interleave(rivals.shape[1]), rivals.flatten()
