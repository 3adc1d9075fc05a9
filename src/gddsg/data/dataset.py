"""Data sets: photos or features with labels, parted into training and test, and how to part photos that come in one."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import indent
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gddsg.data.images import Images
from gddsg.data.photo import Photo
from gddsg.data.reading import is_file
from gddsg.errors import DataError, InputError
from gddsg.wording import counted

__all__ = [
    "Dataset",
    "FeatureDataset",
    "ImageDataset",
    "InputDataset",
    "Inputs",
    "PhotoListing",
    "Skipped",
    "stratified_split",
]


class Inputs(Protocol):
    """What a learner is given: anything with a length and rows, such as an array of features, or ``Images``."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Any:
        """Some of the rows: whole numbers in an array, a mask or a slice."""


class Dataset(Protocol):
    """Labelled inputs for training and for test, of whatever kind.

    Attributes
    ----------
    name : str
        What tables and messages call it.
    train_inputs, test_inputs : Inputs
        Features, or images.
    train_labels, test_labels : ndarray
        ``(n_samples,)``, names of classes, or whole numbers that index ``classes``.
    classes : tuple of str
        The names of all classes.
    """

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def train_inputs(self) -> Inputs:
        """Inputs to learn from."""

    @property
    def train_labels(self) -> NDArray[Any]:
        """Their labels."""

    @property
    def test_inputs(self) -> Inputs:
        """Inputs to judge by."""

    @property
    def test_labels(self) -> NDArray[Any]:
        """Their labels."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of classes."""


