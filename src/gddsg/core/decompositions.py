"""Decompositions that do not fail on finite numbers, whatever the scale, the rank or the multiplicity of the spectrum.

Few and simple samples give matrices of tiny rank, on which a quick routine may not converge or may break down; on which
of them depends on the processor and on the number of threads. Each function tries the quick way first and falls back.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gddsg.core.array_eigen import iterated_eigen

_JITTERS = tuple(10.0**k for k in range(-15, 1))
"""Relative to the mean of the diagonal."""


def symmetric_eigen(matrix: Tensor, rough: bool = False) -> tuple[Tensor, Tensor]:
    """``A = V diag(values) Vᵀ``: values ``(n,)`` ascending and orthogonal V ``(n, n)``, of the type of A.

    Divide and conquer; where that does not converge, QR iteration, which takes longer and needs no luck.

    Parameters
    ----------
    matrix : Tensor
        ``(n, n)`` symmetric and finite, float32 or float64.
    rough : bool
        Whether the precision of float32 will do, which takes half the time. Where it does not converge, float64 has
        its turn.
    """
    scale = power_of_two(matrix) if rough else 1.0  # in float64 no scale is out of range
    found = _divide_and_conquer((matrix / scale).float()) if rough else None
    if found is None:
        scale, exact = 1.0, matrix.double()
        found = _divide_and_conquer(exact) or _iterate(exact)
    return found[0].to(matrix) * scale, found[1].to(matrix)


def _divide_and_conquer(matrix: Tensor) -> tuple[Tensor, Tensor] | None:
    try:
        values, vectors = torch.linalg.eigh(matrix)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # documented, and missing in torch's types
        return None
    return (values, vectors) if bool(values.isfinite().all() and vectors.isfinite().all()) else None


def _iterate(matrix: Tensor) -> tuple[Tensor, Tensor]:
    values, vectors = iterated_eigen(matrix.cpu().numpy())
    return torch.from_numpy(values), torch.from_numpy(vectors)


def low_rank_eigen(matrix: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`symmetric_eigen` of a matrix that is ``level · I`` but for what some rows span; values in any order.

    A basis of the rows is completed to one of all directions, and only what they span is decomposed: in a fraction of
    the time, and exactly, where a decomposition of the whole would have to tell apart values that are all the same.

    Parameters
    ----------
    matrix : Tensor
        ``(n, n)`` symmetric and finite, float64.
    rows : Tensor
        ``(r, n)`` with r < n.
    """
    r, n = rows.shape
    basis = torch.linalg.qr((rows / power_of_two(rows)).double().T, mode="complete").Q
    spanned, rest = basis[:, :r], basis[:, r:]
    values, rotation = symmetric_eigen(spanned.T @ matrix @ spanned)
    level = (matrix.diagonal().sum() - values.sum()) / (n - r)
    return torch.cat([level.expand(n - r), values]), torch.cat([rest, spanned @ rotation], dim=1)


def cholesky(matrix: Tensor) -> Tensor:
    """Lower triangular L with ``L Lᵀ = A`` for a positive definite A.

    Where rounding leaves A indefinite, the least jitter that helps is added to its diagonal: from 1e-15 of the mean of
    the diagonal on, in steps of ten, and in the end what makes any matrix positive definite.

    Parameters
    ----------
    matrix : Tensor
        ``(n, n)`` symmetric and finite, float64.
    """
    factor = cholesky_or_none(matrix)
    if factor is not None:
        return factor
    scale = power_of_two(matrix)
    scaled = matrix / scale
    level = max(float(scaled.diagonal().abs().mean()), torch.finfo(torch.float64).eps)
    dominant = 2 * float(scaled.abs().sum(1).max()) + level  # no eigenvalue lies farther below zero
    for jitter in (*(share * level for share in _JITTERS), dominant):
        factor = cholesky_or_none(scaled + jitter * torch.eye(len(scaled)).to(scaled))
        if factor is not None:
            break
    assert factor is not None  # a dominant diagonal has one
    return factor * math.sqrt(scale)


def cholesky_or_none(matrix: Tensor) -> Tensor | None:
    """L, or None where the matrix is not positive definite by rounding."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    return None if int(failed) or not bool(factor.diagonal().isfinite().all()) else factor


def symmetric_solve(matrix: Tensor, right: Tensor) -> Tensor:
    """``A⁻¹ B`` for a positive definite A, and the least solution along what rounding leaves of one that is not.

    Parameters
    ----------
    matrix : Tensor
        ``(n, n)`` symmetric and finite, float64.
    right : Tensor
        ``(n, m)``.
    """
    factor = cholesky_or_none(matrix)
    if factor is not None:
        solution = torch.cholesky_solve(right, factor)
        if bool(solution.isfinite().all()):
            return solution
    values, vectors = symmetric_eigen(matrix)
    keep = values > len(matrix) * torch.finfo(torch.float64).eps * values[-1:]
    return vectors[:, keep] @ ((vectors[:, keep].T @ right) / values[keep][:, None])


def power_of_two(numbers: Tensor) -> float:
    """A power of two, by which a division is exact, of about the size of the largest number; 1 where all are zero."""
    peak = float(numbers.abs().max()) if numbers.numel() else 0.0
    return 2.0 ** math.floor(math.log2(peak)) if peak else 1.0
