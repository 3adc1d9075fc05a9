"""Folders of photos as feature files, for the benchmark and for programs of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from gddsg.backbones import load_backbone
from gddsg.backbones.base import Backbone
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.data import load_dataset
from gddsg.data.dataset import FeatureDataset, ImageDataset, Skipped
from gddsg.data.feature_file import check_feature_path, write_feature_file
from gddsg.errors import DataError
from gddsg.photos.embedding import EmbeddedPhotos, embed_photos
from gddsg.photos.quality import DEFAULT_QUALITY, choose_backbone
from gddsg.photos.reports import list_skipped, refuse_skipped
from gddsg.photos.threads import Progress


@dataclass(frozen=True)
class FeatureReport:
    """What is in a feature file that was written.

    Attributes
    ----------
    path : str
        Of the file.
    backbone : str
        ``name@fingerprint`` of what made the features.
    train, test : int
        Numbers of photos.
    classes : tuple of str
        Their names.
    feature_dim : int
        Length of a feature vector.
    skipped : tuple of Skipped
        Files left out, and why.
    """

    path: str
    backbone: str
    train: int
    test: int
    classes: tuple[str, ...]
    feature_dim: int
    skipped: tuple[Skipped, ...]


def write_features(
    source: str | PathLike[str],
    path: str | PathLike[str],
    backbone: Backbone | None = None,
    cache: FeatureCache | None = None,
    *,
    device: str | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> FeatureReport:
    """Embed the photos of a folder or a list and write their features; see :func:`gddsg.data.feature_file`.

    Parameters
    ----------
    source : str or path-like
        A folder with a subfolder a class, or a CSV list. Its own division into training and test is kept; else a hash
        of their names makes a fifth of the photos of each class test photos.
    path : str or path-like
        Of the feature file, which ends in ``.npz``; one that is there is replaced in one step.
    backbone : Backbone or None
        What makes the features; that which a new model of these photos would get, unless given.
    cache : FeatureCache or None
        Where features are looked up and kept.
    device : str or None
        For a backbone that is not given, see :func:`gddsg.backbones.load_backbone`.
    strict : bool
        Whether anything that has to be left out is an error; then nothing is written.
    progress : callable or None
        Told how far the work is.
    """
    check_feature_path(path)  # before the long work
    photos = load_dataset(Path(source))
    if not isinstance(photos, ImageDataset):
        raise DataError(f"{str(source)!r} holds features already; expected a folder of photos or a CSV list.")
    if backbone is None:
        backbone = load_backbone(choose_backbone(DEFAULT_QUALITY, photos.train), device)
    n, total = len(photos.train), len(photos.train) + len(photos.test)
    train = embed_photos(photos.train, backbone, cache, progress and (lambda done, _: progress(done, total)))
    test = embed_photos(photos.test, backbone, cache, progress and (lambda done, _: progress(n + done, total)))
    dataset, strangers = _join(photos.name, train, test)
    skipped = (*photos.skipped, *train.skipped, *test.skipped, *strangers)
    if strict:
        refuse_skipped(skipped, "Nothing was written, since {} files cannot be used")
    if not len(dataset.train_features) or not len(dataset.test_features):
        reasons = f" Left out were:\n{list_skipped(skipped)}" if skipped else ""
        raise DataError(
            f"{str(source)!r} has {len(dataset.train_features)} photos for training and {len(dataset.test_features)} "
            f"for the test that can be used; expected some of both, hence a class with two photos at least.{reasons}"
        )
    write_feature_file(dataset, path)
    made = dataset.train_features
    return FeatureReport(
        str(path), backbone.identity, len(made), len(dataset.test_features), dataset.classes, made.shape[1], skipped
    )


def _join(name: str, train: EmbeddedPhotos, test: EmbeddedPhotos) -> tuple[FeatureDataset, tuple[Skipped, ...]]:
    """Both parts, without test photos whose class has no training photo that can be read."""
    classes = tuple(sorted({photo.label for photo in train.photos}))
    known = np.array([photo.label in classes for photo in test.photos], dtype=bool)
    labels = [np.array([photo.label for photo in part.photos], dtype=np.str_) for part in (train, test)]
    strangers = (photo.name for photo, kept in zip(test.photos, known, strict=True) if not kept)
    return (
        FeatureDataset(name, train.features, labels[0], test.features[known], labels[1][known], classes),
        tuple(Skipped(stranger, "its class has no training photo that can be read") for stranger in strangers),
    )
