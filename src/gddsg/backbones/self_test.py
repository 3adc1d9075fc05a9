"""A backbone proves itself on a built-in picture whenever it is loaded.

Digests show that files are whole. This shows that what runs them is: an image library, a runtime or a kernel that
computes something else would give wrong answers without a word. What the features should be is in a file of the
package for the sizes that most people use; for others torch computes it, once it has shown that it can.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
from PIL import Image

from gddsg.backbones.base import Array, Backbone
from gddsg.errors import BackboneError

TOLERANCE = 1e-3
"""Largest distance to the reference, as a share of its length; rounding makes some 1e-6 of it on a CPU."""

GPU_TOLERANCE = 3e-2
"""The same on other devices, which may calculate with ten bits: that makes up to 8e-3."""

_REFERENCES = (
    ("efficientnet-lite0", 224),
    ("efficientnet-lite1", 240),
    ("efficientnet-lite2", 260),
    ("efficientnet-lite0", 288),
    ("efficientnet-lite2", 340),
    ("efficientnet-lite1", 320),
)
_SIDE = 320


def require_right_features(backbone: Backbone, expected: Array, tolerance: float = TOLERANCE) -> None:
    """Refuse a backbone that does not give the features it should; of several layers, the last is looked at.

    What earlier layers give is on the way to it: where one computes something else, so does the last.

    Parameters
    ----------
    backbone : Backbone
        One of EfficientNet-Lite.
    expected : ndarray
        What its last layer should give for the built-in picture.
    tolerance : float
        Largest distance, as a share of the length of ``expected``.
    """
    found = backbone.embed(backbone.preprocess(built_in_picture())[None])
    right_shape = found.shape == (1, backbone.feature_dim)
    last = found[0, -len(expected) :] if right_shape else np.full_like(expected, np.inf)
    require_close(backbone.name, last, expected, tolerance)


def require_close(name: str, found: Array, expected: Array, tolerance: float) -> None:
    """Refuse the features of the built-in picture where they are not what they should be.

    Parameters
    ----------
    name : str
        Of the backbone, for the message.
    found, expected : ndarray
        Features, equally many.
    tolerance : float
        Largest distance, as a share of the length of ``expected``.
    """
    gap = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    if not gap <= tolerance:
        raise BackboneError(
            f"The backbone {name} does not work on this machine: on a built-in picture its features are "
            f"{gap:.1e} of their length away from what they should be, and {tolerance:.0e} is allowed. Nothing was "
            "computed. Install onnxruntime, torch and pillow again, or try another --device."
        )


def built_in_picture() -> Image.Image:
    """Coloured waves of all lengths: exact in integers, hence the same everywhere."""
    y, x = np.mgrid[:_SIDE, :_SIDE]
    channels = (x * y // 64, (x * x + y * y) // 256, (x - y) ** 2 // 128)
    return Image.fromarray(np.stack([channel % 256 for channel in channels], axis=2).astype(np.uint8))


def reference_features(name: str, size: int) -> Array | None:
    """``(1280,)``: what a network gives for the built-in picture at that size, if the package says.

    Parameters
    ----------
    name : str
        Of the network.
    size : int
        Height and width of its input in pixels.
    """
    return _references()[_REFERENCES.index((name, size))] if (name, size) in _REFERENCES else None


@cache
def _references() -> Array:
    content = files("gddsg.backbones").joinpath("reference_features.f4").read_bytes()
    return np.frombuffer(content, dtype="<f4").reshape(len(_REFERENCES), -1)
