"""What a backbone is: a frozen network that turns an image into a feature vector."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from PIL import Image

from gddsg.errors import BackboneError

Array = np.ndarray[Any, np.dtype[np.float32]]

_INPUTS_AT_ONCE = 64
_INPUT_BYTES_AT_ONCE = 200_000_000
_share = [2**31]  # cores of this process


class Preparation(Protocol):
    """How an image becomes the input of a backbone; its embed takes such inputs stacked."""

    @property
    def useful_side(self) -> int:
        """Pixels that the shorter side of an image should have; more than twice as many are wasted."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input, the same for every image."""

    def __call__(self, image: Image.Image) -> Array:
        """The input."""


@dataclass(frozen=True)
class Trainable:
    """A backbone's network for those who train it or put something into it; it is nobody else's.

    Attributes
    ----------
    module : torch.nn.Module
        From what ``stem`` gives to features, or to what Hugging Face's models give.
    preprocess : Preprocess
        How an image becomes the input.
    device : str
        Torch device that the network is meant for.
    stem : callable or None
        A part in front that is never trained: tensors ``(n, 3, height, width)`` to maps, both on the CPU.
    """

    module: Any
    preprocess: Preprocess
    device: str
    stem: Callable[[Any], Any] | None = None


class Backbone(ABC):
    """A frozen network. Equal images give equal features, whatever other images they come with.

    Attributes
    ----------
    name : str
        By which :func:`gddsg.backbones.load_backbone` finds it again.
    fingerprint : str
        Hash of weights and preprocessing, stored in models and caches: features of backbones with different
        fingerprints are never mixed.
    feature_dim : int
        L, length of a feature vector.
    preprocess : Preparation
        How an image becomes the network's input.
    workers : int
        Threads that may embed at the same time.
    batch_size : int
        Images that are best embedded together.
    """

    name: str
    fingerprint: str
    feature_dim: int
    preprocess: Preparation
    workers: int = 1
    batch_size: int = 1

    @abstractmethod
    def embed(self, images: Array) -> Array:
        """Features ``(n, feature_dim)`` of preprocessed images, most often ``(n, 3, height, width)``."""

    def trainable(self) -> Trainable:
        """The network itself; an error where it cannot be had."""
        raise BackboneError(
            f"{self.name} cannot be trained here. Use a single network at its own size: hf:NAME, hybrid-vit, vit-b16, "
            "resnet18 or efficientnet-lite0, without @, /layers and +."
        )

    @property
    def identity(self) -> str:
        """``name@fingerprint``, what a model remembers of its backbone."""
        return f"{self.name}@{self.fingerprint}"


@dataclass(frozen=True)
class Preprocess:
    """The central part of an image, resized and normalised.

    Attributes
    ----------
    size : tuple of int
        Height and width of the result.
    crop : float
        Share of the image's shorter side (of both sides where ``squash``) that is used; small images have nothing to
        spare and are used whole.
    squash : bool
        Resize the whole image to ``size``, whatever its shape, instead of cutting a centred part of that shape.
    mean, deviation : tuple of float
        Of the three channels, for pixels between 0 and 1.
    resample : Image.Resampling
        Pillow's filter.
    whole_below : int or None
        Pixels of the shorter side below which an image is small; those of ``size`` unless given.
    """

    size: tuple[int, int]
    crop: float = 1.0
    squash: bool = False
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    deviation: tuple[float, float, float] = (1.0, 1.0, 1.0)
    resample: Image.Resampling = Image.Resampling.BICUBIC
    whole_below: int | None = field(default=None, repr=False)  # fingerprints of those that have none are in use

    def __call__(self, image: Image.Image) -> Array:
        """``(3, height, width)`` of an RGB image."""
        height, width = self.size
        # cutting and resizing in one step: a panorama is never blown up to the height of a photo
        small = image.resize((width, height), self.resample, box=self._box(image.size))
        return self.normalise(np.asarray(small))

    def normalise(self, pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> Array:
        """``(..., 3, height, width)`` of pixels ``(..., height, width, 3)`` that need no resizing."""
        channels = np.moveaxis(pixels.astype(np.float32), -1, -3) / 255
        mean, deviation = (np.array(part, dtype=np.float32)[:, None, None] for part in (self.mean, self.deviation))
        return np.ascontiguousarray((channels - mean) / deviation)

    def at(self, side: int) -> Preprocess:
        """The same for an input of another height and width: of every image the part is used that was before."""
        if self.size == (side, side):
            return self
        return replace(self, size=(side, side), whole_below=min(self.size))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the result: channels, height and width."""
        return (3, *self.size)

    @property
    def useful_side(self) -> int:
        """Pixels that the shorter side of an image should have; more than twice as many are wasted."""
        return 2 * int(np.ceil(max(self.size) / self.crop))

    def _box(self, size: tuple[int, int]) -> tuple[float, float, float, float]:
        """Left, top, right, bottom of the part that is used."""
        height, width = self.size
        small = min(self.size) if self.whole_below is None else self.whole_below
        crop = self.crop if min(size) >= small else 1.0
        if self.squash:
            cut = (size[0] * crop, size[1] * crop)
        else:
            scale = crop * min(size[0] / width, size[1] / height)
            cut = (min(width * scale, size[0]), min(height * scale, size[1]))  # 29 / 224 * 224 is more than 29
        left, top = ((whole - part) / 2 for whole, part in zip(size, cut, strict=True))
        return left, top, left + cut[0], top + cut[1]


def fingerprint(preprocess: Preprocess, parts: Iterable[bytes]) -> str:
    """Sixteen hexadecimal digits for the preprocessing and the bytes of the weights."""
    digest = hashlib.sha256(repr(preprocess).encode())
    if preprocess.whole_below is not None:
        digest.update(f"whole below {preprocess.whole_below}".encode())
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:16]


def images_at_once(preprocess: Preprocess) -> int:
    """How many images to embed together on a GPU; fewer where they are large, for all of them wait in memory."""
    height, width = preprocess.size
    return max(min(_INPUTS_AT_ONCE, _INPUT_BYTES_AT_ONCE // (3 * 4 * height * width)), 1)


def available_cores() -> int:
    """Cores this process may use, which in a container, or beside other workers, are fewer than the machine has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, *_share)


def share_cores(cores: int) -> None:
    """Have this process use no more than so many cores from now on, since others work beside it.

    Parameters
    ----------
    cores : int
        Its share, from 1.
    """
    _share[:] = [max(cores, 1)]
