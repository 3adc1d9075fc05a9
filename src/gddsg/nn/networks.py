"""Pre-trained networks that can be trained: images in, features out, taps inside, and frozen as they come."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from gddsg.backbones import load_backbone
from gddsg.backbones.base import Preprocess
from gddsg.data.images import Images
from gddsg.errors import BackboneError, MissingExtraError
from gddsg.nn.injection import Injection, injected, tap_layers, tap_transformer
from gddsg.nn.kept_inputs import KeptInputs
from gddsg.nn.processes import processes

__all__ = ["TOY", "Addition", "Network", "Transformer", "load_network", "require_transformer"]

TOY = "toy-vit"
"""A transformer of two small blocks for images of 8 × 8 pixels, with weights drawn at random: to try things out."""

_AT_ONCE = 64

Stem = Callable[[Tensor], Tensor]
"""A part in front of the network that is never trained, from images to maps."""

Addition = tuple[Injection | None, Mapping[str, Tensor] | None]
"""What :meth:`Network.features` takes besides inputs: an injection, and weights."""


class Network(ABC):
    """A frozen network with taps. One serves all learners and threads: nothing in it ever changes what it gives.

    Attributes
    ----------
    identity : str
        ``name@fingerprint``.
    device : torch.device
        Where it is.
    feature_dim : int
        L.
    input_shape : tuple of int
        Of one image as :meth:`prepare` gives it.
    """

    def __init__(
        self, identity: str, module: nn.Module, preprocess: Preprocess, device: str, stem: Stem | None = None
    ) -> None:
        self.identity = identity
        self.device = torch.device(device)
        self.module = module.requires_grad_(False).eval().to(device)
        tap_layers(self.module)
        self._preprocess, self._stem = preprocess, stem
        self._behind_stem = None if stem is None else KeptInputs(self._prepared, _AT_ONCE)
        self._copies = threading.local()
        with torch.no_grad():
            nothing = self._through_stem(torch.zeros(1, 3, *preprocess.size))
            self.input_shape = tuple(nothing.shape[1:])
            self.feature_dim = self.features(nothing.to(device)).shape[1]

    # ---------------------------------------------------------------- images to inputs

    def prepare(self, images: Images, random: np.random.Generator | None = None) -> Tensor:
        """Inputs ``(n, channels, height, width)`` on the CPU, behind the stem where there is one.

        What a stem makes of an image that is not augmented is kept while there is room.

        Parameters
        ----------
        images : Images
            What is looked at.
        random : numpy.random.Generator, optional
            What augmentation is drawn from; without it there is none.
        """
        # filled part by part: a list of parts would take twice as much memory
        inputs = torch.empty(len(images), *self.input_shape)
        if self._behind_stem is not None and random is None:
            self._behind_stem.fill(inputs, images)
            return inputs
        for start in range(0, len(images), _AT_ONCE):
            part = images[start : start + _AT_ONCE]
            inputs[start : start + len(part)] = self._prepared(part, random)
        return inputs

    def _prepared(self, images: Images, random: np.random.Generator | None = None) -> Tensor:
        return self._through_stem(torch.from_numpy(self._pixels(images, random)))

    def _pixels(self, images: Images, random: np.random.Generator | None) -> Any:
        if random is None:
            return images.prepared(self._preprocess, self._preprocess.useful_side)
        return self._preprocess.normalise(images.augmented(max(self._preprocess.size), random))

    def _through_stem(self, inputs: Tensor) -> Tensor:
        if self._stem is None:
            return inputs
        with torch.no_grad():
            return self._stem(inputs)

    @property
    def input_bytes(self) -> int:
        """Memory that one prepared image takes."""
        return 4 * math.prod(self.input_shape)

    # ---------------------------------------------------------------- inputs to features

    @abstractmethod
    def features(
        self, inputs: Tensor, injection: Injection | None = None, weights: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Features ``(n, feature_dim)`` of inputs on the network's device.

        Parameters
        ----------
        inputs : Tensor
            What :meth:`prepare` gives.
        injection : Injection, optional
            What is added at the taps.
        weights : mapping of str to Tensor, optional
            In place of the network's own, by name.
        """

    def _run(self, inputs: Tensor, injection: Injection | None, weights: Mapping[str, Tensor] | None) -> Any:
        with injected(injection):
            if weights is None:
                return self.module(inputs)
            return functional_call(self._copy(), dict(weights), (inputs,))

    def _copy(self) -> nn.Module:
        """A copy for this thread: torch puts other weights into the module itself for the time of a call."""
        if not hasattr(self._copies, "module"):
            self._copies.module = deepcopy(self.module)
        copy: nn.Module = self._copies.module
        return copy

    def embed(
        self, images: Images, injection: Injection | None = None, weights: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Features ``(n, feature_dim)`` of images on the CPU, without augmentation and without gradients."""
        if not len(images):
            return torch.empty(0, self.feature_dim)
        return self.answers(images, lambda inputs: self.features(inputs, injection, weights))

    def embed_each(self, images: Images, additions: Sequence[Addition]) -> list[Tensor]:
        """Features as of :meth:`embed` with every injection or weights in turn; each image is prepared once."""
        found = self.answers(
            images, lambda inputs: torch.cat([self.features(inputs, *one) for one in additions], dim=1)
        )
        return [part.contiguous() for part in found.split(self.feature_dim, dim=1)]

    def answers(self, images: Images, compute: Callable[[Tensor], Tensor], at_once: int = _AT_ONCE) -> Tensor:
        """What ``compute`` makes of the inputs of images, on the CPU, without augmentation and without gradients.

        Parameters
        ----------
        images : Images
            What is looked at.
        compute : callable
            From inputs on the network's device to as many rows.
        at_once : int
            How many images it is given at a time, in their order.
        """
        with torch.inference_mode():
            parts = [images[start : start + at_once] for start in range(0, len(images), at_once)]
            found = [compute(self.prepare(part).to(self.device)).cpu() for part in parts]
        return torch.cat(found).clone()

    @property
    def layer_widths(self) -> dict[str, int]:
        """Channels that every linear, convolution and normalisation layer gives, by its name."""
        widths = {}
        for name, layer in self.module.named_modules():
            found = next((getattr(layer, key, None) for key in _WIDTHS if hasattr(layer, key)), None)
            if isinstance(layer, nn.LayerNorm):
                found = layer.normalized_shape[-1]
            if isinstance(layer, nn.Linear | nn.LayerNorm | nn.Conv2d | nn.BatchNorm2d) and found is not None:
                widths[name] = int(found)
        return widths


_WIDTHS = ("out_features", "out_channels", "num_features")


class Transformer(Network):
    """A ``ViTModel`` of Hugging Face, as it is.

    Attributes
    ----------
    blocks, width : int
        How many blocks, and the width of a token; its features are the class token.
    """

    def __init__(
        self, identity: str, module: Any, preprocess: Preprocess, device: str, stem: Stem | None = None
    ) -> None:
        tap_transformer(module)
        self.blocks, self.width = len(module.layers), int(module.config.hidden_size)
        super().__init__(identity, module, preprocess, device, stem)

    def tokens(
        self, inputs: Tensor, injection: Injection | None = None, weights: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """All tokens behind the last block, ``(n, tokens, width)``; see :meth:`Network.features`."""
        tokens: Tensor = self._run(inputs, injection, weights).last_hidden_state
        return tokens

    def features(
        self, inputs: Tensor, injection: Injection | None = None, weights: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """The class token; see :meth:`Network.features`."""
        return self.tokens(inputs, injection, weights)[:, 0]


class _Convolutional(Network):
    """A network whose features are a pooled map."""

    def features(
        self, inputs: Tensor, injection: Injection | None = None, weights: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """The pooled map; see :meth:`Network.features`."""
        found = self._run(inputs, injection, weights)
        features: Tensor = found if isinstance(found, Tensor) else found.pooler_output.flatten(1)
        return features


def load_network(name: str, device: str | None = None) -> Network:
    """The network of a backbone's name; the same object for the same name.

    Parameters
    ----------
    name : str
        See :func:`gddsg.backbones.load_backbone`; or ``"toy-vit"``, a tiny one to try things out.
    device : str or None
        Torch device; a GPU if there is one, unless named.
    """
    with _LOADING:  # threads that ask at the same time get the same one, too
        return _loaded(name, device or processes().device)


_LOADING = threading.Lock()


@lru_cache(maxsize=4)
def _loaded(name: str, device: str | None) -> Network:
    if name == TOY:
        return _toy(device or "cpu")
    backbone = load_backbone(name, device)
    trainable = backbone.trainable()
    kind = Transformer if type(trainable.module).__name__ == "ViTModel" else _Convolutional
    return kind(backbone.identity, trainable.module, trainable.preprocess, trainable.device, trainable.stem)


def require_transformer(network: Network, method: str, blocks: int = 1) -> Transformer:
    """The network, if it is a transformer of so many blocks; otherwise an error that says what to use.

    Parameters
    ----------
    network : Network
        Of the learner's backbone.
    method : str
        Who asks.
    blocks : int
        How many it needs at least.
    """
    if not isinstance(network, Transformer):
        raise BackboneError(
            f"{method} puts prompts or adapters into the blocks of a ViT, and {network.identity} is none. "
            "Use a ViT, such as backbone='vit-b16' or 'hybrid-vit'."
        )
    if network.blocks < blocks:
        raise BackboneError(
            f"{method} needs a ViT of {blocks} blocks at least, and {network.identity} has {network.blocks}."
        )
    return network


def _toy(device: str) -> Network:
    try:
        from transformers import ViTConfig, ViTModel
    except ImportError as error:
        raise MissingExtraError("Trained learners need transformers. Install it: pip install 'gddsg[train]'") from error
    config = ViTConfig(
        image_size=8,
        patch_size=4,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with torch.random.fork_rng(devices=[]):  # nobody else's generator is touched
        torch.manual_seed(0)
        module = ViTModel(config, add_pooling_layer=False)
    preprocess = Preprocess((8, 8), mean=(0.5,) * 3, deviation=(0.25,) * 3)
    return Transformer(f"{TOY}@0", module, preprocess, device)
