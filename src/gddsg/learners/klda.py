"""KLDA: a linear discriminant on random Fourier features."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gddsg.core.label import Label
from gddsg.core.linear_discriminant import (
    LinearDiscriminant,
    WithinScatter,
    oracle_approximating_shrinkage,
    shrunk_towards_sphere,
)
from gddsg.core.once import Carried
from gddsg.core.random_fourier import fourier_features
from gddsg.core.transform import View, unit
from gddsg.learners.base import Learnt, ProjectionLearner

State = Carried[WithinScatter, LinearDiscriminant]

_ROWS_AT_ONCE = 2048


class KLDA(ProjectionLearner[State]):
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
    projection_dim : int
        D, the number of Fourier features; the paper's 5000.
    gamma : float
        γ of the kernel ``exp(-γ ‖x - y‖²)`` between features of unit length.
    shrinkage : float or None
        Of the covariance; ``None`` takes the oracle approximating shrinkage.
    seed : int
        Of the Fourier features.
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the arithmetic.

    Examples
    --------
    >>> KLDA(projection_dim=64).fit([[1.0, 0.0], [0.0, 1.0]], [7, 8]).predict([[0.2, 0.9]])
    [8]

    References
    ----------
    https://arxiv.org/abs/2412.15571
    """

    fixed_by_learning = ("projection_dim", "seed", "gamma", "shrinkage", "view")

    def __init__(
        self,
        projection_dim: int = 5_000,
        gamma: float = 0.25,
        shrinkage: float | None = None,
        seed: int = 0,
        view: View = "raw",
        device: str = "cpu",
    ) -> None:
        self.projection_dim = projection_dim
        self.gamma = gamma
        self.shrinkage = shrinkage
        self.seed = seed
        self.view = view
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("gamma", 1e-9, 1e9)
        if self.shrinkage is not None:
            self._check_number("shrinkage", 0.0, 1.0)

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        known = WithinScatter.empty(self.projection_dim) if state is None else state.kept
        return Carried(known.plus(inputs, labels, self._fourier))

    def _fourier(self, features: Tensor) -> Tensor:
        return fourier_features(unit(features.double()), self.projection_dim, self.gamma, self.seed)

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        discriminant = learnt.state.derived.get(lambda: self._discriminant(learnt))
        chunks = inputs.cpu().split(_ROWS_AT_ONCE)
        return torch.cat([discriminant.log_probabilities(self._fourier(chunk)) for chunk in chunks])

    def _discriminant(self, learnt: Learnt[State]) -> LinearDiscriminant:
        within = learnt.state.kept
        means, covariance = within.means(learnt.classes.tolist()), within.covariance
        shrinkage = self.shrinkage
        if shrinkage is None:
            shrinkage = oracle_approximating_shrinkage(covariance, within.count)
        return LinearDiscriminant.of(means, shrunk_towards_sphere(covariance, shrinkage, means))
