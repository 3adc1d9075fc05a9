"""Backbones: frozen networks that turn images into features.

>>> from gddsg.backbones import load_backbone
>>> backbone = load_backbone("efficientnet-lite0")  # doctest: +SKIP
>>> backbone.embed(backbone.preprocess(image)[None]).shape  # doctest: +SKIP
(1, 1280)
"""

from __future__ import annotations

from pathlib import Path

from gddsg.backbones.base import Backbone, Preprocess
from gddsg.backbones.feature_cache import FeatureCache, cache_folder
from gddsg.errors import BackboneError

DEFAULT_BACKBONE = "efficientnet-lite0"

PRESETS = {
    "vit-b16": "hf:google/vit-base-patch16-224-in21k",
    "resnet50": "hf:microsoft/resnet-50",
    "resnet18": "hf:microsoft/resnet-18",
}
"""The paper's three backbones under short names."""

__all__ = ["DEFAULT_BACKBONE", "PRESETS", "Backbone", "FeatureCache", "Preprocess", "cache_folder", "load_backbone"]


def load_backbone(name: str = DEFAULT_BACKBONE, device: str | None = None, folder: Path | None = None) -> Backbone:
    """The backbone of that name.

    Parameters
    ----------
    name : str
        ``efficientnet-lite0`` (embedded), ``-lite1``, ``-lite2``; ``hf:NAME`` or ``hf:FOLDER``; ``timm:NAME``; or a
        preset, ``vit-b16``, ``resnet50``, ``resnet18``.
    device : str or None
        Torch device; a GPU if there is one, unless named.
    folder : Path or None
        Where exported networks are kept; the user's cache folder unless named.
    """
    # backbones are imported when they are needed, since each brings a large library along
    from gddsg.backbones.efficientnet_lite import IMAGE_SIZES, EfficientNetLite

    kind, _, rest = PRESETS.get(name, name).partition(":")
    device = device or _best_device()
    if kind in IMAGE_SIZES and not rest:
        return EfficientNetLite(kind, device, folder or cache_folder())
    if kind == "hf" and rest:
        from gddsg.backbones.huggingface import HuggingFaceBackbone

        return HuggingFaceBackbone(rest, device)
    if kind == "timm" and rest:
        from gddsg.backbones.timm_models import TimmBackbone

        return TimmBackbone(rest, device)
    known = ", ".join([*IMAGE_SIZES, *PRESETS])
    raise BackboneError(f"There is no backbone {name!r}. Choose one of {known}, or hf:NAME, hf:FOLDER, timm:NAME.")


def _best_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
