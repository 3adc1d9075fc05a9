"""Models of timm, where the extra is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from gddsg.backbones.base import Array, Backbone, Preprocess, fingerprint, images_at_once
from gddsg.errors import BackboneError, MissingExtraError

_FILTERS = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


class TimmBackbone(Backbone):
    """A frozen timm model without its head.

    Parameters
    ----------
    model : str
        Name such as ``vit_base_patch16_224.augreg_in21k``.
    device : str
        Torch device.
    pretrained : bool
        Whether to load the published weights.
    """

    def __init__(self, model: str, device: str, *, pretrained: bool = True) -> None:
        self._model, settings = _load(model, pretrained)
        self.name = f"timm:{model}"
        self.preprocess = preprocess = preprocess_of(settings)
        weights = (value.cpu().numpy().tobytes() for _, value in sorted(self._model.state_dict().items()))
        self.fingerprint = fingerprint(preprocess, weights)
        self.feature_dim = int(self._model.num_features)
        self.batch_size = 1 if device == "cpu" else images_at_once(preprocess)
        self._device = device
        self._model.to(device).eval()

    def embed(self, images: Array) -> Array:
        """Features ``(n, feature_dim)`` of preprocessed images ``(n, 3, height, width)``."""
        import torch

        with torch.inference_mode():
            parts = torch.from_numpy(images).to(self._device).split(self.batch_size)
            features = torch.cat([self._model(part) for part in parts])
        return np.asarray(features.float().cpu().numpy(), dtype=np.float32)


def _load(model: str, pretrained: bool) -> tuple[Any, dict[str, Any]]:
    try:
        import timm
        import timm.data
    except (ImportError, RuntimeError) as error:  # a torchvision that does not fit torch raises the latter
        raise MissingExtraError(
            f"timm backbones need timm and torchvision ({error}). Install them with: pip install 'gddsg[timm]'"
        ) from error
    try:
        network = timm.create_model(model, pretrained=pretrained, num_classes=0)
    except Exception as error:  # what comes from a hub may be anything, and reading it fail in any way
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise BackboneError(
            f"The backbone timm:{model} could not be loaded ({first_line}). Check the name and the connection, "
            "or use the embedded default (efficientnet-lite0)."
        ) from error
    return network, timm.data.resolve_model_data_config(network)


def preprocess_of(settings: dict[str, Any]) -> Preprocess:
    """What timm's data configuration asks for."""
    _, height, width = settings["input_size"]
    return Preprocess(
        (height, width),
        crop=float(settings["crop_pct"]),
        squash=settings.get("crop_mode") == "squash",
        mean=tuple(settings["mean"]),
        deviation=tuple(settings["std"]),
        resample=_FILTERS.get(settings["interpolation"], Image.Resampling.BICUBIC),
    )
