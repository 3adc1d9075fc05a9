"""A pre-trained network adapted to some classes, once and for good: five ways to do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gddsg.data.images import Images
from gddsg.errors import InputError
from gddsg.nn.adapters import ParallelAdapters, ScaleShift
from gddsg.nn.heads import CosineHead
from gddsg.nn.injection import Injection
from gddsg.nn.networks import Addition, Network, Transformer, require_transformer
from gddsg.nn.prompts import DeepPrompts, ShallowPrompts
from gddsg.nn.training_data import Batch

__all__ = ["Adaptation", "AdaptationKind", "Fit", "adapt", "check_kind", "embed_each"]

AdaptationKind = Literal["finetune", "vpt-shallow", "vpt-deep", "ssf", "adapter"]

Fit = Callable[[Callable[[Batch], Tensor], Sequence[nn.Parameter], Images, Sequence[int]], None]
"""What trains: it is given a loss, parameters, images and targets."""

_BOTTLENECK, _STRENGTH, _PROMPTS = 64, 0.1, 5  # as published
_DEVIATION = 0.02  # of prompts at first, as transformers draw their own tokens


@dataclass(frozen=True, eq=False)
class Adaptation:
    """What a network has been adapted by. The network itself is not in it.

    Attributes
    ----------
    kind : str
        ``"finetune"``, all weights of the network; ``"vpt-shallow"``, tokens at the input; ``"vpt-deep"``, tokens in
        every block; ``"ssf"``, a scale and a shift behind every layer; ``"adapter"``, a bottleneck beside every MLP.
        Networks other than transformers have the first and ``"ssf"``.
    tensors : mapping of str to Tensor
        What has been trained, on the CPU; never changed.
    """

    kind: AdaptationKind
    tensors: Mapping[str, Tensor]

    @classmethod
    def untrained(cls, network: Network, kind: AdaptationKind, random: torch.Generator) -> Adaptation:
        """What training begins with.

        Parameters
        ----------
        network : Network
            What is to be adapted.
        kind : str
            See above.
        random : torch.Generator
            What it is drawn from.
        """
        check_kind(kind)
        begun = network.module if kind == "finetune" else _injection(network, kind, random)
        return cls(kind, _copied(dict(begun.named_parameters())))

    def on(self, network: Network) -> Addition:
        """The injection or the weights that :meth:`gddsg.nn.networks.Network.features` takes, on its device."""
        tensors = {name: tensor.to(network.device) for name, tensor in self.tensors.items()}
        if self.kind == "finetune":
            return None, tensors
        injection = _injection(network, self.kind, torch.Generator()).to(network.device)
        injection.load_state_dict(tensors)
        return injection, None

    def embed(self, network: Network, images: Images) -> Tensor:
        """Features ``(n, feature_dim)`` of images by the adapted network, on the CPU.

        Parameters
        ----------
        network : Network
            The one that was adapted.
        images : Images
            What is looked at.
        """
        return network.embed(images, *self.on(network))

    @property
    def nbytes(self) -> int:
        """Size of all tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())


def adapt(
    network: Network,
    kind: AdaptationKind,
    images: Images,
    targets: Sequence[int],
    random: torch.Generator,
    fit: Fit,
) -> Adaptation:
    """Adapt a network to some classes: cross-entropy of ``σ cos(w, f(x))`` with a learnt σ, whose head is then dropped.

    A single class has nothing it could be told apart from, so that nothing is trained.

    Parameters
    ----------
    network : Network
        What is adapted; it stays as it is.
    kind : str
        See :class:`Adaptation`.
    images : Images
        The samples.
    targets : sequence of int
        Their classes, counted from 0.
    random : torch.Generator
        What training begins with is drawn from it.
    fit : callable
        What trains; see :data:`Fit`.

    Raises
    ------
    BackboneError
        If the network has no blocks, and the kind needs some.
    """
    begun = Adaptation.untrained(network, kind, random)
    if len(set(targets)) < 2:
        return begun
    injection, weights = begun.on(network)
    if injection is None:
        trained = {name: nn.Parameter(tensor.clone()) for name, tensor in (weights or {}).items()}
        weights = trained
    else:
        trained = dict(injection.named_parameters())
    head = CosineHead(network.feature_dim, max(targets) + 1, random).to(network.device)

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(head(network.features(batch.inputs, injection, weights)), batch.targets)

    fit(loss, [*trained.values(), *head.parameters()], images, targets)
    return Adaptation(kind, _copied(trained))


def embed_each(network: Network, images: Images, adaptations: Sequence[Adaptation | None]) -> list[Tensor]:
    """Features ``(n, feature_dim)`` by every adaptation in turn, None for the network as it is; images are read once.

    Parameters
    ----------
    network : Network
        The one that was adapted.
    images : Images
        What is looked at.
    adaptations : sequence of Adaptation or None
        In the order of the result.
    """
    return network.embed_each(images, [(None, None) if one is None else one.on(network) for one in adaptations])


def check_kind(kind: Any) -> None:
    """Refuse what is no way to adapt a network."""
    if kind not in get_args(AdaptationKind):
        raise InputError(f"adaptation={kind!r} was given; expected one of {', '.join(get_args(AdaptationKind))}.")


def _injection(network: Network, kind: AdaptationKind, random: torch.Generator) -> Injection:
    if kind == "ssf":
        return ScaleShift(network.layer_widths, random)
    transformer = require_transformer(network, f"adaptation={kind!r}")
    if kind == "adapter":
        return ParallelAdapters(transformer.blocks, transformer.width, random, _BOTTLENECK, _STRENGTH)
    prompts = _prompts(transformer, kind)
    # Tokens of zeros, as published, are where a block's normalisation divides by √ε: with the ε of 1e-12 of Hugging
    # Face's ViT their gradient is larger by some ten thousand times than elsewhere, and the first step throws them away
    nn.init.normal_(prompts.tokens, std=_DEVIATION, generator=random)
    return prompts


def _prompts(transformer: Transformer, kind: AdaptationKind) -> ShallowPrompts | DeepPrompts:
    if kind == "vpt-shallow":
        return ShallowPrompts(_PROMPTS, transformer.width)
    return DeepPrompts(transformer.blocks, _PROMPTS, transformer.width)


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
