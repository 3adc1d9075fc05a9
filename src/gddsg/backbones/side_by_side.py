"""Several backbones as one: ``efficientnet-lite0@288+efficientnet-lite2``."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from gddsg.backbones.base import Array, Backbone, Preparation


class SideBySide(Backbone):
    """The features of several backbones in a row, each of an image prepared in its own way.

    Parameters
    ----------
    parts : sequence of Backbone
        Two at least.
    """

    def __init__(self, parts: Sequence[Backbone]) -> None:
        self._parts = tuple(parts)
        self.name = "+".join(part.name for part in parts)
        self.fingerprint = hashlib.sha256("+".join(part.fingerprint for part in parts).encode()).hexdigest()[:16]
        self.feature_dim = sum(part.feature_dim for part in parts)
        self.preprocess = self._inputs = _EachInItsOwnWay(tuple(part.preprocess for part in parts))
        self.workers = min(part.workers for part in parts)
        self.batch_size = min(part.batch_size for part in parts)

    def embed(self, images: Array) -> Array:
        """Features ``(n, feature_dim)`` of preprocessed images ``(n, numbers of all inputs)``."""
        inputs = zip(self._parts, self._inputs.split(images), strict=True)
        return np.concatenate([part.embed(one) for part, one in inputs], axis=1)


@dataclass(frozen=True)
class _EachInItsOwnWay:
    """An image prepared for every part, all inputs in one row of numbers."""

    ways: tuple[Preparation, ...]

    @property
    def useful_side(self) -> int:
        """Of the part that wants most."""
        return max(way.useful_side for way in self.ways)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row."""
        return (sum(math.prod(way.shape) for way in self.ways),)

    def __call__(self, image: Image.Image) -> Array:
        return np.concatenate([way(image).ravel() for way in self.ways])

    def split(self, rows: Array) -> list[Array]:
        """The inputs of every part, each in the shape that it takes."""
        ends = np.cumsum([math.prod(way.shape) for way in self.ways])[:-1]
        pieces = zip(np.split(rows, ends, axis=1), self.ways, strict=True)
        return [np.ascontiguousarray(piece).reshape(-1, *way.shape) for piece, way in pieces]
