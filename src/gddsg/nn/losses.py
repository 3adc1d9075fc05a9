"""Losses that several methods share."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["cross_entropy_among"]


def cross_entropy_among(classes: Iterable[int], scores: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy as if there were no other classes: scores of all others take no part and get no gradient.

    Parameters
    ----------
    classes : iterable of int
        Columns that take part.
    scores : Tensor
        ``(n, n_classes)``.
    targets : Tensor
        ``(n,)``, among the columns that take part.
    """
    absent = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
    absent[list(classes)] = False
    return F.cross_entropy(scores.masked_fill(absent, -torch.inf), targets)
