"""The exact scatter of one class, as thin as its samples allow."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_ROWS_AT_ONCE = 4096
_EIGENVALUE_FLOOR = 1e-13  # relative to the largest: below it a float64 direction is rounding noise


@dataclass(frozen=True, eq=False)
class ThinScatter:
    """Count, sum and scatter of some vectors, ``scatter = factorᵀ factor``.

    Attributes
    ----------
    count : number of vectors.
    total : ``(dim,)`` float64, their sum.
    factor : ``(≤ min(count - 1, dim), dim)`` float32; orthogonal rows, the principal directions of the scatter about
        the mean, each as long as the root of the scatter along it. Nothing is cut off; no row is a sample.
    """

    count: int
    total: Tensor
    factor: Tensor

    @classmethod
    def of(cls, vectors: Tensor) -> ThinScatter:
        """Of the rows of ``vectors`` ``(n, dim)``, ``n ≥ 1``."""
        parts = [cls._of_chunk(chunk.double().cpu()) for chunk in vectors.split(_ROWS_AT_ONCE)]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.merge(part)
        return whole

    @classmethod
    def _of_chunk(cls, vectors: Tensor) -> ThinScatter:
        total = vectors.sum(0)
        return cls(len(vectors), total, principal_rows(vectors - total / len(vectors)).float())

    @property
    def mean(self) -> Tensor:
        """``(dim,)`` float64."""
        return self.total / self.count

    def merge(self, other: ThinScatter) -> ThinScatter:
        """``S_a + S_b + n_a n_b / n (m_a - m_b)(m_a - m_b)ᵀ``: of both sets of vectors together."""
        count = self.count + other.count
        shift = (self.count * other.count / count) ** 0.5 * (self.mean - other.mean)
        rows = torch.cat([self.factor.double(), other.factor.double(), shift[None]])
        return ThinScatter(count, self.total + other.total, principal_rows(rows).float())


def principal_rows(rows: Tensor) -> Tensor:
    """Orthogonal rows with the same ``rowsᵀ rows``, by the smaller of the two Gram matrices; zero ones left out."""
    wide = len(rows) <= rows.shape[1]
    values, vectors = torch.linalg.eigh(rows @ rows.T if wide else rows.T @ rows)
    keep = values > _EIGENVALUE_FLOOR * values[-1:].clamp(min=torch.finfo(values.dtype).tiny)
    directions: Tensor = vectors[:, keep].T
    return directions @ rows if wide else directions * values[keep].sqrt()[:, None]
