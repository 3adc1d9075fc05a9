"""What a training learns from: samples, batch by batch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gddsg.data.images import Images
from gddsg.errors import InputError
from gddsg.nn.kept_inputs import room_for_inputs
from gddsg.nn.networks import Network

__all__ = ["Batch", "Samples", "TensorData", "TrainingData"]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some samples, on the network's device.

    Attributes
    ----------
    inputs : Tensor
        What :meth:`gddsg.nn.networks.Network.features` takes.
    targets : Tensor
        One row a sample; of :class:`TrainingData` whole numbers ``(n,)``.
    rows : ndarray
        Places of the samples among all, ``(n,)``.
    """

    inputs: Tensor
    targets: Tensor
    rows: NDArray[np.intp]


class Samples(Protocol):
    """What a training learns from."""

    def __len__(self) -> int: ...

    @property
    def device(self) -> torch.device:
        """Where batches are."""

    def batch(self, rows: NDArray[np.intp], random: np.random.Generator, mine: slice) -> Batch:
        """The samples in those of the places that are ``mine``; what is drawn is drawn for all of them."""

    def digest(self) -> bytes:
        """By which the same samples are known again."""


class TrainingData:
    """Images and what they are, batch by batch; without augmentation each is prepared once.

    Parameters
    ----------
    network : Network
        Whose inputs they become.
    images : Images
        The samples.
    targets : sequence of int
        One a sample.
    augment : bool
        See :class:`gddsg.nn.training.Recipe`.
    """

    def __init__(self, network: Network, images: Images, targets: Sequence[int], augment: bool) -> None:
        if not len(images):
            raise InputError("No image was given to train on; expected at least one.")
        if len(targets) != len(images):
            raise InputError(f"{len(images)} images and {len(targets)} targets were given; expected one for each.")
        self.network, self.images, self.augment = network, images, augment
        self.targets = torch.tensor(targets, dtype=torch.long)
        room = len(images) * network.input_bytes <= room_for_inputs()
        self._prepared = network.prepare(images) if room and not augment else None

    def __len__(self) -> int:
        return len(self.images)

    @property
    def device(self) -> torch.device:
        """That of the network."""
        return self.network.device

    def batch(self, rows: NDArray[np.intp], random: np.random.Generator, mine: slice = slice(None)) -> Batch:
        """Some samples.

        Parameters
        ----------
        rows : ndarray
            Places of the samples, ``(n,)``.
        random : numpy.random.Generator
            What augmentation is drawn from, the same number of draws whatever ``mine`` says.
        mine : slice
            Which of ``rows`` are looked at, where processes share them.
        """
        own = rows[mine]
        if self._prepared is not None:
            inputs = self._prepared[torch.from_numpy(own)]
        elif self.augment:
            first, last, _ = mine.indices(len(rows))
            self.images.skip(first, random)
            inputs = self.network.prepare(self.images[own], random)
            self.images.skip(len(rows) - last, random)
        else:
            inputs = self.network.prepare(self.images[own])
        return Batch(inputs.to(self.device), self.targets[torch.from_numpy(own)].to(self.device), own)

    def digest(self) -> bytes:
        """By which the same data are known again: the network, all targets and all images."""
        parts = (self.network.identity.encode(), self.targets.numpy().tobytes(), self.images.digest())
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


class TensorData:
    """Inputs that are tensors already, such as features, and what they are.

    Parameters
    ----------
    inputs : Tensor
        One row a sample, on the device of whatever is trained.
    targets : Tensor
        Whole numbers ``(n,)`` on the same device.
    """

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def device(self) -> torch.device:
        """Where the inputs are."""
        return self.inputs.device

    def batch(self, rows: NDArray[np.intp], random: np.random.Generator, mine: slice = slice(None)) -> Batch:
        """Some samples; nothing is drawn. See :meth:`TrainingData.batch`."""
        own = rows[mine]
        places = torch.from_numpy(own).to(self.device)
        return Batch(self.inputs[places], self.targets[places], own)

    def digest(self) -> bytes:
        """By which the same samples are known again."""
        parts = (tensor.cpu().contiguous().numpy().tobytes() for tensor in (self.targets, self.inputs))
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
