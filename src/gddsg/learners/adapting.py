"""What learners share that adapt the network to the classes of the first batch, and leave it at that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from gddsg.core.label import Label
from gddsg.data.images import Images
from gddsg.learners.trained import Arrived, TrainedLearner
from gddsg.nn.adaptation import Adaptation, AdaptationKind, adapt, check_kind, embed_each
from gddsg.nn.training import Recipe

__all__ = ["Adapted", "AdaptingLearner"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Adapted(Arrived):
    """Base of the state of such a learner.

    Attributes
    ----------
    adaptation : Adaptation
        To the classes of the first batch; the same object in every state after it.
    """

    adaptation: Adaptation


D = TypeVar("D", bound=Adapted)


class AdaptingLearner(TrainedLearner[D]):
    """A learner whose network is adapted to the first batch, and frozen from then on.

    Attributes
    ----------
    adaptation : str
        How the network is adapted: see :class:`gddsg.nn.adaptation.Adaptation`.
    """

    recipe: ClassVar[Recipe] = Recipe(epochs=20, batch_size=48, rate=0.01, schedule="cosine", weight_decay=5e-4)
    fixed_by_learning: ClassVar[tuple[str, ...]] = ("backbone", "seed", "adaptation")
    exempt: ClassVar[Mapping[str, str]] = {
        **TrainedLearner.exempt,
        "arrival_order_does_not_matter": "the network is adapted to the classes that come first, and to no others",
    }
    adaptation: AdaptationKind

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """Few epochs: what is not trained is what it was pre-trained to be."""
        return {**super().test_params(), "training": {"epochs": 3, "batch_size": 64, "augment": False}}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_kind(self.adaptation)

    def _adaptation(self, state: D | None, images: Images, labels: Sequence[Label]) -> Adaptation:
        """That of the state; if there is none, one to this batch."""
        if state is not None:
            return state.adaptation
        names = Arrived().joined_by(labels)
        targets = [names.index(label) for label in labels]
        return adapt(self._network(), self.adaptation, images, targets, self._random(0), partial(self._train, batch=0))

    def _arrived(self, state: D | None, labels: Sequence[Label]) -> Arrived:
        """The classes after a batch."""
        before = Arrived() if state is None else state
        return Arrived(before.joined_by(labels), before.batches + 1)

    def _both(self, adaptation: Adaptation, images: Images) -> Tensor:
        """Features of the network as it was and as it is adapted, side by side: ``(n, 2 · feature_dim)``."""
        return torch.cat(embed_each(self._network(), images, [None, adaptation]), dim=1)
