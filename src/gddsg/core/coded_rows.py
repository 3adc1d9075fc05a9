"""Rows of numbers in a byte each: what makes a class card small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

_STEPS = 127
"""On either side of zero: eight bits. Fewer cost accuracy, since every merge codes the rows again: see
``docs/class-cards.md`` and ``benchmarks/bench_coding.py``."""


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows of which entry j is ``codes[i, j] · scales[i]``.

    Attributes
    ----------
    codes : ndarray
        ``(n_rows, dim)`` int8.
    scales : ndarray
        ``(n_rows,)`` float32.
    """

    codes: NDArray[np.int8]
    scales: NDArray[np.float32]

    @classmethod
    def of(cls, rows: Tensor) -> CodedRows:
        """The rows ``(n_rows, dim)``, each rounded to 255 steps as wide as its largest entry asks for."""
        exact = rows.cpu().float().numpy()
        scales = np.abs(exact).max(axis=1, initial=0.0) / np.float32(_STEPS)
        steps = exact / np.where(scales > 0, scales, 1)[:, None]
        return cls(np.rint(steps).clip(-_STEPS, _STEPS).astype(np.int8), scales.astype(np.float32))

    def __len__(self) -> int:
        return len(self.scales)

    @property
    def dim(self) -> int:
        """Length of a row."""
        return int(self.codes.shape[1])

    @property
    def energy(self) -> float:
        """Sum of the squares of all entries."""
        squares = np.einsum("ij,ij->i", self.codes, self.codes, dtype=np.int64)
        return float(np.square(self.scales, dtype=np.float64) @ squares)

    def thinned(self, count: int, to: int) -> CodedRows:
        """The scatter of fewer samples, ``to`` in place of ``count``, with the same covariance."""
        return self if to == count else CodedRows(self.codes, self.scales * np.float32((to / count) ** 0.5))

    def floats(self) -> NDArray[np.float32]:
        """The rows ``(n_rows, dim)``."""
        rows: NDArray[np.float32] = self.codes.astype(np.float32) * self.scales[:, None]
        return rows

    def decoded(self) -> Tensor:
        """The rows ``(n_rows, dim)`` float32, for torch."""
        import torch  # predictions start without it

        return torch.from_numpy(self.floats())
