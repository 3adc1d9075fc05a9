"""Views of the features in which a class looks closer to a Gaussian."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

View = Literal["root", "raw"]


def signed_root(features: Tensor) -> Tensor:
    """``sign(x) · sqrt(|x|)``: Tukey's square root for non-negative features, sign-preserving for all others."""
    return features.abs().sqrt_().copysign_(features)


def apply_view(features: NDArray[Any], view: View) -> NDArray[Any]:
    """Features ``(n, feature_dim)`` as a part of the model sees them."""
    return np.copysign(np.sqrt(np.abs(features)), features) if view == "root" else features


def unit(vectors: Tensor) -> Tensor:
    """``x / ‖x‖`` row by row; a zero row stays zero."""
    import torch  # predictions need none of this, and start without it

    norms = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(norms > 0, norms, 1.0)
