"""The random projection ``h(x) = relu(x W)`` (paper, eq. 5): drawn from a seed, never stored."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


def _drawn_weights(feature_dim: int, projection_dim: int, seed: int) -> NDArray[np.float32]:
    return np.random.RandomState(seed).standard_normal((feature_dim, projection_dim)).astype(np.float32)


@lru_cache(maxsize=4)
def projection_weights(feature_dim: int, projection_dim: int, seed: int) -> Tensor:
    """``W ~ N(0, 1)``, ``(feature_dim, projection_dim)``, equal bits for equal arguments, today and in years.

    NumPy freezes the stream of its legacy generator; those of the newer generator and of torch may change
    with a release, and a model file that outlives the release would then meet other weights.
    """
    import torch  # predictions take the array below, and start without it

    return torch.from_numpy(_drawn_weights(feature_dim, projection_dim, seed))


@lru_cache(maxsize=2)
def exact_projection_weights(feature_dim: int, projection_dim: int, seed: int) -> NDArray[np.float64]:
    """The same weights as a float64 array, for predictions."""
    return _drawn_weights(feature_dim, projection_dim, seed).astype(np.float64)


def project(features: Tensor, projection_dim: int, seed: int) -> Tensor:
    """``relu(x W)``: ``(n, feature_dim)`` to ``(n, projection_dim)``."""
    W = projection_weights(features.shape[1], projection_dim, seed).to(
        features
    )  # float64 features get float64 products
    return (features @ W).relu_()
