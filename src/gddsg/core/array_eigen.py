"""Eigenvalues of symmetric arrays, without torch; see :mod:`gddsg.core.decompositions` for tensors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def array_eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """``A = V diag(values) Vᵀ``: values ``(n,)`` ascending and orthogonal V ``(n, n)``.

    Divide and conquer; where that does not converge, :func:`iterated_eigen`.

    Parameters
    ----------
    matrix : ndarray
        ``(n, n)`` symmetric and finite.
    """
    try:
        values, vectors = np.linalg.eigh(matrix)
    except np.linalg.LinAlgError:
        return iterated_eigen(matrix)
    return values, vectors


def iterated_eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """The same by QR iteration, which takes longer and needs no luck."""
    from scipy.linalg import eigh  # hardly ever needed, and takes a while to import

    values, vectors = eigh(matrix, driver="ev", check_finite=False)
    return values, vectors
