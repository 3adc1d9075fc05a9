"""The distance of FeCAM: Mahalanobis, with a shrunk covariance brought to unit diagonal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from gddsg.core.decompositions import symmetric_eigen
from gddsg.core.moments import Moments

_DIRECTIONS_AT_ONCE = 512
_ROUGH = 1e-4  # of the terms that cancel out in a distance: hundreds of times what float32 gets wrong


@dataclass(frozen=True, eq=False)
class CorrelationMetric:
    """``dᵀ (D⁻¹ Σ D⁻¹)⁻¹ d`` for ``d = x - μ``, Σ the shrunk covariance of a class and D² its diagonal.

    It is ``(D d)ᵀ Σ⁻¹ (D d)``, and with ``Σ = κ I + Σ_j v_j q_j q_jᵀ`` it becomes
    ``(‖D d‖² - Σ_j v_j / (κ + v_j) (q_j · D d)²) / κ``: no matrix is inverted. The scale of Σ cancels out.

    Attributes
    ----------
    mean : Tensor
        ``(dim,)``, μ.
    weights : Tensor
        ``(dim,)``, ``D² / κ``; ones for a class without scatter, whose matrix is the identity.
    directions, shares : Tensor
        ``D q_j / √κ`` ``(r, dim)`` and ``v_j / (κ + v_j)`` ``(r,)``.
    """

    mean: Tensor
    weights: Tensor
    directions: Tensor
    shares: Tensor

    @classmethod
    def of(cls, scatter: Moments, alpha1: float, alpha2: float, mean: Tensor | None = None) -> CorrelationMetric:
        """The metric of a class, with ``Σ = S / (n - 1) + α₁ V₁ I + α₂ V₂ (1 1ᵀ - I)``; μ is the mean unless given."""
        mean = scatter.mean if mean is None else mean
        directions, values, level = shrunk_spectrum(scatter, alpha1, alpha2)
        if level <= 0:
            nothing = scatter.total.new_zeros(0, len(scatter.total))
            return cls(mean, torch.ones_like(mean), nothing, nothing[:, 0])
        weights = (directions.square() * (values / level)[:, None]).sum(0) + 1
        return cls(mean, weights, directions * weights.sqrt(), values / (level + values))

    def float(self) -> CorrelationMetric:
        """The same in float32."""
        return CorrelationMetric(*(getattr(self, field.name).float() for field in fields(self)))


def correlation_distances(metrics: Sequence[CorrelationMetric], vectors: Tensor) -> Tensor:
    """Squared distances ``(n, n_metrics)`` of ``vectors`` ``(n, dim)``; many classes share a product, for speed."""
    means, weights = (torch.stack([getattr(one, name) for one in metrics]) for name in ("mean", "weights"))
    weighted = weights * means
    straight = vectors.square() @ weights.T - 2 * vectors @ weighted.T + (weighted * means).sum(1)  # Σ weights (x - μ)²
    along = [_along(some, vectors) for some in _blocks(metrics)]
    return straight - torch.cat(along, dim=1)


def nearest_metric(metrics: Sequence[CorrelationMetric], vectors: Tensor) -> Tensor:
    """Index ``(n,)`` of the metric with the least distance to each of ``vectors`` ``(n, dim)`` float64.

    Products in float32 take less time. They leave a few classes to choose from, and float64 decides.
    """
    rough_metrics, rough_vectors = [one.float() for one in metrics], vectors.float()
    rough = correlation_distances(rough_metrics, rough_vectors)
    means, weights = (torch.stack([getattr(one, name) for one in rough_metrics]) for name in ("mean", "weights"))
    unsure = _ROUGH * (rough_vectors.square() @ weights.T + (weights * means.square()).sum(1))
    possible = ~(rough - unsure > (rough + unsure).amin(1, keepdim=True))  # so that an overflow rules nothing out
    exact = torch.full(rough.shape, torch.inf, dtype=torch.float64)
    for c in torch.nonzero(possible.any(0))[:, 0].tolist():
        rows = possible[:, c]
        exact[rows, c] = correlation_distances([metrics[c]], vectors[rows])[:, 0]
    return exact.argmin(1)


def _along(metrics: Sequence[CorrelationMetric], vectors: Tensor) -> Tensor:
    directions, shares = (torch.cat([getattr(one, name) for one in metrics]) for name in ("directions", "shares"))
    offsets = torch.cat([one.directions @ one.mean for one in metrics])
    squares = torch.addmm(-offsets[None], vectors, directions.T).square_().mul_(shares)
    parts = squares.split([len(one.directions) for one in metrics], dim=1)
    return torch.stack([part.sum(1) for part in parts], dim=1)


def _blocks(metrics: Sequence[CorrelationMetric]) -> Iterator[list[CorrelationMetric]]:
    """Consecutive classes whose directions together are about ``_DIRECTIONS_AT_ONCE``."""
    block: list[CorrelationMetric] = []
    for one in metrics:
        block.append(one)
        if sum(len(member.directions) for member in block) >= _DIRECTIONS_AT_ONCE:
            yield block
            block = []
    if block:
        yield block


def shrunk_spectrum(scatter: Moments, alpha1: float, alpha2: float) -> tuple[Tensor, Tensor, float]:
    """Directions q_j ``(r, dim)``, values v_j ``(r,)`` and level κ of ``Σ + α₁ V₁ I + α₂ V₂ (1 1ᵀ - I)``.

    V₁ and V₂ are the means of the diagonal of Σ and of the rest. That matrix is ``κ I + Σ_j v_j q_j q_jᵀ`` with
    ``κ = α₁ V₁ - α₂ V₂``; κ is 0 for a class without scatter.
    """
    rows, dim = scatter.factor.double() / max(scatter.count - 1, 1) ** 0.5, scatter.factor.shape[1]
    values = rows.square().sum(1)
    trace = float(values.sum())
    off_diagonal = (float(rows.sum(1).square().sum()) - trace) / max(dim * (dim - 1), 1)
    level = alpha1 * trace / dim - alpha2 * off_diagonal
    if alpha2 == 0:
        return rows / values.sqrt()[:, None], values, level
    basis = torch.linalg.qr(torch.cat([rows, torch.ones(1, dim, dtype=rows.dtype)]).T).Q  # spans the rows and the ones
    inner, ones = rows @ basis, basis.sum(0)
    values, rotation = symmetric_eigen(inner.T @ inner + alpha2 * off_diagonal * torch.outer(ones, ones))
    return (basis @ rotation).T, values, level
