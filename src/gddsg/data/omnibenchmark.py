"""OmniBenchmark (Zhang et al. 2022) in the version with 300 classes that class-incremental learning is measured on."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path

from gddsg.data.dataset import ImageDataset, not_found
from gddsg.data.image_folder import divided_folder
from gddsg.data.photo import Photo, content_key

__all__ = ["omnibenchmark"]

_PAGE = "https://github.com/ZhangYuanhan-AI/OmniBenchmark"
_LAYOUT = """
train/<class>/*.jpg
test/<class>/*.jpg
"""
_REMEDY = (
    "There is no official archive with this division, hence nothing to download: get the version with 300 classes that "
    "https://github.com/LAMDA-CL/RevisitingCIL links to, unpack it, and put its folders train and test into the folder."
)


def omnibenchmark(root: Path, download: bool = False) -> ImageDataset:
    """OmniBenchmark from folders ``train`` and ``test`` with a folder of photos for every class.

    Warns of classes with the same photos. The published version has at least three such pairs, and a photo that is in
    two classes can be right in one of them only: this caps the accuracy that can be reached.

    Parameters
    ----------
    root : Path
        Folder with ``train`` and ``test``.
    download : bool
        Not possible here; the error says where to get the data set.
    """
    root = Path(root)
    for folder in (root, root / "omnibenchmark"):
        if (folder / "train").is_dir() and (folder / "test").is_dir():
            dataset = divided_folder("omnibenchmark", folder / "train", folder / "test", case_sensitive=True)
            _warn_of_twins(dataset)
            return dataset
    raise not_found("OmniBenchmark", root, _LAYOUT, _PAGE, _REMEDY)


def twin_classes(photos: Iterable[Photo]) -> list[tuple[str, str]]:
    """Pairs of classes that have at least half of the photos of the smaller one in common, byte by byte.

    Equal files have equal sizes, so only classes with many sizes in common are read at all.
    """
    classes: defaultdict[str, list[Photo]] = defaultdict(list)
    for photo in photos:
        classes[photo.label].append(photo)
    suspects = _alike(classes, _size)
    suspicious = {label: classes[label] for pair in suspects for label in pair}
    return _alike(suspicious, lambda photo: content_key(photo.read()))


def _alike(classes: dict[str, list[Photo]], key: Callable[[Photo], object]) -> list[tuple[str, str]]:
    """Pairs of classes that have the keys of at least half of the photos of the smaller one in common."""
    counts = {label: Counter(map(key, photos)) for label, photos in sorted(classes.items())}
    owners: defaultdict[object, list[str]] = defaultdict(list)
    for label, count in counts.items():
        for value in count:
            owners[value].append(label)
    common: Counter[tuple[str, str]] = Counter()
    for value, labels in owners.items():
        for first, second in combinations(labels, 2):
            common[first, second] += min(counts[first][value], counts[second][value])
    return sorted(pair for pair, n in common.items() if 2 * n >= min(counts[pair[0]].total(), counts[pair[1]].total()))


def _size(photo: Photo) -> int:
    return 0 if photo.path is None else photo.path.stat().st_size


def _warn_of_twins(dataset: ImageDataset) -> None:
    # The division was drawn for each class by itself, so a photo may be for training in one and for test in the other.
    twins = twin_classes((*dataset.train, *dataset.test))
    if twins:
        named = ", ".join(f"{first!r} and {second!r}" for first, second in twins)
        warnings.warn(
            f"OmniBenchmark: these classes hold the same photos: {named}. No method can tell them apart, which caps "
            "the accuracy; name this next to figures, or remove one folder of each pair.",
            UserWarning,
            stacklevel=3,
        )
