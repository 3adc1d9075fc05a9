"""Vision models of Hugging Face: ViT, DINOv2, CLIP, ResNet and their like, from the hub or from a folder.

Code that comes with a model is never run. What has been downloaded before is used without asking the hub again.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gddsg.backbones.base import Array, Backbone, Preprocess, Trainable, fingerprint, images_at_once
from gddsg.backbones.layers import layers_mark, require_layers
from gddsg.backbones.names import PartName
from gddsg.errors import BackboneError, MissingExtraError

_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_HUB_SECONDS = 10
_LARGEST_SIDE = 4096
_POSITIONS = "interpolate_pos_encoding"  # what transformers call it
_NO_PREPROCESS = "The backbone hf:{} has a preprocessor_config.json that makes no sense"


class HuggingFaceBackbone(Backbone):
    """A frozen vision model; its features are the class token, or the pooled map of a network that has none.

    Parameters
    ----------
    source : str
        Name on the hub such as ``google/vit-base-patch16-224-in21k``, or a folder with ``config.json``,
        ``preprocessor_config.json`` and the weights.
    device : str
        Torch device.
    layers : int
        How many of the last layers to give, side by side and the usual features last: blocks of a transformer, stages
        of a convolutional network.
    size : int or None
        Height and width of the images it takes, in pixels; its own unless given.
    """

    preprocess: Preprocess

    def __init__(self, source: str, device: str, layers: int = 1, size: int | None = None) -> None:
        settings, self._model, weights = _load(source)
        self._part = PartName(f"hf:{source}", size, layers)
        self.name = str(self._part)
        self.preprocess = preprocess = _resized(_checked_preprocess(source, settings), self._part)
        self.fingerprint = fingerprint(preprocess, chain(weights, layers_mark(layers)))
        self.batch_size = 1 if device == "cpu" else images_at_once(preprocess)
        self._device = device
        self._model.to(device).eval()
        self._options = self._chosen_options()
        self.feature_dim = self._embed_nothing().shape[1]

    def embed(self, images: Array) -> Array:
        """Features ``(n, feature_dim)`` of preprocessed images ``(n, 3, height, width)``."""
        import torch

        # on a CPU one at a time, so that features do not depend, in their last bits, on the neighbours in a batch
        with torch.inference_mode():
            parts = torch.from_numpy(images).to(self._device).split(self.batch_size)
            features = torch.cat([self._features(part) for part in parts])
        return np.asarray(features.float().cpu().numpy(), dtype=np.float32)

    def trainable(self) -> Trainable:
        """The model itself, at its own size."""
        if self._part.size is not None or self._part.layers > 1:
            return super().trainable()
        return Trainable(self._model, self.preprocess, self._device)

    def _features(self, images: Any) -> Any:
        import torch

        found = self._found(images)
        last = self._last(found)
        return last if self._part.layers == 1 else torch.cat([*self._earlier(found), last], dim=1)

    def _found(self, images: Any) -> Any:
        if hasattr(self._model, "get_image_features"):  # CLIP and the like: the image tower
            return self._model.get_image_features(pixel_values=images, **self._options)
        return self._model(pixel_values=images, **self._options)

    def _chosen_options(self) -> dict[str, bool]:
        """What to ask of the model: all layers, and to place its patches in images of another size."""
        asked = getattr(self._model, "get_image_features", self._model.forward)
        options = {"output_hidden_states": True} if self._part.layers > 1 else {}
        if self._part.size is not None and _POSITIONS in inspect.signature(asked).parameters:
            options[_POSITIONS] = True
        return options

    def _embed_nothing(self) -> Array:
        """Features of an image of zeros, which not every model gives at another size than its own."""
        try:
            return self.embed(np.zeros((1, *self.preprocess.shape), dtype=np.float32))
        except BackboneError:
            raise
        except Exception as error:  # every model fails in its own way
            if self._part.size is None:
                raise
            raise BackboneError(
                f"{self._part.network} cannot take images of {self._part.size} pixels ({first_line(error)}). "
                f"Leave @{self._part.size} out."
            ) from error

    def _last(self, found: Any) -> Any:
        if hasattr(self._model, "get_image_features"):
            return getattr(found, "pooler_output", found)
        if _has_parameter(self._model, "cls_token"):
            return found.last_hidden_state[:, 0]
        if getattr(found, "pooler_output", None) is not None:
            return found.pooler_output.flatten(1)
        return _mean(found.last_hidden_state)

    def _earlier(self, found: Any) -> list[Any]:
        """What the layers before the last give, each by its class token or its mean."""
        states = getattr(found, "hidden_states", None) or ()
        require_layers(self._part, max(len(states) - 1, 1))  # the first is what goes in
        has_token = _has_parameter(self._model, "cls_token", "class_embedding")
        return [state[:, 0] if has_token else _mean(state) for state in states[-self._part.layers : -1]]


def _has_parameter(model: Any, *ends: str) -> bool:
    return any(name.endswith(ends) for name, _ in model.named_parameters())


def _mean(hidden: Any) -> Any:
    """``(n, width)`` of tokens ``(n, tokens, width)`` or of maps ``(n, width, height, width)``."""
    return hidden.mean(1) if hidden.ndim == 3 else hidden.mean((2, 3))


def _load(source: str) -> tuple[dict[str, Any], Any, Iterator[bytes]]:
    """Preprocessor settings, model, and the weights it was given, as bytes."""
    _import_transformers()
    if not Path(source).is_dir() and not _HUB_NAME.fullmatch(source):
        raise BackboneError(
            f"The backbone hf:{source} could not be loaded: there is no such folder, and it cannot be a name on the "
            "hub, which was not asked. If the folder has moved, name it where it is now: --backbone hf:FOLDER."
        )
    try:
        settings, model, report = _read_or_download(source)
    except Exception as error:  # a folder or a hub may hold anything, and reading it fail in any way
        raise BackboneError(
            f"The backbone hf:{source} could not be loaded ({first_line(error)}). If the hub is out of reach, use "
            "the embedded default (efficientnet-lite0), or name the folder that the model is in: --backbone hf:FOLDER."
        ) from error
    return settings, model, _weights(model, set(report["missing_keys"]))


def _import_transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError(
            "Hugging Face backbones need transformers. Install it with: pip install 'gddsg[hf]'"
        ) from error
    for library in ("transformers", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.ERROR)
    return transformers


@contextlib.contextmanager
def quiet_transformers() -> Iterator[Any]:
    """The library, which meanwhile draws no bar and says nothing but errors; an error where it is not installed."""
    transformers = _import_transformers()
    with _without_bar():
        yield transformers


def _read_or_download(source: str) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    try:
        with _without_bar():
            return _read(source, download=False)
    except OSError:
        if Path(source).is_dir():
            raise
        _require_hub()
        return _read(source, download=True)


@contextlib.contextmanager
def _without_bar() -> Iterator[None]:
    """Meanwhile no bar is drawn: what is on the disk is there in a moment. Downloads keep theirs."""
    from transformers.utils import logging

    bars: Any = logging
    before = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if before:
            bars.enable_progress_bar()


def _read(source: str, *, download: bool) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Preprocessor settings, model, and a report of what was missing."""
    import transformers

    options = {"local_files_only": not download, "trust_remote_code": False}
    settings, _ = transformers.ImageProcessingMixin.get_image_processor_dict(source, **options)
    model, report = transformers.AutoModel.from_pretrained(source, output_loading_info=True, **options)
    return settings, model, report


