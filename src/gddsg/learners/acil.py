"""ACIL: least squares on a random layer."""

from __future__ import annotations

from torch import Tensor

from gddsg.core.random_layer import random_layer
from gddsg.core.transform import View
from gddsg.learners.ridge import RidgeLearner


class ACIL(RidgeLearner):
    """Analytic class-incremental learning (Zhuang et al., NeurIPS 2022) on frozen features.

    A random layer ``h = relu(x W)`` and a least-squares classifier ``Θ = (HᵀH + γ I)⁻¹ HᵀY``: ridge regression on all
    samples at once. As in the original the random layer has entries of variance
    ``1 / (3 n_features)``, which gives γ its scale.

    The original keeps the inverse ``R = (HᵀH + γ I)⁻¹``, updates it batch by batch,
    ``R ← R - R Hᵀ (I + H R Hᵀ)⁻¹ H R``, and the weights along with it. Here the sums ``HᵀH`` and ``HᵀY`` are kept and
    the weights computed when needed: the same ones, without the rounding that such updates pile up, which for features
    of large values would leave nothing of R.

    Parameters
    ----------
    projection_dim : int
        M, width of the random layer; the original's 8192.
    regularisation : float or None
        γ. ``None`` picks it from 1e-8 … 1e8 by squared error on sums of a fifth of the samples, held out by a hash of
        their content. The original fixes 0.1, which suits the scale of its own features.
    seed : int
        Of the random layer.
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the arithmetic.

    Examples
    --------
    >>> ACIL(projection_dim=32).fit([[1.0, 0.0], [0.0, 1.0]], [7, 8]).predict([[0.2, 0.9]])
    [8]

    References
    ----------
    https://arxiv.org/abs/2205.14922
    """

    score_scale = 20.0
    number_bytes = 8

    def __init__(
        self,
        projection_dim: int = 8192,
        regularisation: float | None = None,
        seed: int = 0,
        view: View = "raw",
        device: str = "cpu",
    ) -> None:
        self.projection_dim = projection_dim
        self.regularisation = regularisation
        self.seed = seed
        self.view = view
        self.device = device

    def _units(self, features: Tensor) -> Tensor:
        return random_layer(features, self.projection_dim, self.seed)
