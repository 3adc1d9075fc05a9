"""KLDA: a linear discriminant on random Fourier features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

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

State = Carried[tuple[WithinScatter, ...], tuple[LinearDiscriminant, ...]]  # one of each a model of the ensemble

_ROWS_AT_ONCE = 2048
_SEEDS_APART = 1_000_003  # of the models of an ensemble: ensembles of neighbouring seeds share none


class KLDA(ProjectionLearner[State]):
    """Kernel linear discriminant analysis (Momeni et al., "Continual Learning Using a Kernel-Based Method", 2024).

    Random Fourier features of a Gaussian kernel, class means and one shared covariance of them, and the linear
    discriminant ``z·Λμ_c - ½ μ_cᵀΛμ_c``.

    The original takes features as they are, and its authors name a γ for each network, from 5e-6 to 5e-2. Here
    features are brought to unit length, so that one γ does for networks of any scale. On training samples held out of
    three data sets 0.1 was as good as the best of a grid, to within what so few samples can tell; any γ from 0.03 to
    0.3 was within a point of it, so nothing is to be had from choosing it anew on a first batch, which would also make
    the result depend on what came first. The original takes the pseudo-inverse of the plain scatter, which fails where
    samples are about as many as ``projection_dim``; here it is shrunk towards the sphere, by a formula from traces
    alone. ``unit_length=False, shrinkage=0.0`` has the original's both.

    Parameters
    ----------
    projection_dim : int
        D, the number of Fourier features; the paper's 5000.
    gamma : float
        γ of the kernel ``exp(-γ ‖x - y‖²)``; the authors' ``sigma``.
    shrinkage : float or None
        Of the covariance; ``None`` takes the oracle approximating shrinkage.
    ensemble : int
        Number of models, each with Fourier features of its own, whose probabilities are averaged; the paper's KLDA-E
        has 5.
    unit_length : bool
        Whether features are brought to unit length.
    seed : int
        Of the Fourier features; each model of an ensemble draws its own from it.
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

    fixed_by_learning = ("projection_dim", "seed", "gamma", "shrinkage", "ensemble", "unit_length", "view")
    calibrated: ClassVar[bool] = False

    def __init__(
        self,
        projection_dim: int = 5_000,
        gamma: float = 0.1,
        shrinkage: float | None = None,
        ensemble: int = 1,
        unit_length: bool = True,
        seed: int = 0,
        view: View = "raw",
        device: str = "cpu",
    ) -> None:
        self.projection_dim = projection_dim
        self.gamma = gamma
        self.shrinkage = shrinkage
        self.ensemble = ensemble
        self.unit_length = unit_length
        self.seed = seed
        self.view = view
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("gamma", 1e-9, 1e9)
        self._check_whole("ensemble", 1, 1000)
        if self.shrinkage is not None:
            self._check_number("shrinkage", 0.0, 1.0)

    def state_bytes(self) -> int:
        """Class means and one covariance of the Fourier features a model, in float32."""
        learnt = self._current()
        numbers = 0 if learnt is None else self.projection_dim * (self.projection_dim + len(learnt.classes))
        return 4 * self.ensemble * numbers

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        known = [WithinScatter.empty(self.projection_dim)] * self.ensemble if state is None else state.kept
        return Carried(tuple(one.plus(inputs, labels, partial(self._fourier, model=i)) for i, one in enumerate(known)))

    def _fourier(self, features: Tensor, model: int) -> Tensor:
        vectors = unit(features.double()) if self.unit_length else features.double()
        return fourier_features(vectors, self.projection_dim, self.gamma, (self.seed + _SEEDS_APART * model) % 2**32)

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        discriminants = learnt.state.derived.get(lambda: self._discriminants(learnt))
        return torch.cat([self._averaged(discriminants, chunk) for chunk in inputs.cpu().split(_ROWS_AT_ONCE)])

    def _averaged(self, discriminants: Sequence[LinearDiscriminant], features: Tensor) -> Tensor:
        """Logarithm of the mean of what the models say."""
        said = [one.log_probabilities(self._fourier(features, i)) for i, one in enumerate(discriminants)]
        return torch.stack(said).logsumexp(0) - math.log(len(said))

    def _discriminants(self, learnt: Learnt[State]) -> tuple[LinearDiscriminant, ...]:
        labels = learnt.classes.tolist()
        return tuple(self._discriminant(within, labels) for within in learnt.state.kept)

    def _discriminant(self, within: WithinScatter, labels: Sequence[Label]) -> LinearDiscriminant:
        means, covariance = within.means(labels), within.covariance
        shrinkage = self.shrinkage
        if shrinkage is None:
            shrinkage = oracle_approximating_shrinkage(covariance, within.count)
        return LinearDiscriminant.of(means, shrunk_towards_sphere(covariance, shrinkage, means))
