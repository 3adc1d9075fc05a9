"""EfficientNet-Lite0 up to its last block, as the frozen stem of a hybrid ViT: images to maps.

On a CPU it runs in ONNX Runtime, on a GPU in torch, as the whole network does. Whatever runs it has to show, on the
built-in picture, that its map leads to the features that the whole network is known to give.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gddsg.backbones.base import Array, available_cores
from gddsg.backbones.efficientnet_lite import WEIGHTS, features_module, preprocess_for, read_weights
from gddsg.backbones.efficientnet_lite_network import EfficientNetLiteNetwork, LastMap
from gddsg.backbones.kept_network import kept_session
from gddsg.backbones.names import EMBEDDED
from gddsg.backbones.self_test import (
    GPU_TOLERANCE,
    TOLERANCE,
    built_in_picture,
    reference_features,
    require_close,
)
from gddsg.onnx_runtime import onnx_bytes

STEM = "efficientnet-lite0"
"""The network that it is a part of."""

STEM_PIXELS = EMBEDDED[STEM]
"""Height and width of its images."""

MAP_CHANNELS, MAP_SIDE = 320, 7
"""Shape of its maps at that size."""

_AT_ONCE = 64


class Stem:
    """Preprocessed images ``(n, 3, 224, 224)`` to maps ``(n, 320, 7, 7)``, both tensors on the CPU.

    A map does not depend, not even in its last bits, on the other images of the batch where it runs on a CPU.

    Parameters
    ----------
    device : str
        ``"cpu"`` or a torch device such as ``"cuda"``.
    cache_folder : Path
        Where the network is kept in ONNX format, once exported.

    Attributes
    ----------
    weights : bytes
        The published weights file.
    preprocess : Preprocess
        How an image becomes its input.
    network : EfficientNetLiteNetwork
        All of it, on the CPU, for what comes behind the map: features and logits.
    """

    def __init__(self, device: str, cache_folder: Path) -> None:
        self.weights = read_weights(STEM)
        self.preprocess = preprocess_for(STEM, STEM_PIXELS)
        self.network: EfficientNetLiteNetwork = features_module(STEM, self.weights)
        self._maps: Callable[[Array], Array]
        if device == "cpu":
            kept_session(cache_folder, f"{STEM}-last-map-{WEIGHTS[STEM][:16]}", self._exported, self._take_session)
        else:
            self._maps = _torch_maps(features_module(STEM, self.weights), device)
            self._prove_itself(GPU_TOLERANCE)

    def __call__(self, images: Tensor) -> Tensor:
        """Maps of images, by all cores or the GPU."""
        pixels = images.numpy()
        parts = [pixels[start : start + _AT_ONCE] for start in range(0, len(pixels), _AT_ONCE)]
        empty = np.empty((0, MAP_CHANNELS, MAP_SIDE, MAP_SIDE), dtype=np.float32)
        return torch.from_numpy(np.concatenate([empty, *(self._maps(part) for part in parts)]))

    def _take_session(self, session: Any) -> None:
        def of_one(image: Array) -> Array:
            found: Array = session.run(["maps"], {"images": image[None]})[0]
            return found

        def maps(images: Array) -> Array:
            if len(images) == 1:
                return of_one(images[0])
            # the session has one thread: each of ours is busy with an image of its own
            with ThreadPoolExecutor(available_cores()) as threads:
                return np.concatenate(list(threads.map(of_one, images)))

        self._maps = maps
        self._prove_itself(TOLERANCE)

    def _prove_itself(self, tolerance: float) -> None:
        expected = reference_features(STEM, STEM_PIXELS)
        assert expected is not None  # the package has them at the network's own size
        with torch.inference_mode():
            found = self.network.pooled(self(torch.from_numpy(self.preprocess(built_in_picture())[None])))
        require_close(f"{STEM} up to its last block", found[0].numpy(), expected, tolerance)

    def _exported(self) -> bytes:
        """In ONNX format for one image (some seconds)."""
        example = torch.zeros(1, 3, STEM_PIXELS, STEM_PIXELS)
        return onnx_bytes(LastMap(self.network).eval(), example, ("images", "maps"), batches=False)


def _torch_maps(network: EfficientNetLiteNetwork, device: str) -> Callable[[Array], Array]:
    network.to(device)

    def maps(images: Array) -> Array:
        with torch.inference_mode():
            found = network.last_map(torch.from_numpy(images).to(device))
        return np.asarray(found.cpu().numpy(), dtype=np.float32)

    return maps
