"""Backbones: frozen networks that turn images into features.

>>> from gddsg.backbones import load_backbone
>>> backbone = load_backbone("efficientnet-lite0")  # doctest: +SKIP
>>> backbone.embed(backbone.preprocess(image)[None]).shape  # doctest: +SKIP
(1, 1280)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from gddsg.backbones.base import Backbone, Preprocess
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.backbones.folders import with_whole_path
from gddsg.backbones.layers import split_layers, with_layers
from gddsg.backbones.private_folder import cache_folder
from gddsg.errors import BackboneError

DEFAULT_BACKBONE = "efficientnet-lite0"

EMBEDDED = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2")
"""Those whose weights this package knows byte for byte; all others are whatever is found under their name."""

PRESETS = {
    "vit-b16": "hf:google/vit-base-patch16-224-in21k",
    "resnet50": "hf:microsoft/resnet-50",
    "resnet18": "hf:microsoft/resnet-18",
}
"""The paper's three backbones under short names."""

SOURCES = ("hf", "timm")
"""What comes before the colon in names of backbones from outside."""

__all__ = [
    "DEFAULT_BACKBONE",
    "EMBEDDED",
    "PRESETS",
    "SOURCES",
    "Backbone",
    "FeatureCache",
    "Preprocess",
    "cache_folder",
    "load_backbone",
    "require_device",
    "resolve_name",
    "spell_out",
]

_LONGEST_NAME = 1000
_ONLY_WEIGHTS = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def load_backbone(name: str = DEFAULT_BACKBONE, device: str | None = None, folder: Path | None = None) -> Backbone:
    """The backbone of that name.

    Parameters
    ----------
    name : str
        ``efficientnet-lite0`` (embedded), ``-lite1``, ``-lite2``; ``hf:NAME`` or ``hf:FOLDER``, which is called by its
        whole path from then on; ``timm:NAME``; or a preset, ``vit-b16``, ``resnet50``, ``resnet18``. With ``/layers4``
        after it, and so on for other numbers, an image's features are the pooled outputs of the last four layers in a
        row, the usual ones at the end; timm models give the last alone.
    device : str or None
        Torch device; a GPU if there is one, unless named.
    folder : Path or None
        Where exported networks are kept; the user's cache folder unless named.
    """
    network, layers = split_layers(_placed(resolve_name(name)))
    kind, _, rest = network.partition(":")
    if device is None:
        device = _best_device()
    else:
        require_device(device)
    # backbones are imported when they are needed, since each brings a large library along
    if kind in SOURCES:
        return _load_from_outside(kind, rest, device, layers)
    from gddsg.backbones.efficientnet_lite import EfficientNetLite

    return EfficientNetLite(kind, device, folder or cache_folder(), layers)


def _placed(name: str) -> str:
    """The name with the whole path of its folder, if it means one; a model file has to be able to keep it."""
    whole = with_whole_path(name)
    if whole != name and not _can_be_kept(whole):
        raise BackboneError(
            f"The folder of the backbone {name} has the path {whole[:_LONGEST_NAME]!r}, which no model can keep. "
            f"Expected printable characters, {_LONGEST_NAME} at most: rename the folder, or put it elsewhere."
        )
    return whole


def _load_from_outside(source: str, name: str, device: str, layers: int) -> Backbone:
    if source == "timm" and layers > 1:
        raise BackboneError(f"timm:{name} gives its last layer alone. Leave /layers{layers} out, or use hf:NAME.")
    if not os.environ.get("HF_HUB_DISABLE_TELEMETRY"):  # who has set it himself has decided for himself
        os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"  # read when the hub's library is imported
    with _only_weights():
        if source == "hf":
            from gddsg.backbones.huggingface import HuggingFaceBackbone

            return HuggingFaceBackbone(name, device, layers)
        from gddsg.backbones.timm_models import TimmBackbone

        return TimmBackbone(name, device)


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


def resolve_name(name: str) -> str:
    """The name in full: presets spelt out; what cannot be the name of a backbone is an error. Nothing is looked up.

    Parameters
    ----------
    name : str
        As for :func:`load_backbone`.
    """
    full = spell_out(name)
    network, _ = split_layers(full)
    source, _, rest = network.partition(":")
    if network in EMBEDDED or (source in SOURCES and rest and _can_be_kept(full)):
        return full
    known = ", ".join([*EMBEDDED, *PRESETS])
    raise BackboneError(
        f"There is no backbone {name[:_LONGEST_NAME]!r}. Choose one of {known}, or hf:NAME, hf:FOLDER, timm:NAME; "
        "for the last four layers of one, say, put /layers4 behind its name."
    )


def _can_be_kept(name: str) -> bool:
    return name.isprintable() and len(name) <= _LONGEST_NAME


def spell_out(name: str) -> str:
    """The name with presets spelt out and layers written in one way, whether or not there is such a backbone.

    Parameters
    ----------
    name : str
        As for :func:`load_backbone`.

    Examples
    --------
    >>> spell_out("resnet18/layers03"), spell_out("efficientnet-lite0/layers1")
    ('hf:microsoft/resnet-18/layers3', 'efficientnet-lite0')
    """
    network, layers = split_layers(name)
    return with_layers(PRESETS.get(network, network), layers)


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


def _best_device() -> str:
    return _devices()[-1]


def _devices() -> list[str]:
    import torch

    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
