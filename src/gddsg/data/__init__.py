"""Data sets: photos in folders and lists, published data sets, and files of features; class orders and task streams.

:func:`load_dataset` takes them all; :data:`DATASETS` has the published ones by name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gddsg.data.cifar100 import cifar100
from gddsg.data.cub200 import cub200
from gddsg.data.dataset import (
    Dataset,
    FeatureDataset,
    ImageDataset,
    InputDataset,
    Inputs,
    PhotoListing,
    Skipped,
    stratified_split,
)
from gddsg.data.download import download, extract
from gddsg.data.feature_file import feature_file, write_feature_file
from gddsg.data.glyphs import glyphs as rendered_glyphs
from gddsg.data.glyphs import write_glyphs
from gddsg.data.image_folder import image_folder, read_photos, test_photos, unlabelled_photos
from gddsg.data.images import Images
from gddsg.data.omnibenchmark import omnibenchmark
from gddsg.data.orders import (
    adjacent_similarity,
    class_prototypes,
    dissimilar_order,
    extreme_order,
    given_order,
    permuted_tasks,
    searched_order,
    seeded_order,
    similarity_sorted_order,
)
from gddsg.data.photo import Photo
from gddsg.data.photo_list import listed_photos, photo_list
from gddsg.data.stanford_dogs import stanford_dogs
from gddsg.data.stream import Stream, Task, class_stream, task_sizes
from gddsg.errors import DataError

__all__ = [
    "DATASETS",
    "Dataset",
    "FeatureDataset",
    "ImageDataset",
    "Images",
    "InputDataset",
    "Inputs",
    "Photo",
    "PhotoListing",
    "Skipped",
    "Stream",
    "Task",
    "adjacent_similarity",
    "cifar100",
    "class_prototypes",
    "class_stream",
    "cub200",
    "dissimilar_order",
    "download",
    "extract",
    "extreme_order",
    "feature_file",
    "given_order",
    "image_folder",
    "listed_photos",
    "load_dataset",
    "omnibenchmark",
    "permuted_tasks",
    "photo_list",
    "read_photos",
    "searched_order",
    "seeded_order",
    "similarity_sorted_order",
    "stanford_dogs",
    "stratified_split",
    "task_sizes",
    "test_photos",
    "unlabelled_photos",
    "write_feature_file",
    "write_glyphs",
]


def _glyphs(root: Path, download: bool = False) -> ImageDataset:
    """Letters, digits and Greek, rendered on the spot: nothing is read from ``root``, nothing downloaded."""
    return ImageDataset("glyphs", *rendered_glyphs())


DATASETS: dict[str, Callable[..., ImageDataset]] = {
    "cifar100": cifar100,
    "cub200": cub200,
    "stanford-dogs": stanford_dogs,
    "dogs": stanford_dogs,
    "omnibenchmark": omnibenchmark,
    "glyphs": _glyphs,
}
"""The data sets by name; all take ``root`` and ``download``. Benchmarks call Stanford Dogs ``dogs`` for short."""


def load_dataset(source: str | Path, root: Path | None = None, download: bool = False) -> ImageDataset | FeatureDataset:
    """The data set that ``source`` stands for.

    Parameters
    ----------
    source : str or Path
        A name in :data:`DATASETS`, a folder of photos, a list of photos (``.csv``) or a file of features (``.npz``). A
        name goes before a folder called alike; that one is meant by ``./name``.
    root : Path, optional
        Where the files of a named data set are, ``datasets/<name>`` unless told.
    download : bool
        Fetch a named data set that is not there yet.
    """
    if isinstance(source, str) and source in DATASETS:
        return DATASETS[source](Path("datasets") / source if root is None else Path(root), download=download)
    path = Path(source)
    if root is not None or download:
        raise DataError(f"{str(source)!r} was given with root or download, which are for {_choices()}.")
    if path.is_dir():
        return image_folder(path)
    readers: dict[str, Callable[[Path], ImageDataset | FeatureDataset]] = {".csv": photo_list, ".npz": feature_file}
    if path.suffix.casefold() in readers:
        return readers[path.suffix.casefold()](path)
    raise DataError(
        f"{str(source)!r} was given; expected {_choices()}, a folder that exists, a list of photos (.csv) or a file "
        "of features (.npz)."
    )


def _choices() -> str:
    return f"a name among {', '.join(sorted(DATASETS))}"
