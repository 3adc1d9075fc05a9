"""DualPrompt: one prompt that all batches train, and one more for each batch, found by its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gddsg.errors import InputError
from gddsg.learners.prompted import Prompted, PromptLearner
from gddsg.learners.trained import TrainedLearner
from gddsg.nn.networks import Transformer
from gddsg.nn.prompting import Choosing, checked_blocks, cosines
from gddsg.nn.prompts import Prefixes
from gddsg.nn.training import Recipe


class GeneralAndExpert(Choosing):
    """Prefixes for all samples in some blocks, and in others those of the expert whose key is nearest.

    In training all samples get the last expert, and it alone is trained.

    Parameters
    ----------
    general : Tensor
        ``(blocks, 2, length, width)``: keys, then values.
    older, own : Tensor
        Prefixes of the experts ``(experts, blocks, 2, length, width)``; ``own`` is the last, without the first axis.
    older_keys, own_key : Tensor
        ``(experts, width)``, and the last ``(width,)``.
    blocks : pair of sequence of int
        Where the general and the expert prefixes go.
    pull : float
        How strongly the own key is drawn to the query.
    """

    older: Tensor
    older_keys: Tensor

    def __init__(
        self,
        general: Tensor,
        older: Tensor,
        own: Tensor,
        older_keys: Tensor,
        own_key: Tensor,
        blocks: tuple[Sequence[int], Sequence[int]],
        pull: float,
    ) -> None:
        super().__init__()
        self.general, self.own, self.own_key = nn.Parameter(general), nn.Parameter(own), nn.Parameter(own_key)
        self.register_buffer("older", older)
        self.register_buffer("older_keys", older_keys)
        self._blocks, self._pull = blocks, pull

    @property
    def count(self) -> int:
        """One expert a sample."""
        return 1

    def similarities(self, queries: Tensor) -> Tensor:
        """Cosines of queries and keys of all experts, ``(n, experts)``."""
        return cosines(queries, torch.cat([self.older_keys, self.own_key[None]]))

    def features(self, network: Transformer, inputs: Tensor, queries: Tensor) -> Tensor:
        """The class token, ``(n, width)``; in training with the last expert, whatever the keys say."""
        if not self.training:
            return super().features(network, inputs, queries)
        return self._with(network, inputs, self.own.expand(len(inputs), *self.own.shape))

    def features_by(self, network: Transformer, inputs: Tensor, places: Tensor) -> Tensor:
        """The class token, ``(n, width)``, with the experts in those places."""
        return self._with(network, inputs, torch.cat([self.older, self.own[None]])[places[:, 0]])

    def _with(self, network: Transformer, inputs: Tensor, experts: Tensor) -> Tensor:
        shared = self.general.expand(len(inputs), *self.general.shape)
        prefixes = {
            block: (part[:, i, 0], part[:, i, 1])
            for blocks, part in zip(self._blocks, (shared, experts), strict=True)
            for i, block in enumerate(blocks)
        }
        return network.features(inputs, Prefixes(prefixes))

    def extra_loss(self, queries: Tensor) -> Tensor:
        """The cosine with the own key, which shall grow."""
        return -self._pull * cosines(queries, self.own_key[None]).mean()


class DualPrompt(PromptLearner):
    """Prefixes in front of the keys and values of a frozen ViT: general ones, and an expert for every batch learnt.

    The general prefix stands in the first blocks and goes on being trained. Every batch adds an expert prefix with a
    key, for later blocks: it begins as a copy of the expert before, is trained on that batch alone and never changes
    again. In use each sample gets the expert whose key has the largest cosine with its query, the class token that the
    plain network gives it. The head looks at the class token. The loss is cross-entropy among the classes of the batch
    minus ``pull`` times the cosine of the query and the batch's own key.

    Nobody tells how many batches will come: the experts are as many as the batches learnt, each
    ``2 · length · width`` numbers a block. The code published with the method lets a batch of test samples vote for an
    expert, here every sample has its own; see the protocol ``batch-wise-prompts`` of :mod:`gddsg.evaluation.protocol`.
    That code also mixes the heads of a prefix by reshaping it, here each head gets its own part.

    Parameters
    ----------
    backbone, training, seed, device, checkpoints
        See :class:`gddsg.learners.trained.TrainedLearner`.
    general_blocks, expert_blocks : sequence of int
        Blocks that have a prefix, counted from 0; none may be in both.
    length : int
        Keys, and values, that a prefix adds.
    pull : float
        Weight of the cosine in the loss.

    References
    ----------
    Wang et al., "DualPrompt: Complementary Prompting for Rehearsal-free Continual Learning", ECCV 2022,
    https://arxiv.org/abs/2204.04799

    Examples
    --------
    >>> import numpy as np
    >>> dark, light = np.zeros((4, 8, 8, 3), np.uint8), np.full((4, 8, 8, 3), 255, np.uint8)
    >>> images, labels = np.concatenate([dark, light]), ["dark"] * 4 + ["light"] * 4
    >>> model = DualPrompt("toy-vit", {"rate": 0.03, "augment": False}, general_blocks=(0,), expert_blocks=(1,))
    >>> str(model.partial_fit(images, labels).predict(light)[0])
    'light'
    """

    recipe: ClassVar[Recipe] = Recipe(epochs=5, batch_size=24, rate=1e-3, optimiser="adam")
    fixed_by_learning: ClassVar[tuple[str, ...]] = (
        *TrainedLearner.fixed_by_learning,
        "general_blocks",
        "expert_blocks",
        "length",
    )

    def __init__(
        self,
        backbone: str = "vit-b16",
        training: Mapping[str, Any] | None = None,
        general_blocks: Sequence[int] = (0, 1),
        expert_blocks: Sequence[int] = (2, 3, 4),
        length: int = 5,
        pull: float = 0.1,
        seed: int = 0,
        device: str | None = None,
        checkpoints: str | None = None,
    ) -> None:
        self.backbone = backbone
        self.training = training
        self.general_blocks = general_blocks
        self.expert_blocks = expert_blocks
        self.length = length
        self.pull = pull
        self.seed = seed
        self.device = device
        self.checkpoints = checkpoints

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """A block each, and large steps, for there are few of them."""
        given = super().test_params()
        training = {**given["training"], "epochs": 6, "rate": 0.03}
        return {**given, "training": training, "general_blocks": (0,), "expert_blocks": (1,)}

    def _begun(self, before: Prompted, network: Transformer) -> GeneralAndExpert:
        random = self._random(before.batches, 1)
        key = torch.empty(network.width).uniform_(-1, 1, generator=random)
        if not before.batches:
            general, own = (
                torch.empty(len(blocks), 2, self.length, network.width).uniform_(-1, 1, generator=random)
                for blocks in (self.general_blocks, self.expert_blocks)
            )
            return self._prompts(general, own.new_empty(0, *own.shape), own, key.new_empty(0, network.width), key)
        known = before.prompts
        return self._prompts(
            known["general"].clone(),
            torch.cat([known["older"], known["own"][None]]),
            known["own"].clone(),
            torch.cat([known["older_keys"], known["own_key"][None]]),
            key,
        )

    def _trained(self, state: Prompted) -> GeneralAndExpert:
        return self._prompts(**state.prompts)

    def _prompts(
        self, general: Tensor, older: Tensor, own: Tensor, older_keys: Tensor, own_key: Tensor
    ) -> GeneralAndExpert:
        blocks = (self.general_blocks, self.expert_blocks)
        return GeneralAndExpert(general, older, own, older_keys, own_key, blocks, self.pull)

    def _blocks_needed(self) -> int:
        return 1 + max(*self.general_blocks, *self.expert_blocks)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        general = checked_blocks(self.general_blocks, "general_blocks")
        expert = checked_blocks(self.expert_blocks, "expert_blocks")
        both = sorted(set(general) & set(expert))
        if both:
            raise InputError(
                f"general_blocks={general} and expert_blocks={expert} share {both}; expected no block in both, since a "
                "block has one prefix."
            )
        self._check_whole("length", 1)
        self._check_number("pull", 0, 1e6)
