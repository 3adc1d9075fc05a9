"""GACL: analytic learning where classes may come back."""

from __future__ import annotations

from torch import Tensor

from gddsg.core.random_layer import random_layer
from gddsg.core.transform import View
from gddsg.learners.ridge import RidgeLearner


class GACL(RidgeLearner):
    """Generalised analytic continual learning (Zhuang et al., NeurIPS 2024) on frozen features.

    A random layer ``h = relu(x W)`` and a least-squares classifier on it, for streams in which classes come back. The
    original splits the labels of a batch into those of classes that it has met (exposed) and those it has not. With
    ``R ← R - R Hᵀ (I + H R Hᵀ)⁻¹ H R`` the weights of new classes become ``R HᵀY``, and those of exposed classes
    ``Θ - R HᵀH Θ + R HᵀY``, whose last term is the exposed class label gain.

    The result is ridge regression on all samples so far, ``Θ = (HᵀH + γ I)⁻¹ HᵀY``, whatever came in which batch. So
    the sums ``HᵀH`` and ``HᵀY`` are kept here and the weights computed when needed: the same ones, without the rounding
    that updates of R pile up.

    Where every class comes in one task only the label gain is zero, and GACL has the weights of ACIL; so they differ in
    their constants alone, the width of the layer and γ. :class:`~gddsg.learners.ACIL` as it is here keeps sums too and
    takes classes that come back in the same way, which the ACIL of its paper does not.

    Parameters
    ----------
    projection_dim : int
        M, width of the random layer; the original's 5000.
    regularisation : float or None
        γ. ``None`` picks it from 1e-8 … 1e8 by squared error on sums of a fifth of the samples, held out by a hash of
        their content. The original fixes 100, which suits the scale of its own features.
    seed : int
        Of the random layer.
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the arithmetic.

    Examples
    --------
    >>> GACL(projection_dim=32).fit([[1.0, 0.0], [0.0, 1.0]], [7, 8]).predict([[0.2, 0.9]])
    [8]

    References
    ----------
    https://arxiv.org/abs/2403.15706
    """

    score_scale = 20.0
    number_bytes = 8

    def __init__(
        self,
        projection_dim: int = 5000,
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
