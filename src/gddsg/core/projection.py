"""The random projection ``h(x) = relu(x W)`` (paper, eq. 5): drawn from a seed, never stored."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor


@lru_cache(maxsize=4)
def projection_weights(feature_dim: int, projection_dim: int, seed: int) -> Tensor:
    """``W ~ N(0, 1)``, ``(feature_dim, projection_dim)``, equal bits for equal arguments, today and in years.

    NumPy freezes the stream of its legacy generator; those of the newer generator and of torch may change
    with a release, and a model file that outlives the release would then meet other weights.
    """
    draws = np.random.RandomState(seed).standard_normal((feature_dim, projection_dim))
    return torch.from_numpy(draws.astype(np.float32))


@lru_cache(maxsize=2)
def exact_projection_weights(feature_dim: int, projection_dim: int, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The same weights as a float64 array, for predictions."""
    weights: np.ndarray[Any, np.dtype[np.float64]] = (
        projection_weights(feature_dim, projection_dim, seed).double().numpy()
    )
    return weights


def project(features: Tensor, projection_dim: int, seed: int) -> Tensor:
    """``relu(x W)``: ``(n, feature_dim)`` to ``(n, projection_dim)``."""
    W = projection_weights(features.shape[1], projection_dim, seed).to(
        features
    )  # float64 features get float64 products
    return (features @ W).relu_()
