"""Gram matrices as running sums."""

from __future__ import annotations

from torch import Tensor

_COLUMNS_AT_ONCE = 1024  # wide enough for a product to run at full speed


def add_gram(total: Tensor, rows: Tensor) -> None:
    """``total += rowsᵀ rows`` in place; each inner product of two columns is computed once, which is half of the work.

    Parameters
    ----------
    total : Tensor
        ``(dim, dim)``, symmetric.
    rows : Tensor
        ``(n, dim)`` of the same type.
    """
    for start in range(0, rows.shape[1], _COLUMNS_AT_ONCE):
        stop = start + _COLUMNS_AT_ONCE
        products = rows[:, start:].T @ rows[:, start:stop]
        total[start:, start:stop] += products
        total[start:stop, stop:] += products[_COLUMNS_AT_ONCE:].T
