"""CODA-Prompt: prompts that are weighted sums of components, of which every batch adds some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gddsg.learners.prompted import Prompted, PromptLearner
from gddsg.learners.trained import TrainedLearner
from gddsg.nn.networks import Transformer
from gddsg.nn.prompting import Prompting, checked_blocks
from gddsg.nn.prompts import Prefixes
from gddsg.nn.training import Recipe

_NO_ROOM = 1e-6  # of a unit vector, what is left of it when all directions are taken
_LEAST = 1e-24


def component_weights(queries: Tensor, attention: Tensor, keys: Tensor) -> Tensor:
    """``cos(q ⊙ A_k, K_k)`` of every query and component as ``(blocks, n, components)``.

    Parameters
    ----------
    queries : Tensor
        q, ``(n, width)``.
    attention, keys : Tensor
        A and K, ``(blocks, components, width)``.
    """
    both = torch.einsum("nd,bkd->bnk", queries, attention * F.normalize(keys, dim=-1))
    squares = torch.einsum("nd,bkd->bnk", queries.square(), attention.square())
    return both / squares.clamp_min(_LEAST).sqrt()


def orthogonal_rows(known: Tensor, count: int, random: torch.Generator) -> Tensor:
    """``count`` more rows of length one, at right angles to the rows ``(n, width)`` there are and to each other.

    By Gram and Schmidt, from random directions. Where there are ``width`` rows already no such direction is left, and a
    row is as it was drawn.

    Parameters
    ----------
    known : Tensor
        ``(n, width)``; they need not be at right angles themselves.
    count : int
        How many more.
    random : torch.Generator
        What directions are drawn from.

    Examples
    --------
    >>> orthogonal_rows(torch.tensor([[1.0, 0.0]]), 1, torch.Generator().manual_seed(0)).abs()
    tensor([[0., 1.]])
    """
    width = known.shape[1]
    drawn = F.normalize(torch.randn(count, width, generator=random, dtype=torch.float64), dim=1)
    taken = known.new_empty(0, width).double()  # an orthonormal basis of what the rows so far span
    rows = [*F.normalize(known.double(), dim=1), *drawn]
    for place, row in enumerate(rows):
        left = row
        for _ in range(2):  # once more, against rounding
            left = left - taken.T @ (taken @ left)
        size = left.norm()
        if size > _NO_ROOM:
            rows[place] = left / size
            taken = torch.cat([taken, rows[place][None]])
    return torch.stack(rows[len(known) :]).float()


class Components(Prompting):
    """Prefixes ``Σ_k cos(q ⊙ A_k, K_k) P_k``; the first half of their rows are keys, the second values.

    Parameters
    ----------
    older, own : mapping of str to Tensor
        Components P ``(blocks, components, 2 · length, width)`` as ``prompts``, K and A
        ``(blocks, components, width)`` as ``keys`` and ``attention``: those that stay, and those that are trained.
    blocks : sequence of int
        Where the prefixes go.
    orthogonality : float
        Weight of the penalty.
    """

    def __init__(
        self, older: Mapping[str, Tensor], own: Mapping[str, Tensor], blocks: Sequence[int], orthogonality: float
    ) -> None:
        super().__init__()
        for name in _PARTS:
            self.register_parameter(f"own_{name}", nn.Parameter(own[name]))
            self.register_buffer(f"older_{name}", older[name])
        self._blocks, self._orthogonality = blocks, orthogonality

    def part(self, name: str) -> Tensor:
        """One of P, K and A, of all components."""
        return torch.cat([getattr(self, f"older_{name}"), getattr(self, f"own_{name}")], dim=1)

    def features(self, network: Transformer, inputs: Tensor, queries: Tensor) -> Tensor:
        """The class token, ``(n, width)``."""
        weights = component_weights(queries, self.part("attention"), self.part("keys"))
        prompts = torch.einsum("bnk,bkld->bnld", weights, self.part("prompts"))
        halves = [one.chunk(2, dim=1) for one in prompts]
        return network.features(inputs, Prefixes({b: (h[0], h[1]) for b, h in zip(self._blocks, halves, strict=True)}))

    def extra_loss(self, queries: Tensor) -> Tensor:
        """How far P, K and A of each block are from orthonormal rows: the mean square of ``B Bᵀ - I``."""
        if not self._orthogonality:
            return super().extra_loss(queries)
        return self._orthogonality * sum(
            (_off_identity(block.flatten(1)) for name in _PARTS for block in self.part(name)), queries.new_zeros(())
        )


_PARTS = ("prompts", "keys", "attention")


def _off_identity(rows: Tensor) -> Tensor:
    return (rows @ rows.T - torch.eye(len(rows), device=rows.device)).square().mean()


class CODAPrompt(PromptLearner):
    """Prefixes in front of the keys and values of a frozen ViT, each a sum of components weighted by the query.

    In every one of ``blocks`` a component k has a prompt P_k, a key K_k and an attention A_k. The prefix of a sample
    with query q is ``Σ_k cos(q ⊙ A_k, K_k) P_k``; the query is the class token that the plain network gives it. Every
    batch adds components, which begin at right angles to all older ones as far as the width allows; older ones stay as
    they are. The head looks at the class token. The loss is cross-entropy among the classes of the batch, plus
    ``orthogonality`` times a penalty on components that are not at right angles; the published settings have none.

    The published pool of 100 components is divided among the tasks, so that their number has to be known; here every
    batch adds as many, whatever is still to come, and the pool grows.

    Parameters
    ----------
    backbone, training, seed, device, checkpoints
        See :class:`gddsg.learners.trained.TrainedLearner`.
    blocks : sequence of int
        Blocks that have a prefix, counted from 0.
    length : int
        Keys, and values, that a prefix adds; a component has twice as many rows, 8 as published.
    components_per_batch : int
        Components that a batch adds in every block.
    orthogonality : float
        Weight of the penalty.

    References
    ----------
    Smith et al., "CODA-Prompt: COntinual Decomposed Attention-based Prompting for Rehearsal-Free Continual Learning",
    CVPR 2023, https://arxiv.org/abs/2211.13218

    Examples
    --------
    >>> import numpy as np
    >>> dark, light = np.zeros((4, 8, 8, 3), np.uint8), np.full((4, 8, 8, 3), 255, np.uint8)
    >>> images, labels = np.concatenate([dark, light]), ["dark"] * 4 + ["light"] * 4
    >>> model = CODAPrompt("toy-vit", {"rate": 0.03, "augment": False}, blocks=(0, 1)).partial_fit(images, labels)
    >>> str(model.predict(light)[0])
    'light'
    """

    recipe: ClassVar[Recipe] = Recipe(epochs=20, batch_size=128, rate=1e-3, optimiser="adam", schedule="short-cosine")
    fixed_by_learning: ClassVar[tuple[str, ...]] = (*TrainedLearner.fixed_by_learning, "blocks", "length")

    def __init__(
        self,
        backbone: str = "vit-b16",
        training: Mapping[str, Any] | None = None,
        blocks: Sequence[int] = (0, 1, 2, 3, 4),
        length: int = 4,
        components_per_batch: int = 10,
        orthogonality: float = 0.0,
        seed: int = 0,
        device: str | None = None,
        checkpoints: str | None = None,
    ) -> None:
        self.backbone = backbone
        self.training = training
        self.blocks = blocks
        self.length = length
        self.components_per_batch = components_per_batch
        self.orthogonality = orthogonality
        self.seed = seed
        self.device = device
        self.checkpoints = checkpoints

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """Two blocks, few components, and large steps, for there are few of them."""
        given = super().test_params()
        training = {**given["training"], "epochs": 6, "rate": 0.03}
        return {**given, "training": training, "blocks": (0, 1), "length": 3, "components_per_batch": 5}

    def _begun(self, before: Prompted, network: Transformer) -> Components:
        random, older = self._random(before.batches, 1), self._older(before, network.width)
        own = {
            name: torch.stack([orthogonal_rows(b.flatten(1), self.components_per_batch, random) for b in older[name]])
            for name in _PARTS
        }
        own["prompts"] = own["prompts"].unflatten(2, (2 * self.length, network.width))
        return Components(older, own, self.blocks, self.orthogonality)

    def _older(self, state: Prompted, width: int) -> dict[str, Tensor]:
        """All components there are."""
        if state.batches:
            known = state.prompts
            return {name: torch.cat([known[f"older_{name}"], known[f"own_{name}"]], dim=1) for name in _PARTS}
        vectors = torch.empty(len(self.blocks), 0, width)
        return {
            "prompts": vectors[:, :, None].expand(-1, -1, 2 * self.length, -1),
            "keys": vectors,
            "attention": vectors,
        }

    def _trained(self, state: Prompted) -> Components:
        older, own = ({name: state.prompts[f"{which}{name}"] for name in _PARTS} for which in ("older_", "own_"))
        return Components(older, own, self.blocks, self.orthogonality)

    def _blocks_needed(self) -> int:
        return 1 + max(self.blocks)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checked_blocks(self.blocks, "blocks")
        self._check_whole("length", 1)
        self._check_whole("components_per_batch", 1)
        self._check_number("orthogonality", 0, 1e6)
