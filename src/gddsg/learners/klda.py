"""KLDA: a linear discriminant on random Fourier features."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gddsg.core.linear_discriminant import (
    LinearDiscriminant,
    WithinScatter,
    oracle_approximating_shrinkage,
    shrunk_towards_sphere,
)
from gddsg.core.random_fourier import fourier_features
from gddsg.core.similarity_graph import Label
from gddsg.core.transform import unit
from gddsg.learners.base import Learner

_ROWS_AT_ONCE = 2048


class KLDA(Learner):
    """Kernel linear discriminant analysis (Momeni et al., "Continual Learning Using a Kernel-Based Method", 2024).

    Random Fourier features of a Gaussian kernel, class means and one shared covariance of them, and the linear
    discriminant ``z·Λμ_c - ½ μ_cᵀΛμ_c``.

    Two things that the original tunes on each data set follow fixed rules here, which see no test sample and no order.
    The kernel's width: features are brought to unit length, where unrelated ones are √2 apart, and
    ``k(x, y) = exp(-‖x - y‖² / 4)`` has that distance as its width (the median heuristic, with the median known in
    advance). The covariance: the original takes the pseudo-inverse of the plain scatter, which fails where samples are
    about as many as ``projection_dim``; here it is shrunk towards the sphere, by a formula from traces alone.

    Parameters
    ----------
    projection_dim : D, the number of Fourier features; the paper's 5000.
    gamma : γ of the kernel ``exp(-γ ‖x - y‖²)`` between features of unit length.
    shrinkage : of the covariance; ``None`` takes the oracle approximating shrinkage.
    seed : of the Fourier features.
    device : torch device for the arithmetic.

    Examples
    --------
    >>> KLDA(projection_dim=64).fit([[1.0, 0.0], [0.0, 1.0]], [7, 8]).predict([[0.2, 0.9]])
    [8]

    References
    ----------
    https://arxiv.org/abs/2412.15571
    """

    fixed_by_learning = ("projection_dim", "seed", "gamma", "shrinkage")
    within_: WithinScatter

    def __init__(
        self,
        projection_dim: int = 5_000,
        gamma: float = 0.25,
        shrinkage: float | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.projection_dim = projection_dim
        self.gamma = gamma
        self.shrinkage = shrinkage
        self.seed = seed
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("gamma", 1e-9, 1e9)
        if self.shrinkage is not None:
            self._check_number("shrinkage", 0.0, 1.0)

    def _learn(self, features: Tensor, labels: Sequence[Label]) -> None:
        known = getattr(self, "within_", None) or WithinScatter.empty(self.projection_dim)
        self.within_ = known.plus(features, labels, self._fourier)
        self._memo: dict[str, LinearDiscriminant] = {}

    def _fourier(self, features: Tensor) -> Tensor:
        return fourier_features(unit(features.double()), self.projection_dim, self.gamma, self.seed)

    def _log_probabilities(self, features: Tensor) -> Tensor:
        if "discriminant" not in self._memo:
            self._memo["discriminant"] = self._discriminant()
        discriminant = self._memo["discriminant"]
        chunks = features.cpu().split(_ROWS_AT_ONCE)
        return torch.cat([discriminant.log_probabilities(self._fourier(chunk)) for chunk in chunks])

    def _discriminant(self) -> LinearDiscriminant:
        means, covariance = self.within_.means(self.classes_.tolist()), self.within_.covariance
        shrinkage = self.shrinkage
        if shrinkage is None:
            shrinkage = oracle_approximating_shrinkage(covariance, self.within_.count)
        return LinearDiscriminant.of(means, shrunk_towards_sphere(covariance, shrinkage, means))
