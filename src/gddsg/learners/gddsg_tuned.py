"""GDDSG on a network that is adapted to the first batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from gddsg.core.decision import DecisionMode
from gddsg.core.grouping import Grouping
from gddsg.core.identification import Identification
from gddsg.core.label import Label
from gddsg.core.model import Model, Settings
from gddsg.data.images import Images
from gddsg.errors import InputError
from gddsg.learners.adapting import Adapted, AdaptingLearner
from gddsg.learners.base import Learnt
from gddsg.nn.adaptation import Adaptation, AdaptationKind

Used = Literal["both", "adapted"]


@dataclass(frozen=True, eq=False, kw_only=True)
class TunedGDDSGState(Adapted):
    """An adaptation, and class cards.

    Attributes
    ----------
    model : Model
        Of features of the adapted network, or of both.
    """

    model: Model


class TunedGDDSG(AdaptingLearner[TunedGDDSGState]):
    """First-batch adaptation under the class cards of :class:`gddsg.learners.GDDSG`.

    The network is adapted to the first batch and frozen. From then on it is GDDSG on its features: no sample is kept,
    and batches after the first may come in any order. Which one comes first does matter, as it does not with GDDSG.

    Parameters
    ----------
    adaptation : {"adapter", "ssf", "vpt-shallow", "vpt-deep", "finetune"}
        How the network is adapted, see :class:`gddsg.nn.adaptation.Adaptation`; ``"ssf"`` and ``"finetune"`` are for
        convolutional networks too.
    features : {"both", "adapted"}
        Features of the pre-trained and of the adapted network side by side, or of the adapted one alone.
    projection_dim, rank, grouping, identification, decision : object
        Settings of the model: see :class:`gddsg.core.model.Settings`.
    backbone, training, seed, device, checkpoints
        See :class:`gddsg.learners.trained.TrainedLearner`; the projection is drawn from the seed too.

    Examples
    --------
    >>> import numpy as np
    >>> dark, light = np.zeros((4, 8, 8, 3), np.uint8), np.full((4, 8, 8, 3), 255, np.uint8)
    >>> images, labels = np.concatenate([dark, light]), ["dark"] * 4 + ["light"] * 4
    >>> model = TunedGDDSG(projection_dim=64, backbone="toy-vit", training={"epochs": 2, "augment": False})
    >>> str(model.partial_fit(images, labels).predict(light)[0])
    'light'

    References
    ----------
    "Order-Robust Class Incremental Learning: Graph-Driven Dynamic Similarity Grouping", CVPR 2025, for the cards;
    https://arxiv.org/abs/2303.07338 for the adaptation to the first batch.
    """

    fixed_by_learning: ClassVar[tuple[str, ...]] = (
        *AdaptingLearner.fixed_by_learning,
        "features",
        "projection_dim",
        "rank",
        "grouping",
    )

    def __init__(
        self,
        adaptation: AdaptationKind = "adapter",
        features: Used = "both",
        projection_dim: int = 2_000,
        rank: int = 64,
        grouping: Grouping = "canonical",
        identification: Identification = "evidence",
        decision: DecisionMode = "soft",
        backbone: str = "vit-b16",
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        device: str | None = None,
        checkpoints: str | None = None,
    ) -> None:
        self.adaptation = adaptation
        self.features = features
        self.projection_dim = projection_dim
        self.rank = rank
        self.grouping = grouping
        self.identification = identification
        self.decision = decision
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
        self._model_settings().check()
        if self.features not in get_args(Used):
            raise InputError(f"features={self.features!r} was given; expected 'both' or 'adapted'.")

    def _model_settings(self) -> Settings:
        return Settings(
            projection_dim=self.projection_dim,
            rank=self.rank,
            grouping=self.grouping,
            identification=self.identification,
            decision=self.decision,
            seed=self.seed,
        )

    def _features(self, adaptation: Adaptation, images: Images) -> Tensor:
        if self.features == "both":
            return self._both(adaptation, images)
        return adaptation.embed(self._network(), images)

    def _next_state(self, state: TunedGDDSGState | None, inputs: Images, labels: Sequence[Label]) -> TunedGDDSGState:
        adaptation, arrived = self._adaptation(state, inputs, labels), self._arrived(state, labels)
        model = Model(self._model_settings()) if state is None else state.model
        features = self._features(adaptation, inputs).to(self._network().device)
        grown = model.plus(model.make_cards(features, labels))
        return TunedGDDSGState(arrived.names, arrived.batches, adaptation=adaptation, model=grown)

    def _log_probabilities(self, learnt: Learnt[TunedGDDSGState], inputs: Images) -> Tensor:
        model = learnt.state.model.configured(self.identification, self.decision)
        features = self._features(learnt.state.adaptation, inputs)
        return torch.from_numpy(model.predictor.predict_log_proba(features.numpy()))