def _require_hub() -> None:
    """Ask the hub once: the library would try for most of a minute before it says that there is no connection."""
    import huggingface_hub

    if huggingface_hub.constants.HF_HUB_OFFLINE:
        return
    place = huggingface_hub.constants.ENDPOINT
    try:
        huggingface_hub.get_session().head(place, timeout=_HUB_SECONDS)
    except Exception as error:  # every version of the library raises errors of its own
        raise ConnectionError(f"{place} cannot be reached: {first_line(error)}") from error


def _weights(model: Any, random: set[str]) -> Iterator[bytes]:
    """Names and values of all weights but those the files lacked: the latter are random and are not used."""
    for name, value in sorted(model.state_dict().items()):
        if name not in random:
            yield name.encode()
            yield value.cpu().contiguous().numpy().tobytes()


def first_line(error: Exception) -> str:
    """What an error says, in short."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def _checked_preprocess(source: str, settings: Mapping[str, Any]) -> Preprocess:
    try:
        found = preprocess_of(settings)
        usable = all(1 <= side <= _LARGEST_SIDE for side in found.size) and found.crop > 0 and all(found.deviation)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError) as error:
        raise BackboneError(f"{_NO_PREPROCESS.format(source)} ({first_line(error)}).") from error
    if not usable:
        raise BackboneError(f"{_NO_PREPROCESS.format(source)} ({found}).")
    return found


def _resized(preprocess: Preprocess, part: PartName) -> Preprocess:
    """The same for images of another size, if one is asked for."""
    if part.size is None:
        return preprocess
    if preprocess.size == (part.size, part.size):  # one backbone has one name
        raise BackboneError(f"{part.network} takes images of {part.size} pixels by itself. Leave @{part.size} out.")
    return preprocess.at(part.size)


def preprocess_of(settings: Mapping[str, Any]) -> Preprocess:
    """What ``preprocessor_config.json`` asks for."""
    size, crop, squash = _geometry(settings)
    normalise = settings.get("do_normalize", True)
    return Preprocess(
        size,
        crop,
        squash,
        _channels(settings.get("image_mean", 0.5)) if normalise else (0.0, 0.0, 0.0),
        _channels(settings.get("image_std", 0.5)) if normalise else (1.0, 1.0, 1.0),
        Image.Resampling(settings.get("resample", Image.Resampling.BICUBIC)),
    )


def _geometry(settings: Mapping[str, Any]) -> tuple[tuple[int, int], float, bool]:
    """Size, share of the image that is used, and whether the image is squashed into that size."""
    size = settings.get("size", 224)
    if "crop_pct" in settings:  # ConvNeXt's way, which ResNet uses too: no cutting at 384 pixels and above
        side = _shortest(size)
        return (side, side), float(settings["crop_pct"]) if side < 384 else 1.0, side >= 384
    if settings.get("do_center_crop") and "crop_size" in settings:
        cut = _height_width(settings["crop_size"])
        return cut, min(1.0, min(cut) / _shortest(size)), False
    return _height_width(size), 1.0, True


def _shortest(size: Any) -> int:
    return min(_height_width(size))


def _height_width(size: Any) -> tuple[int, int]:
    if isinstance(size, Mapping):
        side = size.get("shortest_edge")
        return int(size.get("height", side)), int(size.get("width", side))
    if isinstance(size, list | tuple):
        return int(size[0]), int(size[-1])
    return int(size), int(size)


def _channels(value: Any) -> tuple[float, float, float]:
    values = [float(v) for v in value] if isinstance(value, list | tuple) else [float(value)] * 3
    return values[0], values[1], values[2]
