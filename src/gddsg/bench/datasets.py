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
    name : str
        Of the data set.
    backbone : str
        What made the features, as far as the name of the file tells.
    path : Path
        Of the feature file.
    fingerprint : str
        Of its content.
    root : Path or None
        Folder of data sets, in which the photos may be; None where a feature file was named.
    """

    name: str
    backbone: str
    path: Path
    fingerprint: str
    root: Path | None = None


def locate(dataset: str, backbone: str, root: Path, work: Path, progress: Progress | None = None) -> FeatureSource:
    """The features of a data set.

    Parameters
    ----------
    dataset : str
        A feature file (``.npz``); or a name: ``root/<name>_<backbone>.npz`` if there is one, a slash in the backbone's
        name written as a hyphen, else photos in ``root/<name>``, in the layout of the data set of that name or as an
        image folder, which are then embedded.
    backbone : str
        Whose features are wanted.
    root : Path
        Folder of feature files and data sets.
    work : Path
        Folder for features made on the way.
    progress : callable or None
        Called while photos are embedded.

    Returns
    -------
    FeatureSource
        Where they are.
    """
    if dataset.endswith(".npz"):
        path = Path(dataset) if Path(dataset).exists() else root / dataset
        name, _, made_by = path.stem.partition("_")
        return _source(name, made_by or "unknown", path)
    path = root / f"{dataset}_{backbone.replace('/', '-')}.npz"
    if path.exists():
        return _source(Path(dataset).name, backbone, path, root)
    photos = _photos(dataset, root, f"There are no features {path}")
    made = work / path.name
    if not made.exists():
        with FeatureCache() as cache:
            write_feature_file(embed_dataset(photos, load_backbone(backbone), cache, progress), made)
    return _source(Path(dataset).name, backbone, made, root)


def _photos(dataset: str, root: Path, wanted: str) -> ImageDataset:
    """The photos; ``wanted`` begins the message where there are none."""
    try:
        found = load_dataset(dataset, root / dataset) if dataset in DATASETS else load_dataset(root / dataset)
    except DataError as error:
        raise DataError(
            f"{wanted} and no photos of {dataset!r} in {root}: {error}\n"
            "Name the folder of feature files or data sets with --data."
        ) from error
    if not isinstance(found, ImageDataset):
        raise DataError(f"{dataset!r} holds features; name the file with its ending, .npz.")
    return found


def _source(name: str, backbone: str, path: Path, root: Path | None = None) -> FeatureSource:
    return FeatureSource(name, backbone, path, fingerprint_of(feature_file(path)), root)


def fingerprint_of(data: FeatureDataset) -> str:
    """What tells two data sets apart.

    Parameters
    ----------
    data : FeatureDataset
        All samples.

    Returns
    -------
    str
        Sixteen hexadecimal digits.
    """
    digest = hashlib.sha256()
    for array in (data.train_features, data.train_labels, data.test_features, data.test_labels):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    digest.update("\0".join(data.classes).encode())
    return digest.hexdigest()[:16]


def load(source: FeatureSource) -> FeatureDataset:
    """Read the features.

    Parameters
    ----------
    source : FeatureSource
        Where they are.

    Returns
    -------
    FeatureDataset
        All of them.
    """
    return feature_file(source.path)


def load_images(source: FeatureSource, dataset: str) -> ImageDataset:
    """The photos of a data set, for learners that take images.

    Parameters
    ----------
    source : FeatureSource
        What :func:`locate` found.
    dataset : str
        What it was asked for.
    """
    if source.root is None:
        raise DataError(
            f"The learner takes images, and {dataset!r} holds features only. Name a data set of photos instead, such "
            "as a folder with a subfolder for every class."
        )
    return _photos(dataset, source.root, "The learner takes images; there are features only")
