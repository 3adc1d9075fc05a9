"""L2P: a pool of prompts, of which every sample gets those that its query is nearest to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gddsg.learners.prompted import Prompted, PromptLearner
from gddsg.learners.trained import TrainedLearner
from gddsg.nn.networks import Transformer
from gddsg.nn.prompting import Choosing, cosines, most_similar
from gddsg.nn.prompts import InputPrompts
from gddsg.nn.training import Recipe


class PromptPool(Choosing):
    """Prompts with a key each; the chosen ones stand before all tokens, and their mean output is the feature.

    Parameters
    ----------
    prompts : Tensor
        ``(pool, length, width)``.
    keys : Tensor
        ``(pool, width)``.
    chosen : int
        How many prompts a sample gets.
    pull : float
        How strongly chosen keys are drawn to the query.
    """

    def __init__(self, prompts: Tensor, keys: Tensor, chosen: int, pull: float) -> None:
        super().__init__()
        self.prompts, self.keys = nn.Parameter(prompts), nn.Parameter(keys)
        self._chosen, self._pull = chosen, pull

    @property
    def count(self) -> int:
        """How many prompts a sample gets."""
        return self._chosen

    def similarities(self, queries: Tensor) -> Tensor:
        """Cosines of queries and keys, ``(n, pool)``."""
        return cosines(queries, self.keys)

    def features_by(self, network: Transformer, inputs: Tensor, places: Tensor) -> Tensor:
        """The mean of the outputs of the prompts in those places, ``(n, width)``."""
        before = self.prompts[places].flatten(1, 2)
        return network.tokens(inputs, InputPrompts(before))[:, : before.shape[1]].mean(1)

    def extra_loss(self, queries: Tensor) -> Tensor:
        """The cosines with the chosen keys, which shall grow."""
        near = self.similarities(queries)
        return -self._pull * near.gather(1, most_similar(near, self.count)).sum(1).mean()


class L2P(PromptLearner):
    """Learning to prompt: a pool of prompts shared by all batches, in front of a frozen ViT.

    The query of a sample is the class token that the plain network gives it. The prompts whose keys have the largest
    cosine with it go before all its tokens, and the head looks at the mean of what comes out in their places. The loss
    is cross-entropy among the classes of the batch, minus ``pull`` times the sum of these cosines.

    Two things differ from the code published with the method. Prompts are chosen for every sample by itself, in
    training and in use, where that code lets a batch of samples vote; see the protocol ``batch-wise-prompts`` of
    :mod:`gddsg.evaluation.protocol`. And prompts carry no position, where that code widens the ViT's table of positions
    by one for each place of a prompt: a prompt can learn whatever a position would add, the ViT's own positions stay as
    they are, and the order in which the chosen prompts stand does not matter.

    Parameters
    ----------
    backbone, training, seed, device, checkpoints
        See :class:`gddsg.learners.trained.TrainedLearner`.
    pool : int
        Prompts there are.
    length : int
        Tokens of a prompt.
    chosen : int
        Prompts that a sample gets.
    pull : float
        Weight of the cosines in the loss.
    spread : float
        Prompts begin between minus and plus this. Where the network's own tokens are much smaller, prompts should be
        too: otherwise they drown the image in the outputs that the head looks at.

    References
    ----------
    Wang et al., "Learning to Prompt for Continual Learning", CVPR 2022, https://arxiv.org/abs/2112.08654

    Examples
    --------
    >>> import numpy as np
    >>> dark, light = np.zeros((4, 8, 8, 3), np.uint8), np.full((4, 8, 8, 3), 255, np.uint8)
    >>> images, labels = np.concatenate([dark, light]), ["dark"] * 4 + ["light"] * 4
    >>> model = L2P("toy-vit", {"rate": 0.01, "epochs": 20, "augment": False}, spread=0.05)
    >>> str(model.partial_fit(images, labels).predict(light)[0])
    'light'
    """

    recipe: ClassVar[Recipe] = Recipe(epochs=5, batch_size=16, rate=1.875e-3, optimiser="adam")
    fixed_by_learning: ClassVar[tuple[str, ...]] = (*TrainedLearner.fixed_by_learning, "pool", "length", "chosen")

    def __init__(
        self,
        backbone: str = "vit-b16",
        training: Mapping[str, Any] | None = None,
        pool: int = 10,
        length: int = 5,
        chosen: int = 5,
        pull: float = 0.1,
        spread: float = 1.0,
        seed: int = 0,
        device: str | None = None,
        checkpoints: str | None = None,
    ) -> None:
        self.backbone = backbone
        self.training = training
        self.pool = pool
        self.length = length
        self.chosen = chosen
        self.pull = pull
        self.spread = spread
        self.seed = seed
        self.device = device
        self.checkpoints = checkpoints

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """A small pool, prompts as small as the tiny network's tokens, and large steps, for there are few of them."""
        given = super().test_params()
        training = {**given["training"], "epochs": 8, "rate": 0.01}
        return {**given, "training": training, "pool": 3, "length": 1, "chosen": 2, "spread": 0.02}

    def _begun(self, before: Prompted, network: Transformer) -> PromptPool:
        if before.batches:
            tensors = {name: tensor.clone() for name, tensor in before.prompts.items()}
        else:
            random, shape = self._random(0, 1), (self.pool, self.length, network.width)
            prompts = torch.empty(shape).uniform_(-self.spread, self.spread, generator=random)
            keys = torch.empty(self.pool, network.width).uniform_(-1, 1, generator=random)
            tensors = {"prompts": prompts, "keys": keys}
        return PromptPool(**tensors, chosen=self.chosen, pull=self.pull)

    def _trained(self, state: Prompted) -> PromptPool:
        return PromptPool(**state.prompts, chosen=self.chosen, pull=self.pull)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_whole("pool", 1)
        self._check_whole("length", 1)
        self._check_whole("chosen", 1, self.pool)
        self._check_number("pull", 0, 1e6)
        self._check_number("spread", 0, 1e6)
