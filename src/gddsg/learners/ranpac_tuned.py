"""RanPAC with both phases: a network adapted to the first batch, and one ridge head on random projections of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from gddsg.core.label import Label
from gddsg.core.projection import project
from gddsg.data.images import Images
from gddsg.learners.adapting import Adapted, AdaptingLearner
from gddsg.learners.base import Learnt
from gddsg.learners.ridge import RANPAC_SCALE, RidgeState, grown_ridge, scores_of_ridge
from gddsg.nn.adaptation import AdaptationKind

_BYTES_A_NUMBER = 4  # float32, as its authors keep the sums


@dataclass(frozen=True, eq=False, kw_only=True)
class TunedRanPACState(Adapted):
    """An adaptation, and sums of projections.

    Attributes
    ----------
    ridge : RidgeState
        Of projected features of the adapted network.
    """

    ridge: RidgeState


class TunedRanPAC(AdaptingLearner[TunedRanPACState]):
    """RanPAC as published (McDonnell et al., NeurIPS 2023): first-batch adaptation, then ridge on ``relu(f(x) W)``.

    In phase 1 the network is adapted to the first batch and frozen. Phase 2 is :class:`gddsg.learners.RanPAC` on the
    features of the adapted network, from running sums; λ is picked on a fifth of all samples as there, and not on a
    fifth of the current task.

    Parameters
    ----------
    adaptation : {"adapter", "ssf", "vpt-shallow", "vpt-deep", "finetune"}
        How the network is adapted, see :class:`gddsg.nn.adaptation.Adaptation`; ``"ssf"`` and ``"finetune"`` are for
        convolutional networks too.
    projection_dim : int
        M, width of the random projection.
    regularisation : float or None
        λ; ``None`` picks it from 1e-8 … 1e8 by squared error on the held-out sums.
    backbone, training, seed, device, checkpoints
        See :class:`gddsg.learners.trained.TrainedLearner`; the projection is drawn from the seed too.

    Examples
    --------
    >>> import numpy as np
    >>> dark, light = np.zeros((4, 8, 8, 3), np.uint8), np.full((4, 8, 8, 3), 255, np.uint8)
    >>> images, labels = np.concatenate([dark, light]), ["dark"] * 4 + ["light"] * 4
    >>> model = TunedRanPAC(projection_dim=64, backbone="toy-vit", training={"epochs": 2, "augment": False})
    >>> str(model.partial_fit(images, labels).predict(light)[0])
    'light'

    References
    ----------
    https://arxiv.org/abs/2307.02251
    """

    fixed_by_learning: ClassVar[tuple[str, ...]] = (
        *AdaptingLearner.fixed_by_learning,
        "projection_dim",
        "regularisation",
    )
    calibrated: ClassVar[bool] = False
    exempt: ClassVar[Mapping[str, str]] = {
        **AdaptingLearner.exempt,
        "odd_classes_are_learnt": "one sample that looks like thirty of another class weighs little in a regression",
    }

    def __init__(
        self,
        adaptation: AdaptationKind = "adapter",
        projection_dim: int = 10_000,
        regularisation: float | None = None,
        backbone: str = "vit-b16",
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        device: str | None = None,
        checkpoints: str | None = None,
    ) -> None:
        self.adaptation = adaptation
        self.projection_dim = projection_dim
        self.regularisation = regularisation
        self.backbone = backbone
        self.training = training
        self.seed = seed
        self.device = device
        self.checkpoints = checkpoints

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """A narrow projection as well."""
        return {**super().test_params(), "projection_dim": 64}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_whole("projection_dim", 1, 2**31 - 1)
        if self.regularisation is not None:
            self._check_number("regularisation", 1e-9, 1e12)

    def state_bytes(self) -> int:
        """What was trained, ``HᵀH`` and ``HᵀY``: the original keeps no held-out sums."""
        learnt, M = self._current(), self.projection_dim
        if learnt is None:
            return 0
        return learnt.state.adaptation.nbytes + _BYTES_A_NUMBER * M * (M + len(learnt.classes))

    def _units(self, features: Tensor) -> Tensor:
        return project(features.double(), self.projection_dim, self.seed)

    def _next_state(self, state: TunedRanPACState | None, inputs: Images, labels: Sequence[Label]) -> TunedRanPACState:
        adaptation, arrived = self._adaptation(state, inputs, labels), self._arrived(state, labels)
        known, network = None if state is None else state.ridge, self._network()
        features = adaptation.embed(network, inputs).to(network.device)
        ridge = grown_ridge(known, features, labels, self._units, self.projection_dim, self.regularisation)
        return TunedRanPACState(arrived.names, arrived.batches, adaptation=adaptation, ridge=ridge)

    def _log_probabilities(self, learnt: Learnt[TunedRanPACState], inputs: Images) -> Tensor:
        state, labels = learnt.state, learnt.classes.tolist()
        features = state.adaptation.embed(self._network(), inputs)
        scores = scores_of_ridge(state.ridge, features, labels, self._units, self.regularisation)
        return (RANPAC_SCALE * scores).log_softmax(1)
