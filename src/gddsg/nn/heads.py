"""Classifier heads that grow by a row a class."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["CosineHead", "LinearHead"]


class LinearHead(nn.Module):
    """``W x + b``, a row a class; new rows are drawn as torch draws those of ``nn.Linear``.

    Parameters
    ----------
    width : int
        Of the features.
    classes : int
        Rows at first.
    random : torch.Generator
        What they are drawn from.
    """

    def __init__(self, width: int, classes: int, random: torch.Generator) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(classes, width).uniform_(-bound, bound, generator=random))
        self.bias = nn.Parameter(torch.empty(classes).uniform_(-bound, bound, generator=random))

    def forward(self, features: Tensor) -> Tensor:
        """Scores ``(n, classes)`` of features ``(n, width)``."""
        return F.linear(features, self.weight, self.bias)

    def grown(self, classes: int, random: torch.Generator) -> LinearHead:
        """Another head with so many rows in all; the first are those of this one."""
        known, width = self.weight.shape
        head = LinearHead(width, classes, random)
        with torch.no_grad():
            head.weight[:known] = self.weight
            head.bias[:known] = self.bias
        return head


class CosineHead(nn.Module):
    """``σ cos(w, x)``, a row w a class, with a scale σ that is learnt.

    Parameters
    ----------
    width : int
        Of the features.
    classes : int
        Rows.
    random : torch.Generator
        What they are drawn from.
    """

    def __init__(self, width: int, classes: int, random: torch.Generator) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(classes, width).uniform_(-bound, bound, generator=random))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, features: Tensor) -> Tensor:
        """Scores ``(n, classes)`` of features ``(n, width)``."""
        return self.scale * F.linear(F.normalize(features), F.normalize(self.weight))
