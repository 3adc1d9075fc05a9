"""A model as an ONNX network that runs without this library: from features, or from photos, to probabilities."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from gddsg.backbones.base import Backbone, Preprocess
from gddsg.backbones.efficientnet_lite import EfficientNetLite
from gddsg.backbones.names import EMBEDDED, split_name
from gddsg.core.model import Model
from gddsg.core.network import PredictionNetwork
from gddsg.errors import InputError, ModelFileError
from gddsg.files import replace_file
from gddsg.onnx_runtime import onnx_bytes, open_session

LARGEST_GAP = 1e-5
LARGEST_PHOTO_GAP = 1e-4
"""Of probabilities from photos: the backbone rounds otherwise in another network, and square roots enlarge that."""

_LARGEST_PROTOBUF = 2_000_000_000
_PROBES = 64
_PHOTO_PROBES = 6


def export_onnx(model: Model, path: str | PathLike[str]) -> float:
    """Write ``features (n, n_features) float32 → probabilities (n, n_classes) float64`` as an ONNX file.

    The names of the classes are in the file's metadata, ``classes``, as JSON. The network is run in ONNX Runtime before
    anything is written.

    Parameters
    ----------
    model : Model
        That has learnt something; of a :class:`gddsg.GDDSG` it is ``model_``.
    path : str or path-like
        Of the ONNX file.

    Returns
    -------
    gap : float
        Largest difference between the network's probabilities and the model's.
    """
    network = prediction_network(model)
    _refuse_large(network)
    probe = torch.zeros(2, model.feature_dim or 0)
    content = onnx_bytes(network, probe, ("features", "probabilities"), _metadata(model), batches=True)
    return _write(path, content, _largest_gap(content, model), LARGEST_GAP)


def export_photo_onnx(model: Model, backbone: Backbone, path: str | PathLike[str]) -> float:
    """Write ``images (n, height, width, 3) uint8 → probabilities (n, n_classes) float64``, the backbone included.

    Images are RGB, cut and resized to the backbone's size, as :class:`PIL.ImageOps.fit` does it with a bleed of half of
    what the backbone does not use. The metadata hold the names of the ``classes`` as JSON, and that ``bleed``.

    Parameters
    ----------
    model : Model
        That has learnt photos.
    backbone : Backbone
        The embedded one that the model was learnt with.
    path : str or path-like
        Of the ONNX file.

    Returns
    -------
    gap : float
        Largest difference between the network's probabilities and the model's.
    """
    check_photo_export(backbone.name)
    if not isinstance(backbone, EfficientNetLite):
        raise _not_exportable(backbone.name)
    if model.settings.backbone != backbone.identity:
        raise InputError(f"The model was learnt with {model.settings.backbone}, and {backbone.identity} was given.")
    preprocess = backbone.preprocess
    network = PhotoNetwork(backbone.module(), prediction_network(model), preprocess).eval()
    _refuse_large(network)
    metadata = _metadata(model) | {"bleed": str((1 - preprocess.crop) / 2), "backbone": backbone.identity}
    probe = torch.zeros(2, *preprocess.size, 3, dtype=torch.uint8)
    content = onnx_bytes(network, probe, ("images", "probabilities"), metadata, batches=True)
    return _write(path, content, _largest_photo_gap(content, model, backbone), LARGEST_PHOTO_GAP)


def check_photo_export(name: str) -> None:
    """Refuse a backbone that cannot be part of an ONNX file, before it is loaded.

    Parameters
    ----------
    name : str
        Of the backbone.
    """
    parts = split_name(name)
    if len(parts) > 1 or parts[0].network not in EMBEDDED:
        raise _not_exportable(name)


def _not_exportable(name: str) -> InputError:
    return InputError(
        f"The backbone {name} cannot be exported together with the model; only one of {', '.join(EMBEDDED)} can. "
        "Export the model alone, from features to probabilities, and make the features as you do now."
    )


class PhotoNetwork(nn.Module):
    """Images ``(n, height, width, 3)`` uint8 to probabilities: normalised, embedded, judged.

    Parameters
    ----------
    backbone : nn.Module
        From normalised images to features.
    prediction : PredictionNetwork
        From features to probabilities.
    preprocess : Preprocess
        How the backbone wants its images to be normalised.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, backbone: nn.Module, prediction: PredictionNetwork, preprocess: Preprocess) -> None:
        super().__init__()
        self._backbone, self._prediction = backbone, prediction
        self.register_buffer("mean", torch.tensor(preprocess.mean)[:, None, None])
        self.register_buffer("deviation", torch.tensor(preprocess.deviation)[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        """Probabilities ``(n, n_classes)`` float64."""
        pixels = images.permute(0, 3, 1, 2).float() / 255
        probabilities: Tensor = self._prediction(self._backbone((pixels - self.mean) / self.deviation))
        return probabilities


def _metadata(model: Model) -> dict[str, str]:
    return {"classes": json.dumps(model.labels, ensure_ascii=False)}


def _refuse_large(network: nn.Module) -> None:
    size = sum(array.nbytes for array in (*network.buffers(), *network.parameters()))
    if size > _LARGEST_PROTOBUF:
        raise InputError(f"The network would take {size / 1e9:.1f} GB; an ONNX file holds 2. Learn with a lower rank.")


def _write(path: str | PathLike[str], content: bytes, gap: float, allowed: float) -> float:
    if not gap <= allowed:
        raise InputError(f"The exported network differs from the model by {gap:.1e}; nothing was written.")
    try:
        replace_file(Path(path), content)
    except OSError as error:
        raise ModelFileError(f"Cannot write {path} ({error.strerror}). Choose a folder you may write to.") from error
    return gap


def prediction_network(model: Model) -> PredictionNetwork:
    """A model's predictor as one torch network: features ``(n, n_features)`` float32 to probabilities.

    Parameters
    ----------
    model : Model
        One that identifies groups by evidence.
    """
    if model.feature_dim is None:
        raise InputError("This model has learnt no class, so there is nothing to export. Learn some first.")
    if model.settings.identification != "evidence":
        raise InputError(
            f"identification={model.settings.identification!r} cannot be exported; only 'evidence' is a network."
        )
    if model.derived.large:
        raise InputError(
            f"This model has {len(model.cards)} classes, whose cards stay in its file; an ONNX file would have to hold "
            "them all. Export a model of fewer."
        )
    return PredictionNetwork(model.predictor).eval()


def _largest_gap(content: bytes, model: Model) -> float:
    """On samples near the classes, between them and far from all of them."""
    rng = np.random.default_rng(0)
    centres = np.stack([card.centroid.numpy() for card in model.cards.values()])
    picked = centres[rng.integers(len(centres), size=(_PROBES, 2))]
    share = rng.random((_PROBES, 1))
    between = share * picked[:, 0] + (1 - share) * picked[:, 1]
    noise = rng.standard_normal(between.shape) * centres.std() * rng.choice([0.01, 0.3, 3.0], (_PROBES, 1))
    probes = np.abs(between + noise) if (centres >= 0).all() else between + noise
    session = open_session(content)
    probes = probes.astype(np.float32)
    found = session.run(None, {"features": probes})[0]
    return float(np.abs(found - np.exp(model.predictor.predict_log_proba(probes))).max())


def _largest_photo_gap(content: bytes, model: Model, backbone: EfficientNetLite) -> float:
    """On pictures of spots, from fine to coarse."""
    preprocess = backbone.preprocess
    images = np.stack([_spots(preprocess.size, 3 + 4 * i, i) for i in range(_PHOTO_PROBES)])
    mean, deviation = (np.array(part)[:, None, None] for part in (preprocess.mean, preprocess.deviation))
    pixels = np.asarray((images.transpose(0, 3, 1, 2) / 255 - mean) / deviation, dtype=np.float32)
    expected = np.exp(model.predictor.predict_log_proba(backbone.embed(pixels)))
    session = open_session(content)
    found = np.concatenate([session.run(None, {"images": image[None]})[0] for image in images])
    return float(np.abs(found - expected).max())


def _spots(size: tuple[int, int], number: int, seed: int) -> NDArray[np.uint8]:
    """A picture ``(height, width, 3)`` of coloured spots, as many as ``number`` in a row."""
    coarse = np.random.default_rng(seed).integers(0, 256, (number, number, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize(size[::-1], Image.Resampling.BICUBIC))
