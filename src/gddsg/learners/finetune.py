"""Finetune: the whole network is trained on every batch, and nothing is done against forgetting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gddsg.core.label import Label
from gddsg.data.images import Images
from gddsg.learners.base import Learnt
from gddsg.learners.trained import Arrived, TrainedLearner, copied_weights
from gddsg.nn.heads import LinearHead
from gddsg.nn.losses import cross_entropy_among
from gddsg.nn.training import Recipe
from gddsg.nn.training_data import Batch


@dataclass(frozen=True, eq=False)
class FinetuneState(Arrived):
    """A whole network and its head.

    Attributes
    ----------
    network, head : mapping of str to Tensor
        Weights by name.
    """

    network: Mapping[str, Tensor] = field(default_factory=dict)
    head: Mapping[str, Tensor] = field(default_factory=dict)


class Finetune(TrainedLearner[FinetuneState]):
    """Train all of the network with a growing linear head: the lower bound that other methods are held against.

    Cross-entropy is taken among the classes of the batch alone, as is usual in comparisons of this kind; old classes
    are forgotten because the network below their rows of the head changes.

    Parameters
    ----------
    backbone, training, seed, device, checkpoints
        See :class:`gddsg.learners.trained.TrainedLearner`.

    Examples
    --------
    >>> import numpy as np
    >>> dark, light = np.zeros((4, 8, 8, 3), np.uint8), np.full((4, 8, 8, 3), 255, np.uint8)
    >>> images, labels = np.concatenate([dark, light]), ["dark"] * 4 + ["light"] * 4
    >>> model = Finetune("toy-vit", {"epochs": 5, "augment": False}).partial_fit(images, labels)
    >>> str(model.predict(light)[0])
    'light'
    """

    recipe: ClassVar[Recipe] = Recipe(epochs=20, batch_size=128, rate=1e-3, weight_decay=5e-4)
    exempt: ClassVar[Mapping[str, str]] = {
        **TrainedLearner.exempt,
        "odd_classes_are_learnt": "few samples make few steps, and a batch of one class has nothing to tell apart",
    }

    def __init__(
        self,
        backbone: str = "vit-b16",
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        device: str | None = None,
        checkpoints: str | None = None,
    ) -> None:
        self.backbone = backbone
        self.training = training
        self.seed = seed
        self.device = device
        self.checkpoints = checkpoints

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """Large steps, for there are few of them."""
        given = super().test_params()
        return {**given, "training": {**given["training"], "rate": 0.05}}

    def _next_state(self, state: FinetuneState | None, inputs: Images, labels: Sequence[Label]) -> FinetuneState:
        before, network = state or FinetuneState(), self._network()
        names = before.joined_by(labels)
        targets = [names.index(label) for label in labels]
        present = sorted(set(targets))
        begun = before.network or dict(network.module.named_parameters())
        weights = {name: nn.Parameter(tensor.detach().clone().to(network.device)) for name, tensor in begun.items()}
        head = self._head(before).grown(len(names), self._random(before.batches)).to(network.device)

        def loss(batch: Batch) -> Tensor:
            return cross_entropy_among(present, head(network.features(batch.inputs, weights=weights)), batch.targets)

        self._train(loss, [*weights.values(), *head.parameters()], inputs, targets, before.batches)
        trained = {name: tensor.detach().cpu() for name, tensor in weights.items()}
        return FinetuneState(names, before.batches + 1, trained, copied_weights(head))

    def _head(self, state: FinetuneState) -> LinearHead:
        head = LinearHead(self._network().feature_dim, len(state.names), self._random(0))
        if state.names:
            head.load_state_dict(dict(state.head))
        return head

    def _log_probabilities(self, learnt: Learnt[FinetuneState], inputs: Images) -> Tensor:
        network = self._network()
        weights = {name: tensor.to(network.device) for name, tensor in learnt.state.network.items()}
        features = network.embed(inputs, weights=weights)
        with torch.inference_mode():
            scores = F.linear(features, learnt.state.head["weight"], learnt.state.head["bias"])
        return self._in_order(learnt, scores)
