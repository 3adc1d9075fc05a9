"""Tensors that are zero in most places, kept in little room."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Sparse"]


@dataclass(frozen=True, eq=False)
class Sparse:
    """A tensor that is zero in most places: which ones are not, a bit each, and their values.

    Attributes
    ----------
    shape : tuple of int
        Of the tensor.
    places : ndarray
        Packed bits, ``(ceil(size / 8),)`` uint8.
    values : Tensor
        Those that are not zero, float32 on the CPU.

    Examples
    --------
    >>> kept = Sparse.of(torch.tensor([[0.0, 3.0], [0.0, -1.0]]))
    >>> kept.values.tolist(), kept.dense().tolist()
    ([3.0, -1.0], [[0.0, 3.0], [0.0, -1.0]])
    """

    shape: tuple[int, ...]
    places: NDArray[np.uint8]
    values: Tensor

    @classmethod
    def of(cls, tensor: Tensor, above: float = 0.0) -> Sparse:
        """What is larger than ``above`` in absolute value; all else becomes zero.

        Parameters
        ----------
        tensor : Tensor
            Of any shape.
        above : float
            From 0.
        """
        flat = tensor.detach().cpu().float().flatten()
        there = flat.abs() > above
        return cls(tuple(tensor.shape), np.packbits(there.numpy()), flat[there].clone())

    @property
    def count(self) -> int:
        """How many entries are not zero."""
        return len(self.values)

    def dense(self) -> Tensor:
        """The whole tensor, a new one every time."""
        size = prod(self.shape)
        flat = torch.zeros(size)
        flat[torch.from_numpy(np.unpackbits(self.places, count=size).astype(bool))] = self.values
        return flat.view(self.shape)
