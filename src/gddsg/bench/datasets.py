"""Features for experiments: files of them, or data sets of photos embedded on the way."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gddsg.backbones import FeatureCache, load_backbone
from gddsg.data import DATASETS, FeatureDataset, feature_file, load_dataset, write_feature_file
from gddsg.data.dataset import ImageDataset
from gddsg.errors import DataError
from gddsg.photos import embed_dataset
from gddsg.photos.threads import Progress


@dataclass(frozen=True)
class FeatureSource:
    """Where the features of one data set are.

    Attributes
    ----------
    name : of the data set.
    backbone : that made the features, as far as the name of the file tells.
    path : of the feature file.
    fingerprint : of its content.
    """

    name: str
    backbone: str
    path: Path
    fingerprint: str


def locate(dataset: str, backbone: str, root: Path, work: Path, progress: Progress | None = None) -> FeatureSource:
    """The features of a data set.

    Parameters
    ----------
    dataset : a feature file (``.npz``); or a name: ``root/<name>_<backbone>.npz`` if there is one, else photos in
        ``root/<name>``, in the layout of the data set of that name or as an image folder, which are then embedded.
    backbone : whose features are wanted.
    root : folder of feature files and data sets.
    work : folder for features made on the way.
    progress : of embedding.
    """
    if dataset.endswith(".npz"):
        path = Path(dataset) if Path(dataset).exists() else root / dataset
        name, _, made_by = path.stem.partition("_")
        return _source(name, made_by or "unknown", path)
    path = root / f"{dataset}_{backbone}.npz"
    if path.exists():
        return _source(Path(dataset).name, backbone, path)
    photos = _photos(dataset, root, path)
    made = work / path.name
    if not made.exists():
        with FeatureCache() as cache:
            write_feature_file(embed_dataset(photos, load_backbone(backbone), cache, progress), made)
    return _source(Path(dataset).name, backbone, made)


def _photos(dataset: str, root: Path, features: Path) -> ImageDataset:
    try:
        found = load_dataset(dataset, root / dataset) if dataset in DATASETS else load_dataset(root / dataset)
    except DataError as error:
        raise DataError(
            f"There are no features {features} and no photos of {dataset!r} in {root}: {error}\n"
            "Name the folder of feature files or data sets with --data."
        ) from error
    if not isinstance(found, ImageDataset):
        raise DataError(f"{dataset!r} holds features; name the file with its ending, .npz.")
    return found


def _source(name: str, backbone: str, path: Path) -> FeatureSource:
    data = feature_file(path)
    digest = hashlib.sha256()
    for array in (data.train_features, data.train_labels, data.test_features, data.test_labels):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    digest.update("\0".join(data.classes).encode())
    return FeatureSource(name, backbone, path, digest.hexdigest()[:16])


def load(source: FeatureSource) -> FeatureDataset:
    """The features."""
    return feature_file(source.path)
