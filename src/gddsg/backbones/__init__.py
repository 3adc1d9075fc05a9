"""Backbones: frozen networks that turn images into features.

>>> from gddsg.backbones import load_backbone
>>> backbone = load_backbone("efficientnet-lite0")  # doctest: +SKIP
>>> backbone.embed(backbone.preprocess(image)[None]).shape  # doctest: +SKIP
(1, 1280)
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gddsg.backbones.base import Backbone, Preprocess
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.backbones.folders import with_whole_path
from gddsg.backbones.names import (
    EMBEDDED,
    HYBRID,
    LONGEST_NAME,
    PRESETS,
    SOURCES,
    PartName,
    can_be_kept,
    resolve_name,
    spell_out,
    split_name,
)
from gddsg.backbones.private_folder import cache_folder
from gddsg.backbones.side_by_side import SideBySide
from gddsg.errors import BackboneError

DEFAULT_BACKBONE = "efficientnet-lite0"

__all__ = [
    "DEFAULT_BACKBONE",
    "EMBEDDED",
    "HYBRID",
    "PRESETS",
    "SOURCES",
    "Backbone",
    "FeatureCache",
    "Preprocess",
    "best_device",
    "cache_folder",
    "load_backbone",
    "require_device",
    "resolve_name",
    "spell_out",
]

# of NVIDIA on Linux, inside Windows and on Windows itself, and of AMD
_DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "C:/Windows/System32/nvcuda.dll", "/dev/kfd")
_ONLY_WEIGHTS = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def load_backbone(name: str = DEFAULT_BACKBONE, device: str | None = None, folder: Path | None = None) -> Backbone:
    """The backbone of that name.

    Parameters
    ----------
    name : str
        ``efficientnet-lite0`` (embedded), ``-lite1``, ``-lite2``; ``hybrid-vit``, a compact transformer on top of the
        first, or another such from a folder, ``hf:FOLDER``; ``hf:NAME`` or ``hf:FOLDER``, which is called by its
        whole path from then on; ``timm:NAME``; or a preset, ``vit-b16``, ``resnet50``, ``resnet18``. With ``@288``
        after it images come in that many pixels instead of the network's own number; with ``/layers4`` after that an
        image's features are the pooled outputs of the last four layers in a row, the usual ones at the end; timm models
        know neither. Several such names with ``+`` between them give the features of all, side by side.
    device : str or None
        Torch device; a GPU if there is one, unless named.
    folder : Path or None
        Where exported networks are kept; the user's cache folder unless named.
    """
    parts = split_name(_placed(resolve_name(name)))
    if device is None:
        device = best_device()
    else:
        require_device(device)
    _require_installed(parts)  # before one of them is loaded in vain
    loaded = [_load_part(part, device, folder or cache_folder()) for part in parts]
    return loaded[0] if len(loaded) == 1 else SideBySide(loaded)


def _require_installed(parts: Sequence[PartName]) -> None:
    from gddsg.backbones.efficientnet_lite import require_installed

    for part in parts:
        if part.network == HYBRID:
            from gddsg.backbones.hybrid_vit import require_published_weights

            require_published_weights()
        elif not part.source:
            require_installed(part.network)


def _load_part(part: PartName, device: str, folder: Path) -> Backbone:
    # backbones are imported when they are needed, since each brings a large library along
    if part.source:
        return _load_from_outside(part, device, folder)
    if part.network == HYBRID:
        return _load_hybrid(part, device, folder)
    from gddsg.backbones.efficientnet_lite import EfficientNetLite

    return EfficientNetLite(part.network, device, folder, part.layers, part.size)


def _placed(name: str) -> str:
    """The name with the whole paths of its folders, if it means any; a model file has to be able to keep it."""
    whole = with_whole_path(name)
    if whole != name and not can_be_kept(whole):
        raise BackboneError(
            f"The folder of the backbone {name} has the path {whole[:LONGEST_NAME]!r}, which no model can keep. "
            f"Expected printable characters, {LONGEST_NAME} at most: rename the folder, or put it elsewhere."
        )
    return whole


def _load_hybrid(part: PartName, device: str, folder: Path, source: Path | None = None) -> Backbone:
    from gddsg.backbones.hybrid_vit import HybridViT, require_own_size

    require_own_size(part)
    _forbid_telemetry()
    return HybridViT(part.network, device, folder, source)


def _load_from_outside(part: PartName, device: str, folder: Path) -> Backbone:
    name = part.network.partition(":")[2]
    if part.source == "timm" and part != PartName(part.network):
        raise BackboneError(
            f"{part.network} gives its last layer alone, at its own size. Write {part.network}, or use hf:NAME."
        )
    _forbid_telemetry()
    with _only_weights():
        if part.source == "hf":
            from gddsg.backbones.hybrid_vit import is_hybrid

            if is_hybrid(name):
                return _load_hybrid(part, device, folder, Path(name))
            from gddsg.backbones.huggingface import HuggingFaceBackbone

            return HuggingFaceBackbone(name, device, part.layers, part.size)
        from gddsg.backbones.timm_models import TimmBackbone

        return TimmBackbone(name, device)


def _forbid_telemetry() -> None:
    if not os.environ.get("HF_HUB_DISABLE_TELEMETRY"):  # who has set it himself has decided for himself
        os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"  # read when the hub's library is imported


@contextlib.contextmanager
def _only_weights() -> Iterator[None]:
    """Meanwhile torch unpickles tensors and nothing else, whatever a library asks of it."""
    before = os.environ.get(_ONLY_WEIGHTS)
    os.environ[_ONLY_WEIGHTS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_ONLY_WEIGHTS]
        else:
            os.environ[_ONLY_WEIGHTS] = before


def require_device(device: str) -> None:
    """Refuse a device that torch cannot compute on.

    Parameters
    ----------
    device : str
        Torch device, such as ``"cuda"``.
    """
    import torch

    try:
        torch.ones(1, device=device).add(1).item()
    except Exception as error:  # every kind of device fails in its own way
        raise BackboneError(
            f"The device {device!r} was asked for, but torch finds no such device here. "
            f"Leave the device out, or name another: {', '.join(_devices())}."
        ) from error


def best_device() -> str:
    """A GPU if there is one, otherwise the CPU."""
    return _devices()[-1] if _may_have_gpu() else "cpu"


def _may_have_gpu() -> bool:
    """Whether there is any sign of a GPU: torch knows better, and takes seconds to be asked."""
    return "torch" in sys.modules or any(Path(driver).exists() for driver in _DRIVERS)


def _devices() -> list[str]:
    try:
        import torch
    except ImportError:  # a light installation, whatever the machine has
        return ["cpu"]
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
