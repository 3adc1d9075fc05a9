"""Moments: count, sum and scatter of some vectors, exact or in few bytes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gddsg.core.coded_rows import CodedRows
from gddsg.core.decompositions import power_of_two, symmetric_eigen

_CHUNK_ROWS = 1024
_SUBSPACE_STEPS = 4
_USUAL_ENERGIES = (1e-12, 1e24)  # of rows: others are scaled, lest a Gram matrix leave the range of float32
_EIGENVALUE_FLOORS = {torch.float32: 1e-6, torch.float64: 1e-13}
"""Relative to the largest eigenvalue: below it a direction is rounding noise."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, sum and scatter of some vectors; ``scatter ≈ factorᵀ factor + residual / dim · I``.

    Attributes
    ----------
    count : int
        Number of vectors.
    total : Tensor
        ``(dim,)`` float64, their sum.
    factor : Tensor
        ``(≤ rank, dim)`` float32, the leading principal directions of the scatter about the mean, each as long as the
        square root of the scatter along it. For fewer vectors than ``rank`` it spans exactly what they span.
    residual : float
        The energy (trace) of the scatter outside ``factor``.
    """

    count: int
    total: Tensor
    factor: Tensor
    residual: float

    @classmethod
    def empty(cls, dim: int) -> Moments:
        """Moments of no vector."""
        return cls(0, torch.zeros(dim, dtype=torch.float64), torch.zeros(0, dim), 0.0)

    @classmethod
    def of(cls, vectors: Tensor, rank: int | None = None) -> Moments:
        """Moments of the rows of ``vectors`` ``(n, dim)``, whatever device they are on; the result is on the CPU.

        Without a ``rank`` nothing is cut off, and float64 does the arithmetic.
        """
        if len(vectors) == 0:
            return cls.empty(vectors.shape[1])
        chunks = [cls._of_chunk(chunk, rank) for chunk in vectors.split(_CHUNK_ROWS)]
        moments = chunks[0]
        for chunk in chunks[1:]:
            moments = moments._joined(chunk, rank)
        return moments

    @classmethod
    def _of_chunk(cls, vectors: Tensor, rank: int | None) -> Moments:
        vectors = vectors.double() if rank is None else vectors
        total = vectors.sum(0, dtype=torch.float64)
        centred = vectors - (total / len(vectors)).to(vectors)
        factor, residual = principal_factor(centred, rank)
        return cls(len(vectors), total.cpu(), factor.float().cpu(), residual)

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return len(self.total)

    @property
    def mean(self) -> Tensor:
        """``(dim,)`` float64; zero where there is no vector."""
        return self.total / max(self.count, 1)

    @property
    def energy(self) -> float:
        """Trace of the scatter."""
        return float(self.factor.double().square().sum()) + self.residual

    def merge(self, other: Moments, rank: int | None = None) -> Moments:
        """Moments of both sets of vectors together, cut to ``rank`` again; ``a.merge(b)`` equals ``b.merge(a)``."""
        first, second = sorted((self, other), key=lambda m: (m.count, _raw_bytes(m.total), _raw_bytes(m.factor)))
        return first._joined(second, rank)

    def _joined(self, other: Moments, rank: int | None) -> Moments:
        if self.count == 0 or other.count == 0:
            return other if self.count == 0 else self
        # S = S_a + S_b + (n_a n_b / n) (m_a - m_b)(m_a - m_b)ᵀ
        weight = (self.count * other.count / (self.count + other.count)) ** 0.5
        shift = weight * (self.mean - other.mean)
        rows = torch.cat([self.factor.double(), other.factor.double(), shift[None]])
        factor, lost = principal_factor(rows if rank is None else rows.float(), rank)
        residual = self.residual + other.residual + lost
        return Moments(self.count + other.count, self.total + other.total, factor.float(), residual)


def _raw_bytes(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


def principal_factor(rows: Tensor, rank: int | None) -> tuple[Tensor, float]:
    """The ``rank`` leading directions, or all, of ``rowsᵀ rows``, as a factor ``(≤ rank, dim)``, and the energy lost.

    Works on the smaller of the two Gram matrices. The rows come out rotated into principal directions, so that even
    an uncut factor holds no single sample.
    """
    energy = _energy(rows)
    if not _USUAL_ENERGIES[0] < energy < _USUAL_ENERGIES[1] and rows.any():
        scale = power_of_two(rows)
        factor, lost = _principal_factor(rows / scale, rank, _energy(rows / scale))
        return factor * scale, lost * scale**2
    return _principal_factor(rows, rank, energy)


def _principal_factor(rows: Tensor, rank: int | None, energy: float) -> tuple[Tensor, float]:
    n, dim = rows.shape
    gram = rows @ rows.T if n <= dim else rows.T @ rows
    values, vectors = _leading_eigenpairs(gram, rank)
    factor = vectors.T @ rows if n <= dim else values.sqrt()[:, None] * vectors.T
    return factor.contiguous(), max(energy - _energy(factor), 0.0)


def _energy(rows: Tensor) -> float:
    return float(rows.square().sum(dtype=torch.float64))


def _leading_eigenpairs(gram: Tensor, rank: int | None) -> tuple[Tensor, Tensor]:
    """The at most ``rank`` largest eigenvalues that stand above rounding, largest first, with their vectors."""
    if rank is None or len(gram) <= 4 * rank:
        values, vectors = symmetric_eigen(gram)
    else:
        values, vectors = _subspace_iteration(gram, rank + rank // 4 + 8)
    values, vectors = values.flip(0)[:rank], vectors.flip(1)[:, :rank]
    keep = values > _EIGENVALUE_FLOORS[values.dtype] * values[:1].clamp(min=torch.finfo(values.dtype).tiny)
    return values[keep], vectors[:, keep]


def _subspace_iteration(gram: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Eigenpairs of the leading subspace by a few multiplications: a third of the time of a full decomposition."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.randn(len(gram), size, generator=generator).to(gram)
    for _ in range(_SUBSPACE_STEPS):
        basis = torch.linalg.qr(gram @ basis).Q
    values, rotation = symmetric_eigen(basis.T @ (gram @ basis))
    return values, basis @ rotation


@dataclass(frozen=True, eq=False)
class CodedMoments:
    """Moments as a class card keeps them: the factor in a byte an entry, the sum in float32.

    Attributes
    ----------
    count : int
        Number of vectors.
    total : Tensor
        ``(dim,)`` float32, their sum.
    factor : CodedRows
        ``(≤ rank, dim)``, see :class:`Moments`.
    residual : float
        The energy of the scatter that the coded factor lacks.
    """

    count: int
    total: Tensor
    factor: CodedRows
    residual: float

    @classmethod
    def of(cls, vectors: Tensor, rank: int) -> CodedMoments:
        """Moments of the rows of ``vectors`` ``(n, dim)``."""
        return cls.coded(Moments.of(vectors, rank))

    @classmethod
    def coded(cls, moments: Moments) -> CodedMoments:
        """The same moments in fewer bytes."""
        factor = CodedRows.of(moments.factor)
        return cls(moments.count, moments.total.float(), factor, max(moments.energy - factor.energy, 0.0))

    def decoded(self) -> Moments:
        """The same moments, ready for arithmetic."""
        return Moments(self.count, self.total.double(), self.factor.decoded(), self.residual)

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return len(self.total)

    @property
    def mean(self) -> Tensor:
        """``(dim,)`` float64; zero where there is no vector."""
        return self.total.double() / max(self.count, 1)

    @property
    def energy(self) -> float:
        """Trace of the scatter."""
        return self.factor.energy + self.residual

    def thinned(self, count: int) -> CodedMoments:
        """As if there had been fewer vectors, with the same mean and covariance."""
        if count == self.count:
            return self
        share, factor = count / self.count, self.factor.thinned(self.count, count)
        return CodedMoments(count, self.total * share, factor, self.residual * share)

    def merge(self, other: CodedMoments, rank: int) -> CodedMoments:
        """Moments of both sets of vectors together, cut to ``rank`` again; ``a.merge(b)`` equals ``b.merge(a)``."""
        if self.count == 0 or other.count == 0:
            return other if self.count == 0 else self
        return CodedMoments.coded(self.decoded().merge(other.decoded(), rank))
