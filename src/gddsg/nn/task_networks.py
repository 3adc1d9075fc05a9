"""Networks whose weights are handed in: one function, and as many networks as there are tasks.

They give features; what tells classes apart, the head of a task, is put on top by whoever trains them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gddsg.backbones.base import Preprocess
from gddsg.data.images import Images
from gddsg.nn.networks import load_network, require_transformer
from gddsg.nn.training_data import Samples, TensorData, TrainingData

__all__ = ["MLP", "SmallConvolutional", "Standardisation", "TaskNetwork", "TaskTransformer", "Weights"]

Weights = Mapping[str, Tensor]
"""Tensors by name: ``layer.weight`` ``(out, in, ...)`` and ``layer.bias`` ``(out,)``."""

_ROWS_AT_ONCE = 4096
_IMAGES_AT_ONCE = 256
_FARTHEST = 10.0  # deviations from the mean: what is farther off is taken for that far
_CHANNELS, _KERNEL, _POOL, _SIDE = (20, 50), 5, 2, 32  # as published for APD and HALRP on small images


@dataclass(frozen=True, eq=False)
class Standardisation:
    """Features about zero, of size one: ``(x − mean) / deviation``, cut off at ten.

    Attributes
    ----------
    mean : Tensor
        ``(n_features,)`` float64.
    deviation : float
        One for all features: that of a single feature says little where the first task has few samples.
    """

    mean: Tensor
    deviation: float

    @classmethod
    def of(cls, features: Tensor) -> Standardisation:
        """That of some features ``(n, n_features)``; where all are equal, by their length."""
        rows = features.cpu().double()
        mean = rows.mean(0)
        for deviation in ((rows - mean).square().mean().sqrt(), mean.square().mean().sqrt()):
            if float(deviation) > 1e-9 * float(mean.abs().max()):
                return cls(mean, float(deviation))
        return cls(mean, 1.0)

    def __call__(self, features: Tensor) -> Tensor:
        """``(n, n_features)`` float64."""
        found = (features.double() - self.mean.to(features.device)) / self.deviation
        return found.clamp(-_FARTHEST, _FARTHEST)


class TaskNetwork(ABC):
    """A function of inputs and weights.

    Attributes
    ----------
    width : int
        Of its features.
    device : torch.device
        Where it computes.
    precision : torch.dtype
        What it answers in: one row of features must give what it gives among others.
    """

    width: int
    device: torch.device
    precision: torch.dtype = torch.float64

    @abstractmethod
    def begun(self, random: torch.Generator) -> dict[str, Tensor]:
        """What training begins with, drawn from ``random`` or pre-trained, on the device."""

    @abstractmethod
    def samples(self, inputs: Any, targets: Sequence[int], augment: bool) -> Samples:
        """Inputs to train on.

        Parameters
        ----------
        inputs : Tensor or Images
            What the learner was given.
        targets : sequence of int
            One for each.
        augment : bool
            See :class:`gddsg.nn.training.Recipe`; only images can be.
        """

    @abstractmethod
    def features(self, inputs: Tensor, weights: Weights) -> Tensor:
        """Features ``(n, width)``.

        Parameters
        ----------
        inputs : Tensor
            Prepared, on the device.
        weights : mapping of str to Tensor
            All that :meth:`begun` names, of the type of the inputs.
        """

    @abstractmethod
    def answers(self, inputs: Any, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """What ``compute`` makes of prepared inputs, some at a time, on the CPU and without gradients."""


class MLP(TaskNetwork):
    """Features through hidden layers with ReLU.

    Parameters
    ----------
    standardise : Standardisation
        Of the inputs.
    hidden : sequence of int
        Widths of the layers.
    device : str
        Where it computes.
    """

    def __init__(self, standardise: Standardisation, hidden: Sequence[int], device: str) -> None:
        self.standardise, self.device = standardise, torch.device(device)
        self._widths = (len(standardise.mean), *hidden)
        self.width = self._widths[-1]

    def begun(self, random: torch.Generator) -> dict[str, Tensor]:
        """Drawn as He et al. do for ReLU, uniformly; biases are zero."""
        return _dense(self._widths, random, self.device)

    def samples(self, inputs: Tensor, targets: Sequence[int], augment: bool) -> TensorData:
        """The standardised features; they are never augmented."""
        return TensorData(self.standardise(inputs).float(), torch.tensor(targets, device=self.device))

    def features(self, inputs: Tensor, weights: Weights) -> Tensor:
        """What the last hidden layer gives."""
        return _through_dense(inputs, weights, len(self._widths) - 1)

    def answers(self, inputs: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """See :meth:`TaskNetwork.answers`."""
        with torch.inference_mode():
            found = [compute(self.standardise(part)).cpu() for part in inputs.split(_ROWS_AT_ONCE)]
        return torch.cat(found).clone()


class SmallConvolutional(TaskNetwork):
    """Two convolutions of 5 × 5 with ReLU and pooling, then hidden layers; images of 32 × 32 pixels.

    Parameters
    ----------
    hidden : sequence of int
        Widths of the layers behind the convolutions.
    device : str
        Where it computes.
    """

    def __init__(self, hidden: Sequence[int], device: str) -> None:
        self.device = torch.device(device)
        side = _SIDE
        for _ in _CHANNELS:
            side = (side - _KERNEL + 1) // _POOL
        self._widths = (_CHANNELS[-1] * side * side, *hidden)
        self.width = self._widths[-1]
        self._preprocess = Preprocess((_SIDE, _SIDE), mean=(0.5,) * 3, deviation=(0.25,) * 3)

    def begun(self, random: torch.Generator) -> dict[str, Tensor]:
        """Drawn as He et al. do for ReLU, uniformly; biases are zero."""
        found: dict[str, Tensor] = {}
        for i, (given, out) in enumerate(pairwise((3, *_CHANNELS))):
            found |= _drawn(f"convolution{i}", (out, given, _KERNEL, _KERNEL), random, self.device)
        return found | _dense(self._widths, random, self.device)

    def samples(self, inputs: Images, targets: Sequence[int], augment: bool) -> TensorData:
        """Images as they are."""
        return TensorData(self._prepare(inputs).float(), torch.tensor(targets, device=self.device))

    def _prepare(self, images: Images) -> Tensor:
        pixels = images.prepared(self._preprocess, self._preprocess.useful_side)
        return torch.from_numpy(pixels.astype(np.float64)).to(self.device)

    def features(self, inputs: Tensor, weights: Weights) -> Tensor:
        """What the last hidden layer gives."""
        for i in range(len(_CHANNELS)):
            maps = F.conv2d(inputs, weights[f"convolution{i}.weight"], weights[f"convolution{i}.bias"])
            inputs = F.max_pool2d(maps.relu(), _POOL)
        return _through_dense(inputs.flatten(1), weights, len(self._widths) - 1)

    def answers(self, inputs: Images, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """See :meth:`TaskNetwork.answers`."""
        parts = [inputs[start : start + _IMAGES_AT_ONCE] for start in range(0, len(inputs), _IMAGES_AT_ONCE)]
        with torch.inference_mode():
            return torch.cat([compute(self._prepare(part)).cpu() for part in parts]).clone()


class TaskTransformer(TaskNetwork):
    """A pre-trained ViT: the output of attention and both layers of the MLP of every block; all else stays as it is.

    Parameters
    ----------
    name : str
        Of the backbone, see :func:`gddsg.nn.networks.load_network`.
    device : str or None
        Where it computes.
    method : str
        Who asks, for the message where it is no ViT.
    """

    precision = torch.float32

    def __init__(self, name: str, device: str | None, method: str) -> None:
        self._network = require_transformer(load_network(name, device), method)
        self.device, self.width = self._network.device, self._network.feature_dim

    def begun(self, random: torch.Generator) -> dict[str, Tensor]:
        """The weights as they were pre-trained."""
        return {
            name: tensor.detach().clone()
            for name, tensor in self._network.module.named_parameters()
            if any(f".{layer}." in name for layer in ("o_proj", "fc1", "fc2"))
        }

    def samples(self, inputs: Images, targets: Sequence[int], augment: bool) -> TrainingData:
        """Images, augmented where the recipe says so."""
        return TrainingData(self._network, inputs, targets, augment)

    def features(self, inputs: Tensor, weights: Weights) -> Tensor:
        """The class token."""
        return self._network.features(inputs, weights=weights)

    def answers(self, inputs: Images, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """See :meth:`TaskNetwork.answers`."""
        return self._network.answers(inputs, compute)


def _dense(widths: Sequence[int], random: torch.Generator, device: torch.device) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for i, (given, out) in enumerate(pairwise(widths)):
        found |= _drawn(f"hidden{i}", (out, given), random, device)
    return found


def _drawn(layer: str, shape: tuple[int, ...], random: torch.Generator, device: torch.device) -> dict[str, Tensor]:
    bound = math.sqrt(6 / math.prod(shape[1:]))
    weight = torch.empty(shape).uniform_(-bound, bound, generator=random)
    return {f"{layer}.weight": weight.to(device), f"{layer}.bias": torch.zeros(shape[0], device=device)}


def _through_dense(inputs: Tensor, weights: Weights, layers: int) -> Tensor:
    for i in range(layers):
        inputs = F.linear(inputs, weights[f"hidden{i}.weight"], weights[f"hidden{i}.bias"]).relu()
    return inputs
