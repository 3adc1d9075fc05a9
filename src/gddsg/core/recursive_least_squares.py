"""Recursive least squares: the inverse of a growing Gram matrix, kept up to date."""

from __future__ import annotations

import torch
from torch import Tensor

_ROWS_AT_ONCE = 1024


def inverse_with_rows(inverse: Tensor, rows: Tensor) -> Tensor:
    """``R - R Xᵀ (I + X R Xᵀ)⁻¹ X R``, which is ``(R⁻¹ + XᵀX)⁻¹``, for ``R`` ``(M, M)`` and ``X`` ``(n, M)``."""
    for chunk in rows.split(_ROWS_AT_ONCE):
        gain = chunk @ inverse  # X R
        inner = gain @ chunk.T
        inner.diagonal().add_(1)
        half = torch.linalg.solve_triangular(torch.linalg.cholesky(inner), gain, upper=False)
        inverse = inverse - half.T @ half  # stays symmetric, where R Xᵀ K X R would drift away from it
    return inverse


def inverse_with_gram(inverse: Tensor, gram: Tensor) -> Tensor:
    """``(R⁻¹ + XᵀX)⁻¹`` as it stands: equal to :func:`inverse_with_rows`, and quicker for more rows than R has."""
    return _inverse(_inverse(inverse) + gram)


def _inverse(matrix: Tensor) -> Tensor:
    return torch.cholesky_inverse(torch.linalg.cholesky(matrix))
