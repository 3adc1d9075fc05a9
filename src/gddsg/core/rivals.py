"""Which classes a class is most easily taken for: those whose means lie nearest."""

from __future__ import annotations

import torch
from torch import Tensor

RIVALS = 5
"""How many of each class are looked at."""


def nearest_rivals(points: Tensor) -> tuple[Tensor, Tensor]:
    """Index pairs (class, rival): every class of ``points`` ``(n_classes, dim)`` with its nearest other classes."""
    n = len(points)
    distances = points.square().sum(1) - 2 * points @ points.T
    distances.fill_diagonal_(torch.inf)
    rivals = distances.topk(min(RIVALS, n - 1), largest=False).indices
    return torch.arange(n).repeat_interleave(rivals.shape[1]), rivals.flatten()
