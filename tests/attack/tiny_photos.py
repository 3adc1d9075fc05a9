"""Photos and a backbone small enough for thousands of attacks."""

from __future__ import annotations

import numpy as np

from gddsg.backbones.base import Array, Backbone, Preprocess
from gddsg.data.photo import Photo


class Means(Backbone):
    """A tiny real backbone: means and deviations of the colours of the four quarters."""

    name, fingerprint, feature_dim = "means", "0123456789abcdef", 24
    preprocess = Preprocess((16, 16))
    workers = 2

    def embed(self, images: Array) -> Array:
        """Features ``(n, 24)``."""
        quarters = images.reshape(len(images), 3, 2, 8, 2, 8)
        parts = [quarters.mean((3, 5)).reshape(-1, 12), quarters.std((3, 5)).reshape(-1, 12)]
        return np.concatenate(parts, axis=1).astype(np.float32)


def photo_of(seed: int, label: str) -> Photo:
    """A photo like no other."""
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    return Photo.of_pixels(pixels, label, f"photo {seed}")
