"""A model as an ONNX network that runs without this library."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path

import numpy as np
import torch

from gddsg.core.model import Model
from gddsg.core.network import PredictionNetwork
from gddsg.errors import InputError, ModelFileError
from gddsg.files import replace_file
from gddsg.onnx_runtime import onnx_bytes, open_session

LARGEST_GAP = 1e-5
_LARGEST_PROTOBUF = 2_000_000_000
_PROBES = 64


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
    if model.feature_dim is None:
        raise InputError("This model has learnt no class, so there is nothing to export. Learn some first.")
    network = prediction_network(model)
    size = sum(buffer.nbytes for buffer in network.buffers())
    if size > _LARGEST_PROTOBUF:
        raise InputError(f"The network would take {size / 1e9:.1f} GB; an ONNX file holds 2. Learn with a lower rank.")
    metadata = {"classes": json.dumps(model.labels, ensure_ascii=False)}
    probe = torch.zeros(2, model.feature_dim)
    content = onnx_bytes(network, probe, ("features", "probabilities"), metadata, batches=True)
    gap = _largest_gap(content, model)
    if not gap <= LARGEST_GAP:
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
    if model.settings.identification != "evidence":
        raise InputError(
            f"identification={model.settings.identification!r} cannot be exported; only 'evidence' is a network."
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