@dataclass(frozen=True, eq=False)
class InputDataset:
    """A data set put together from inputs of any kind; what the attributes mean, :class:`Dataset` says."""

    name: str
    train_inputs: Inputs
    train_labels: NDArray[Any]
    test_inputs: Inputs
    test_labels: NDArray[Any]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Skipped:
    """A file or folder that was left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class PhotoListing:
    """Photos that were found, and what was left out on the way."""

    photos: tuple[Photo, ...]
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True)
class ImageDataset:
    """Labelled photos for training and for test, and what was left out on the way."""

    name: str
    train: tuple[Photo, ...]
    test: tuple[Photo, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def classes(self) -> tuple[str, ...]:
        """Sorted labels of the training photos."""
        return tuple(sorted({photo.label for photo in self.train}))

    @cached_property
    def train_inputs(self) -> Images:
        """The training photos, not yet decoded."""
        return Images.of(self.train)

    @cached_property
    def test_inputs(self) -> Images:
        """The test photos, not yet decoded."""
        return Images.of(self.test)

    @cached_property
    def train_labels(self) -> NDArray[Any]:
        """Labels of the training photos, ``(n_train,)``."""
        return np.array([photo.label for photo in self.train], dtype=np.str_)

    @cached_property
    def test_labels(self) -> NDArray[Any]:
        """Labels of the test photos, ``(n_test,)``."""
        return np.array([photo.label for photo in self.test], dtype=np.str_)


@dataclass(frozen=True, eq=False)
class FeatureDataset:
    """Features computed once and for all, with their labels.

    Attributes
    ----------
    name : str
        What tables and messages call it.
    train_features, test_features : ndarray
        ``(n_samples, feature_dim)`` float32.
    train_labels, test_labels : ndarray
        ``(n_samples,)``, names of classes, or whole numbers that index ``classes``.
    classes : tuple of str
        The names of all classes.
    """

    name: str
    train_features: NDArray[np.float32]
    train_labels: NDArray[Any]
    test_features: NDArray[np.float32]
    test_labels: NDArray[Any]
    classes: tuple[str, ...]

    @property
    def train_inputs(self) -> NDArray[np.float32]:
        """The training features."""
        return self.train_features

    @property
    def test_inputs(self) -> NDArray[np.float32]:
        """The test features."""
        return self.test_features


def stratified_split(
    photos: Iterable[Photo], test_share: float = 0.2, seed: int = 0
) -> tuple[tuple[Photo, ...], tuple[Photo, ...]]:
    """Training and test photos, parted class by class.

    A hash of seed, label and file name decides for every photo by itself, so photos that are added later leave the old
    ones where they are. Every class keeps a training photo, and a test photo as soon as it has two; only for this may
    an old photo change sides. The shares are therefore met on average, not exactly.

    Parameters
    ----------
    photos : iterable of Photo
        All photos.
    test_share : float
        Share that becomes test photos.
    seed : int
        What the hash begins with.

    Examples
    --------
    >>> photos = [Photo(f"{number}.jpg", "cat") for number in range(100)]
    >>> train, test = stratified_split(photos)
    >>> len(train), len(test)
    (81, 19)
    """
    if not 0 < test_share < 1:
        raise InputError(f"test_share={test_share!r} was given; expected a number between 0 and 1, such as 0.2.")
    every = tuple(photos)
    members: dict[str, list[int]] = {}
    for place, photo in enumerate(every):
        members.setdefault(photo.label, []).append(place)
    chosen = {place for places in members.values() for place in _test_places(every, places, test_share, seed)}
    train = tuple(photo for place, photo in enumerate(every) if place not in chosen)
    return train, tuple(photo for place, photo in enumerate(every) if place in chosen)


def _test_places(photos: tuple[Photo, ...], places: list[int], share: float, seed: int) -> list[int]:
    draws = sorted((_draw(photos[place], seed), photos[place].name, place) for place in places)
    wanted = sum(draw < share for draw, _, _ in draws)
    if len(draws) > 1:
        wanted = max(wanted, 1)
    return [place for _, _, place in draws[: min(wanted, len(draws) - 1)]]


def _draw(photo: Photo, seed: int) -> float:
    """A number from 0 to 1 that only seed, label and file name decide; the folder may move to another place."""
    name = photo.name if photo.path is None else photo.path.name
    text = "\0".join((str(seed), photo.label, unicodedata.normalize("NFC", name)))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") / 2**64


# What the readers of this package share.


def clean_label(text: str) -> str:
    """A label in one spelling: composed Unicode (macOS takes it apart in file names), no blanks around it."""
    return unicodedata.normalize("NFC", text).strip()


def refuse_case_twins(labels: Iterable[str], case_sensitive: bool, known: Iterable[str] = ()) -> None:
    """Raise a :class:`DataError` for two labels that differ only in case: more often a slip than two classes.

    ``known`` are classes that there are already; new labels must not be twins of these either.
    """
    spellings = {label.casefold(): label for label in known}
    for label in () if case_sensitive else sorted(set(labels) - set(known)):
        other = spellings.setdefault(label.casefold(), label)
        if other != label:
            raise DataError(
                f"The classes {other!r} and {label!r} differ only in upper and lower case; expected distinct "
                "names: rename one of them, or allow it with case_sensitive=True (--case-sensitive)."
            )


def of_known_classes(
    train: tuple[Photo, ...], test: tuple[Photo, ...]
) -> tuple[tuple[Photo, ...], tuple[Skipped, ...]]:
    """Test photos of classes that can be learnt, and the others, which nobody could get right."""
    known = {photo.label for photo in train}
    strangers = (photo.name for photo in test if photo.label not in known)
    kept = tuple(photo for photo in test if photo.label in known)
    return kept, tuple(Skipped(name, "its class has no training photo") for name in strangers)


def not_found(title: str, root: Path, layout: str, page: str, remedy: str) -> DataError:
    """The error for a published data set that is not where it should be."""
    return DataError(
        f"{title} was not found in {str(root)!r}. Expected there:\n{indent(layout.strip(), '    ')}\n"
        f"Official page: {page}\n{remedy}"
    )


def refuse_missing(title: str, photos: tuple[Photo, ...]) -> None:
    """Raise a :class:`DataError` if a published photo is not there: figures on a part would not be comparable."""
    missing = [photo for photo in photos if photo.path is None or not is_file(photo.path)]
    if missing or not photos:
        first = f", the first is {missing[0].name!r}" if missing else ""
        are = "is" if len(missing) == 1 else "are"
        raise DataError(
            f"{title}: {len(missing)} of {counted(len(photos), 'photo')} {are} missing{first}. Expected the complete "
            "data set; unpack the archive again, or call with download=True after deleting what is there."
        )
