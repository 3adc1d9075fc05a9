"""Welsh-Powell graph colouring (paper, section 4.2)."""

from __future__ import annotations

import numpy as np
from torch import Tensor


def welsh_powell(adjacency: Tensor) -> list[int]:
    """Colour of every vertex of a symmetric bool matrix; neighbours differ, few colours are used.

    Vertices are taken by descending degree, ties in the order they stand in, each with the smallest free colour.

    Examples
    --------
    A path of three vertices takes two colours:

    >>> import torch
    >>> path = torch.tensor([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=torch.bool)
    >>> welsh_powell(path)
    [1, 0, 1]
    """
    neighbours, none = adjacency.numpy(), len(adjacency)
    colours = np.full(len(adjacency), none)
    for vertex in _by_degree(adjacency):
        free = np.ones(none + 1, dtype=bool)
        free[colours[neighbours[vertex]]] = False
        colours[vertex] = free.argmax()
    return [int(colour) for colour in colours]


def welsh_powell_bound(adjacency: Tensor) -> int:
    """``max_i min(deg(v_i) + 1, i)`` over vertices by descending degree: never more colours than this."""
    degrees = sorted((int(d) for d in adjacency.sum(1)), reverse=True)
    return max((min(degree + 1, i) for i, degree in enumerate(degrees, start=1)), default=0)


def _by_degree(adjacency: Tensor) -> list[int]:
    degrees = adjacency.sum(1).tolist()
    return sorted(range(len(degrees)), key=lambda vertex: (-degrees[vertex], vertex))
