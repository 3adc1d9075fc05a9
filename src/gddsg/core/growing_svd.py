"""The leading singular directions of rows that come batch by batch and are far wider than many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gddsg.core.array_eigen import array_eigen
from gddsg.core.decompositions import symmetric_eigen

_COLUMNS_AT_ONCE = 4096
_ROUNDING = 1e-12  # of the largest squared singular value: what lies below is left of the rows' being float32


@dataclass(frozen=True, eq=False)
class GrowingSVD:
    """Left factor of a truncated singular value decomposition ``Hᵀ ≈ U diag(σ) Vᵀ``, where V is of no use any more.

    Attributes
    ----------
    factor : Tensor
        ``diag(σ) Uᵀ``, ``(rank, dim)`` float32, the largest first: ``factorᵀ factor ≈ HᵀH``.
    count : int
        How many rows H has had.
    """

    factor: Tensor
    count: int

    @classmethod
    def empty(cls, dim: int) -> GrowingSVD:
        """Of no row."""
        return cls(torch.zeros(0, dim), 0)

    def plus(self, rows: Tensor, rank: int) -> GrowingSVD:
        """That of ``[U diag(σ), rowsᵀ]``, cut to ``rank`` again.

        Decomposed is the smaller of the two Gram matrices. They are summed up in float64, some columns at a time, so
        that besides the rows and the two factors nothing of their width is held.

        Parameters
        ----------
        rows : Tensor
            ``(n, dim)`` float32.
        rank : int
            How many directions to keep at most.
        """
        parts = [self.factor.to(rows.device), rows]
        height, dim = sum(map(len, parts)), rows.shape[1]
        if height <= dim:
            vectors = _leading(self._gram(parts), rank)[1]
            factor = rows.new_empty(vectors.shape[1], dim)
            for columns, slab in _slabs(parts):
                factor[:, columns] = (vectors.T @ slab).float()
        else:
            whole = torch.cat(parts).double()
            values, vectors = _leading(whole.T @ whole, rank)
            factor = (values.sqrt()[:, None] * vectors.T).float()
        return GrowingSVD(factor.cpu(), self.count + len(rows))

    def _gram(self, parts: Sequence[Tensor]) -> Tensor:
        """Inner products of all rows; those of the factor are orthogonal, which saves most of the work."""
        known, height = len(parts[0]), sum(map(len, parts))
        gram = parts[0].new_zeros(height, height, dtype=torch.float64)
        gram.diagonal()[:known] = self._squares.to(gram)
        for _, slab in _slabs(parts):
            gram[known:] += slab[known:] @ slab.T
        gram[:known, known:] = gram[known:, :known].T
        return gram

    @property
    def _squares(self) -> Tensor:
        """``σ²``, float64."""
        return self.factor.square().sum(1, dtype=torch.float64)

    def least_squares(self, right: Tensor) -> Tensor:
        """``U diag(σ)⁻² Uᵀ B``: the least-squares solution of least norm on the kept directions.

        Parameters
        ----------
        right : Tensor
            B, ``(dim, m)`` float64; ``HᵀY`` for targets Y.
        """
        inner = right.new_zeros(len(self.factor), right.shape[1])
        for columns, slab in _slabs([self.factor]):
            inner += slab @ right[columns]
        inner /= self._squares.square()[:, None]  # rows of the factor are σ times as long as those of Uᵀ
        return torch.cat([slab.T @ inner for _, slab in _slabs([self.factor])])


def _slabs(parts: Sequence[Tensor]) -> Iterator[tuple[slice, Tensor]]:
    """Some columns of all parts, one below the other, in float64."""
    dim = parts[0].shape[1]
    for start in range(0, dim, _COLUMNS_AT_ONCE):
        columns = slice(start, min(start + _COLUMNS_AT_ONCE, dim))
        yield columns, torch.cat([part[:, columns].double() for part in parts])


def _leading(gram: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The at most ``rank`` largest eigenvalues that stand above rounding, largest first, and their vectors."""
    if gram.is_cpu:  # where NumPy's routine takes two thirds of the time of torch's, for 4000 rows
        values, vectors = map(torch.from_numpy, array_eigen(gram.numpy()))
    else:
        values, vectors = symmetric_eigen(gram)
    values, vectors = values.flip(0)[:rank], vectors.flip(1)[:, :rank]
    keep = values > _ROUNDING * values[:1]
    return values[keep], vectors[:, keep]
