"""Random Fourier features: vectors whose inner products approximate a Gaussian kernel."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor


@lru_cache(maxsize=5)  # as many as the models of an ensemble usually are
def fourier_weights(feature_dim: int, n_frequencies: int, seed: int) -> tuple[Tensor, Tensor]:
    """``ω ~ N(0, 1)`` ``(feature_dim, n_frequencies)`` and ``b ~ U(0, 2π)``, equal bits for equal arguments for years.

    NumPy freezes the stream of its legacy generator, as :func:`gddsg.core.projection.projection_weights` explains.
    """
    generator = np.random.RandomState(seed)
    frequencies = generator.standard_normal((feature_dim, n_frequencies))
    return torch.from_numpy(frequencies), torch.from_numpy(generator.uniform(0, 2 * np.pi, n_frequencies))


def fourier_features(vectors: Tensor, n_frequencies: int, gamma: float, seed: int) -> Tensor:
    """``z(x) = √(2/D) cos(√(2γ) x ω + b)``, ``(n, D)``, with ``z(x)·z(y) ≈ exp(-γ ‖x - y‖²)``.

    The error of the approximation falls like ``1 / √D``. In float64, whatever the vectors are in.

    References
    ----------
    Rahimi and Recht, "Random features for large-scale kernel machines", 2007.
    https://papers.nips.cc/paper_files/paper/2007/hash/013a006f03dbc5392effeb8f18fda755-Abstract.html
    """
    frequencies, phases = (part.to(vectors.device) for part in fourier_weights(vectors.shape[1], n_frequencies, seed))
    angles: Tensor = ((2 * gamma) ** 0.5 * vectors.double()) @ frequencies
    return angles.add_(phases).cos_().mul_((2 / n_frequencies) ** 0.5)
