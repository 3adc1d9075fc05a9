"""Linear discriminant analysis from running sums: class means and the scatter that all classes share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gddsg.core.by_class import rows_by_class
from gddsg.core.decompositions import symmetric_solve
from gddsg.core.gram import add_gram
from gddsg.core.label import Label

_ROWS_AT_ONCE = 4096
_NO_SCATTER = 1e-20  # relative to the means: what is left where samples of a class are all alike is rounding
_TEMPERATURE_SCALE = 3.0


@dataclass(frozen=True, eq=False)
class WithinScatter:
    """Count and sum of every class, and the scatter of all samples about the mean of their class.

    Attributes
    ----------
    counts : mapping of Label to int
        Samples by class.
    totals : mapping of Label to Tensor
        ``(dim,)`` float64 sums by class.
    scatter : Tensor
        ``(dim, dim)`` float64, ``Σ_c Σ_x (x - m_c)(x - m_c)ᵀ``.
    """

    counts: Mapping[Label, int]
    totals: Mapping[Label, Tensor]
    scatter: Tensor

    @classmethod
    def empty(cls, dim: int) -> WithinScatter:
        """Of no sample."""
        return cls({}, {}, torch.zeros(dim, dim, dtype=torch.float64))

    def plus(
        self, features: Tensor, labels: Sequence[Label], feature_map: Callable[[Tensor], Tensor] = Tensor.double
    ) -> WithinScatter:
        """``S + Σ (x - m)(x - m)ᵀ + n_a n_b / n (m_a - m_b)(m_a - m_b)ᵀ``: old and new samples of each class together.

        ``feature_map`` takes some rows of ``features`` to the float64 vectors that are summed up.
        """
        counts, totals = dict(self.counts), dict(self.totals)

        def centred() -> Iterator[Tensor]:
            for label, rows in rows_by_class(features, labels):
                for chunk in rows.split(_ROWS_AT_ONCE):
                    vectors = feature_map(chunk)
                    total, n, count = vectors.sum(0), len(vectors), counts.get(label, 0)
                    yield vectors - total / n
                    if count:
                        known = totals[label].to(total) / count
                        yield (count * n / (count + n)) ** 0.5 * (known - total / n)[None]
                    counts[label] = count + n
                    totals[label] = totals.get(label, 0) + total.cpu()

        new = self.scatter.new_zeros(self.scatter.shape, device=features.device)
        for rows in _joined(centred()):
            add_gram(new, rows)
        return WithinScatter(counts, totals, self.scatter + new.cpu())

    @property
    def count(self) -> int:
        """All samples."""
        return sum(self.counts.values())

    @property
    def covariance(self) -> Tensor:
        """``S / N``, as maximum likelihood has it."""
        return self.scatter / max(self.count, 1)

    def means(self, labels: Sequence[Label]) -> Tensor:
        """``(n_classes, dim)`` class means in the order of ``labels``."""
        return torch.stack([self.totals[label] / self.counts[label] for label in labels])


def _joined(parts: Iterator[Tensor]) -> Iterator[Tensor]:
    """The same rows in fewer tensors: adding thirty rows to a large scatter takes as long as adding thousands."""
    waiting: list[Tensor] = []
    for part in parts:
        waiting.append(part)
        if sum(map(len, waiting)) >= _ROWS_AT_ONCE:
            yield torch.cat(waiting)
            waiting = []
    if waiting:
        yield torch.cat(waiting)


@dataclass(frozen=True, eq=False)
class LinearDiscriminant:
    """``score_c = x·Λμ_c - ½ μ_cᵀΛμ_c``, the log-likelihood of class c up to what all classes share; Λ = Σ⁻¹."""

    weights: Tensor  # (dim, n_classes)
    offsets: Tensor  # (n_classes,)

    @classmethod
    def of(cls, means: Tensor, covariance: Tensor) -> LinearDiscriminant:
        """The discriminant of ``means`` ``(n_classes, dim)`` with one ``covariance`` ``(dim, dim)``."""
        weights = symmetric_solve(covariance, means.T)
        return cls(weights, (means.T * weights).sum(0) / 2)

    def scores(self, vectors: Tensor) -> Tensor:
        """``(n, n_classes)`` float64."""
        return vectors.double() @ self.weights - self.offsets

    def log_probabilities(self, vectors: Tensor) -> Tensor:
        """Log-probabilities ``(n, n_classes)``: the scores times :func:`temperature`, normalised."""
        return (temperature(len(self.weights)) * self.scores(vectors)).log_softmax(1)


def temperature(dim: int) -> float:
    """``min(1, 3 / √dim)``: how far log-likelihoods of ``dim`` dimensions can be trusted.

    A Gaussian likelihood adds up its dimensions as if they erred independently. In real features they err together, so
    that evidence grows like the root of their number; unscaled, nearly every probability would be 0 or 1. The label
    does not depend on it.
    """
    return min(1.0, _TEMPERATURE_SCALE / math.sqrt(dim))


def shrunk_towards_sphere(covariance: Tensor, shrinkage: float, means: Tensor) -> Tensor:
    """``(1 - ρ) Σ + ρ tr(Σ)/p I``; the identity where samples do not scatter about the ``means`` at all."""
    level = float(covariance.diagonal().mean())
    if level <= _NO_SCATTER * float(means.square().mean()):
        return torch.eye(len(covariance), dtype=torch.float64)
    shrunk = (1 - shrinkage) * covariance
    shrunk.diagonal().add_(shrinkage * level)
    return shrunk


def oracle_approximating_shrinkage(covariance: Tensor, n: int) -> float:
    """``ρ = ((1 - 2/p) tr(Σ²) + tr²(Σ)) / ((n + 1 - 2/p) (tr(Σ²) - tr²(Σ)/p))``, at most 1, of ``n`` samples.

    The shrinkage towards the sphere that comes nearest to the true covariance of Gaussian samples, from traces alone.

    References
    ----------
    Chen et al., "Shrinkage algorithms for MMSE covariance estimation", 2010. https://arxiv.org/abs/0907.4698

    Examples
    --------
    >>> oracle_approximating_shrinkage(torch.diag(torch.tensor([4.0, 1.0])), n=10)
    0.5556
    """
    p, squares = len(covariance), float(covariance.square().sum())
    trace = float(covariance.diagonal().sum())
    excess = (n + 1 - 2 / p) * (squares - trace**2 / p)
    return min(1.0, ((1 - 2 / p) * squares + trace**2) / excess) if excess > 0 else 1.0
