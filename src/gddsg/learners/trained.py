"""What learners share that train prompts, adapters or a whole network on images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from gddsg.core.label import Label
from gddsg.data.images import Images
from gddsg.learners.base import ImageLearner, Learnt
from gddsg.nn.checkpoint import Checkpoint
from gddsg.nn.networks import TOY, Network, load_network
from gddsg.nn.training import Recipe, train
from gddsg.nn.training_data import TrainingData

__all__ = ["Arrived", "TrainedLearner", "copied_weights"]


@dataclass(frozen=True, eq=False)
class Arrived:
    """Base of a trained learner's state: the classes in the order in which they came.

    Attributes
    ----------
    names : tuple of int or str
        All classes. Heads have their rows in this order.
    batches : int
        How many batches have been learnt.
    """

    names: tuple[Label, ...] = ()
    batches: int = 0

    def joined_by(self, labels: Sequence[Label]) -> tuple[Label, ...]:
        """The classes after a batch; new ones in the order in which its samples name them."""
        return tuple(dict.fromkeys([*self.names, *labels]))


A = TypeVar("A", bound=Arrived)


class TrainedLearner(ImageLearner[A]):
    """A learner that trains something on images, batch by batch, by the one training loop.

    Subclasses store at least the parameters below, and have the recipe that was published with the method.

    Attributes
    ----------
    recipe : Recipe
        How the method is trained, unless ``training`` says otherwise.
    backbone : str
        Name of the pre-trained network, see :func:`gddsg.nn.networks.load_network`.
    training : mapping of str to object, or None
        What differs from ``recipe``, such as ``{"epochs": 5, "augment": False}``.
    seed : int
        Of all draws.
    device : str or None
        Torch device; a GPU if there is one, unless named.
    checkpoints : str or None
        Folder in which a training that is under way is kept after every epoch, to go on from after a kill.
    """

    recipe: ClassVar[Recipe]
    fixed_by_learning: ClassVar[tuple[str, ...]] = ("backbone", "seed")
    exempt: ClassVar[Mapping[str, str]] = {
        "arrival_order_does_not_matter": "what is trained on one batch is where the next one begins",
        "sample_order_does_not_matter": "steps are taken by a few samples at a time, in an order drawn at random",
    }
    backbone: str
    training: Mapping[str, Any] | None
    seed: int
    device: str | None
    checkpoints: str | None

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """A tiny network and short training."""
        return {"backbone": TOY, "training": {"epochs": 10, "batch_size": 32, "augment": False}}

    # ---------------------------------------------------------------- for subclasses

    def _network(self) -> Network:
        return load_network(self.backbone, self.device)

    def _random(self, *place: int) -> torch.Generator:
        """A generator of its own for every place that draws something."""
        (number,) = np.random.SeedSequence([self.seed, *place]).generate_state(1, np.uint64)
        return torch.Generator().manual_seed(int(number) >> 1)

    def _recipe(self) -> Recipe:
        return replace(self.recipe, **(self.training or {}))

    def _train(
        self, loss: Any, parameters: Sequence[nn.Parameter], images: Images, targets: Sequence[int], batch: int
    ) -> None:
        """Train ``parameters`` on the images of the batch of that number; see :func:`gddsg.nn.training.train`."""
        self._train_on(self._data(images, targets), loss, parameters, batch)

    def _data(self, images: Images, targets: Sequence[int]) -> TrainingData:
        return TrainingData(self._network(), images, targets, self._recipe().augment)

    def _train_on(self, data: TrainingData, loss: Any, parameters: Sequence[nn.Parameter], batch: int) -> None:
        """Train ``parameters`` on data that a method has looked at before: they are prepared only once."""
        kept = None if self.checkpoints is None else Checkpoint(self.checkpoints)
        train(loss, parameters, data, self._recipe(), (self.seed, batch), kept)

    def _in_order(self, learnt: Learnt[A], scores: Tensor) -> Tensor:
        """Log-probabilities ``(n, n_classes)`` of scores whose columns are in the order in which classes came."""
        place = {name: i for i, name in enumerate(learnt.state.names)}
        columns = [place[name] for name in learnt.classes.tolist()]
        return scores.double().cpu()[:, columns].log_softmax(1)

    # ---------------------------------------------------------------- parameters

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_whole("seed", 0, 2**32 - 1)
        self.recipe.changed_by(self.training)  # before images are decoded in vain


def copied_weights(module: nn.Module) -> dict[str, Tensor]:
    """All that a module has been trained to, as tensors on the CPU that nobody changes any more."""
    return {name: tensor.detach().cpu().clone() for name, tensor in module.state_dict().items()}
