"""A model to try the service on: digits and small letters in many typefaces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from gddsg.backbones import load_backbone
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.core.model import Model, Settings
from gddsg.data.glyphs import GLYPHS, glyphs
from gddsg.photos.embedding import embed_photos
from gddsg.photos.threads import Progress
from gddsg.serve.journal import Journal, journal_path
from gddsg.serve.uploads import thumbnail
from gddsg.store import SharedModel

_PHOTOS = 16  # of a class: those of gddsg demo, whose features are in the cache once it has run
_PICTURES = 6
_CLASSES = [label for label in GLYPHS if label.startswith(("digit", "small"))]  # all would keep people waiting


def write_demonstration(path: Path, progress: Progress | None = None) -> SharedModel:
    """Write a model of some of the built-in glyphs, and small pictures of some of them beside it.

    Parameters
    ----------
    path : Path
        Of the model file.
    progress : callable or None
        Told how far the work is.

    Returns
    -------
    SharedModel
        The file, with what was derived of the model: who serves it need not do that again.
    """
    photos, _ = glyphs(n_train=_PHOTOS, n_test=0, seed=0, classes=_CLASSES)
    backbone = load_backbone(device="cpu")
    with FeatureCache() as cache:
        embedded = embed_photos(photos, backbone, cache, progress)
    model = Model(Settings(backbone=backbone.identity))
    labels = [photo.label for photo in embedded.photos]
    samples = np.array(embedded.samples, dtype=np.uint64)
    cards = model.make_cards(torch.from_numpy(embedded.features), labels, samples)
    file = SharedModel(path)
    file.change(lambda _: model.plus(cards))
    journal = Journal(journal_path(path))
    shown = [row for row in range(len(labels)) if labels[row - _PICTURES : row].count(labels[row]) < _PICTURES]
    journal.add_thumbnails({embedded.samples[row]: thumbnail(embedded.photos[row]) for row in shown})
    journal.close()
    return file
