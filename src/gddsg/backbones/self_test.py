"""A backbone proves itself on a built-in picture whenever it is loaded.

Digests show that files are whole. This shows that what runs them is: an image library, a runtime or a kernel that
computes something else would give wrong answers without a word. What the features should be is in a file of the
package, computed by torch.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
from PIL import Image

from gddsg.backbones.base import Array, Backbone
from gddsg.backbones.layers import split_layers
from gddsg.errors import BackboneError

TOLERANCE = 1e-3
"""Largest distance to the reference, as a share of its length; rounding makes some 1e-6 of it on a CPU."""

GPU_TOLERANCE = 3e-2
"""The same on other devices, which may calculate with ten bits: that makes up to 8e-3."""

_REFERENCES = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2")
_SIDE = 320


def require_right_features(backbone: Backbone, tolerance: float = TOLERANCE) -> None:
    """Refuse a backbone that does not give the features it should; of several layers, the last is looked at.

    What earlier layers give is on the way to it: where one computes something else, so does the last.

    Parameters
    ----------
    backbone : Backbone
        One of EfficientNet-Lite.
    tolerance : float
        Largest distance, as a share of the reference's length.
    """
    expected = reference_features()[_REFERENCES.index(split_layers(backbone.name)[0])]
    found = backbone.embed(backbone.preprocess(built_in_picture())[None])
    gap = np.inf
    if found.shape == (1, backbone.feature_dim):
        gap = float(np.linalg.norm(found[0, -len(expected) :] - expected) / np.linalg.norm(expected))
    if not gap <= tolerance:
        raise BackboneError(
            f"The backbone {backbone.name} does not work on this machine: on a built-in picture its features are "
            f"{gap:.1e} of their length away from what they should be, and {tolerance:.0e} is allowed. Nothing was "
            "computed. Install onnxruntime, torch and pillow again, or try another --device."
        )


def built_in_picture() -> Image.Image:
    """Coloured waves of all lengths: exact in integers, hence the same everywhere."""
    y, x = np.mgrid[:_SIDE, :_SIDE]
    channels = (x * y // 64, (x * x + y * y) // 256, (x - y) ** 2 // 128)
    return Image.fromarray(np.stack([channel % 256 for channel in channels], axis=2).astype(np.uint8))


@cache
def reference_features() -> Array:
    """``(3, 1280)``: what lite0, lite1 and lite2 give for the built-in picture."""
    content = files("gddsg.backbones").joinpath("reference_features.f4").read_bytes()
    return np.frombuffer(content, dtype="<f4").reshape(len(_REFERENCES), -1)
