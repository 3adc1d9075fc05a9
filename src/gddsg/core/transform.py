"""Views of the features in which a class looks closer to a Gaussian."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

View = Literal["root", "raw"]


def signed_root(features: Tensor) -> Tensor:
    """``sign(x) · sqrt(|x|)``: Tukey's square root for non-negative features, sign-preserving for all others."""
    return features.abs().sqrt_().copysign_(features)


def apply_view(features: Tensor, view: View) -> Tensor:
    """Features ``(n, feature_dim)`` as the discriminant sees them."""
    return signed_root(features) if view == "root" else features


def unit(vectors: Tensor) -> Tensor:
    """``x / ‖x‖`` row by row; a zero row stays zero."""
    norms = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(norms > 0, norms, 1.0)
