"""What a class's own scatter adds to its score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gddsg.core.array_eigen import array_eigen
from gddsg.core.coded_rows import CodedRows

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OwnScatter:
    """What a class's own scatter adds to its score: ``½ ‖inner F T_0⁻¹ (x - μ)‖² - ½ log det``, by Woodbury's identity.

    F are the rows of the class's factor, and W the whitener, ``W Wᵀ = T_0⁻¹``.

    Attributes
    ----------
    directions : ndarray
        ``inner F W``, ``(rank, dim)`` float64; empty in large models.
    factor : CodedRows
        F.
    inner : ndarray
        ``(rank, rank)`` float32.
    log_det : float
        Of ``I + w F T_0⁻¹ Fᵀ``.
    """

    directions: Floats
    factor: CodedRows
    inner: NDArray[np.float32]
    log_det: float

    @classmethod
    def of(cls, factor: CodedRows, weight: float, whitener: NDArray[np.float32], ready: bool) -> OwnScatter:
        """``inner = sqrt(w (I + w F T_0⁻¹ Fᵀ)⁻¹)``, each class by itself, so that rounding depends on no other.

        Parameters
        ----------
        factor : CodedRows
            F, ``(rank, dim)``.
        weight : float
            w, of ``FᵀF`` beside T_0.
        whitener : ndarray
            ``(dim, dim)``, W.
        ready : bool
            Whether the directions are to be kept ready for use.
        """
        return cls.of_whitened(factor, factor.floats() @ whitener, weight, ready)

    @classmethod
    def of_whitened(cls, factor: CodedRows, rows: NDArray[np.float32], weight: float, ready: bool) -> OwnScatter:
        """The same from ``rows = F W``, so that ``F T_0⁻¹ Fᵀ = rows rowsᵀ``."""
        values, vectors = array_eigen((rows @ rows.T).astype(np.float64))
        values = weight * values.clip(min=0)
        inner = (np.sqrt(weight / (1 + values))[:, None] * vectors.T).astype(np.float32)
        directions = (inner @ rows if ready else rows[:0]).astype(np.float64)
        return cls(directions, factor, inner, float(np.log1p(values).sum()))

    def term_ready(self, whitened: Floats, centre: Floats) -> Floats:
        """What is added to the scores ``(n,)``, from ``Wᵀ x`` ``(n, dim)`` and ``Wᵀ μ``, by the directions."""
        return self._term(whitened @ self.directions.T - self.directions @ centre)

    def term(self, solved: Floats, centre: Floats) -> Floats:
        """What is added to the scores ``(n,)``, from ``T_0⁻¹ x`` ``(n, dim)`` and ``T_0⁻¹ μ``."""
        codes = self.factor.codes.astype(np.float64)
        along = (solved @ codes.T - codes @ centre) * self.factor.scales.astype(np.float64)
        return self._term(along @ self.inner.T.astype(np.float64))

    def _term(self, along: Floats) -> Floats:
        term: Floats = (np.square(along).sum(1) - self.log_det) / 2
        return term
