"""RanDumb: nearest class mean by one shrunk covariance, on features as they are or on random Fourier features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

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
from gddsg.learners.base import FeatureLearner, Learnt

State = Carried[WithinScatter, LinearDiscriminant]

_ROWS_AT_ONCE = 2048


class RanDumb(FeatureLearner[State]):
    """Random representations and a linear classifier (Prabhu et al., "RanDumb", NeurIPS 2024).

    The original embeds pixels in 25,000 random Fourier features of a Gaussian kernel and takes the class whose mean is
    nearest by the Mahalanobis distance of one covariance for all classes, ``z·Λμ_c - ½ μ_cᵀΛμ_c``. Given a pre-trained
    network its features stand in for the embedding, and nothing random is left: that is the default here, and setting
    ``projection_dim`` embeds the features as well. The covariance is that of samples about their class means, shrunk
    towards the sphere by the oracle approximating formula, and then by 1e-4 towards the identity, as the code of the
    paper has it. Images mirrored left to right, which the original adds for training, are a matter of the features.

    SLDA is the same without the oracle shrinkage. KLDA is the same with the embedding and without the last 1e-4: it has
    another kernel width, and its paper, which this library departs from there, inverts the plain covariance.

    The original takes γ from the variance of all pixels, ``1 / (n_features · variance)``, which is not known before the
    last task. Here features that are embedded are brought to unit length, for which that rule gives 1 where they are
    about zero on average.

    Parameters
    ----------
    projection_dim : int or None
        D, the number of Fourier features; ``None`` takes features as they are, as the original does with pre-trained
        ones. With D = 25,000, the original's for pixels, the scatter takes 5 GB in float64.
    gamma : float
        γ of the kernel ``exp(-γ ‖x - y‖²)`` between features of unit length; of no effect without an embedding.
    ridge : float
        Shrinkage towards the identity; the original's 1e-4.
    seed : int
        Of the Fourier features.
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the arithmetic.

    Examples
    --------
    >>> RanDumb().fit([[1.0, 0.0], [0.0, 1.0]], [7, 8]).predict([[0.2, 0.9]])
    [8]

    References
    ----------
    https://arxiv.org/abs/2402.08823
    """

    calibrated: ClassVar[bool] = False
    fixed_by_learning = ("projection_dim", "gamma", "ridge", "seed", "view")

    def __init__(
        self,
        projection_dim: int | None = None,
        gamma: float = 1.0,
        ridge: float = 1e-4,
        seed: int = 0,
        view: View = "raw",
        device: str = "cpu",
    ) -> None:
        self.projection_dim = projection_dim
        self.gamma = gamma
        self.ridge = ridge
        self.seed = seed
        self.view = view
        self.device = device

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """A narrow embedding: without one there is less to go wrong."""
        return {"projection_dim": 64, "seed": 0}

    def state_bytes(self) -> int:
        """The covariance ``(D, D)`` and the class means ``(n_classes, D)`` in float32."""
        learnt = self._current()
        dim = 0 if learnt is None else len(learnt.state.kept.scatter)
        return 0 if learnt is None else 4 * dim * (dim + len(learnt.classes))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.projection_dim is not None:
            self._check_whole("projection_dim", 1, 2**31 - 1)
        self._check_whole("seed", 0, 2**32 - 1)
        self._check_number("gamma", 1e-9, 1e9)
        self._check_number("ridge", 0.0, 1.0)

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        dim = inputs.shape[1] if self.projection_dim is None else self.projection_dim
        known = WithinScatter.empty(dim) if state is None else state.kept
        return Carried(known.plus(inputs, labels, self._embedded))

    def _embedded(self, features: Tensor) -> Tensor:
        if self.projection_dim is None:
            return features.double()
        return fourier_features(unit(features.double()), self.projection_dim, self.gamma, self.seed)

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        discriminant = learnt.state.derived.get(lambda: self._discriminant(learnt))
        chunks = inputs.cpu().split(_ROWS_AT_ONCE)
        return torch.cat([discriminant.log_probabilities(self._embedded(chunk)) for chunk in chunks])

    def _discriminant(self, learnt: Learnt[State]) -> LinearDiscriminant:
        within = learnt.state.kept
        means, covariance = within.means(learnt.classes.tolist()), within.covariance
        shrunk = shrunk_towards_sphere(covariance, oracle_approximating_shrinkage(covariance, within.count), means)
        shrunk *= 1 - self.ridge
        shrunk.diagonal().add_(self.ridge)
        return LinearDiscriminant.of(means, shrunk)
