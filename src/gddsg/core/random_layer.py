"""The random layer of analytic learning: drawn from a seed, never trained."""

from __future__ import annotations

from torch import Tensor

from gddsg.core.projection import project


def random_layer(features: Tensor, width: int, seed: int) -> Tensor:
    """``h = relu(x W)``, ``(n, width)`` float64, with entries of W of variance ``1 / (3 n_features)``.

    That is the variance of a linear layer that PyTorch has just made; with it comes the scale of the penalties that
    papers on analytic learning give.
    """
    return project(features.double(), width, seed).div_((3 * features.shape[1]) ** 0.5)
