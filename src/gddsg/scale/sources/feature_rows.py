"""Rows of feature files, read a range at a time: the file need never fit into memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import fsspec
import numpy as np
from numpy.typing import NDArray

from gddsg.errors import DataError
from gddsg.scale.sources.pieces import FeatureRows, distant, file_key

_PIECE = 1 << 22
_EXPECTED = "Expected an .npz file as gddsg embed writes it, with train_features (n, dim) and train_labels (n,)."
_DAMAGED = (zipfile.BadZipFile, ValueError, EOFError, KeyError)


@dataclass(frozen=True)
class FeatureFileRows:
    """A range of the training rows of a feature file.

    Attributes
    ----------
    url : str
        The file.
    state : str
        See :func:`~gddsg.scale.sources.pieces.file_key`.
    start, stop : int
        The range.
    """

    url: str
    state: str
    start: int
    stop: int

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.url}, rows {self.start} to {self.stop - 1}"

    @property
    def key(self) -> str:
        """By which it is known again."""
        return f"npz {self.state} {self.start} {self.stop}"

    @property
    def rows(self) -> int:
        """How many rows."""
        return self.stop - self.start

    def read(self) -> FeatureRows:
        """The features of the range, and a label a row."""
        with _archive(self.url) as archive:
            labels = _part(archive, "train_labels", self.start, self.stop)
            classes = _whole(archive, "classes")
            if "train_features.npy" in archive.namelist():
                features = _part(archive, "train_features", self.start, self.stop)
                if features.dtype.kind not in "fiu":
                    raise ValueError(f"train_features are of type {features.dtype}, not numbers")
                return _as_float32(features), _named(labels, classes)
            codes, scale = _part(archive, "train_codes", self.start, self.stop), _whole(archive, "scale")
            if scale is None or codes.dtype != np.uint8:
                raise ValueError("train_codes are not uint8, or come without a scale")
            squares = np.square(np.arange(256, dtype=np.float32) / np.float32(255))
            return squares[codes] * scale.astype(np.float32), _named(labels, classes)


def feature_file_pieces(url: str, rows: int) -> Iterator[FeatureFileRows]:
    """The ranges of a feature file.

    Parameters
    ----------
    url : str
        The file.
    rows : int
        Of a range.
    """
    state = file_key(url)
    with _archive(url) as archive:
        names = [name for name in ("train_features", "train_codes") if f"{name}.npy" in archive.namelist()]
        if not names or "train_labels.npy" not in archive.namelist():
            raise DataError(f"{url} has only {sorted(archive.namelist())}. {_EXPECTED}")
        with archive.open(f"{names[0]}.npy") as file:
            shape = _header(file)[0]
        with archive.open("train_labels.npy") as file:
            labelled = _header(file)[0]
    if len(shape) != 2 or 0 in shape or labelled != shape[:1]:
        raise DataError(f"{url} has features of the shape {shape} and labels of the shape {labelled}. {_EXPECTED}")
    for start in range(0, shape[0], rows):
        yield FeatureFileRows(url, state, start, min(start + rows, shape[0]))


@contextmanager
def _archive(url: str) -> Iterator[zipfile.ZipFile]:
    with distant(url):
        try:
            with fsspec.open(url, "rb") as file, zipfile.ZipFile(file) as archive:
                yield archive
        except _DAMAGED as error:
            if "Protocol not known" in str(error):
                raise
            raise DataError(f"{url} is damaged or no feature file ({error}). {_EXPECTED}") from error


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, kind = read(file)
    if kind.kind not in "fiubSU" or kind.itemsize == 0 or (by_column and len(shape) > 1):
        raise ValueError(f"an array is of type {kind}, or stored by column")
    return shape, by_column, kind


def _part(archive: zipfile.ZipFile, name: str, start: int, stop: int) -> NDArray[Any]:
    with archive.open(f"{name}.npy") as file:
        shape, _, kind = _header(file)
        width = int(np.prod(shape[1:], dtype=np.int64))
        file.seek(start * width * kind.itemsize, 1)  # quick where nothing is compressed
        return _read(file, (stop - start) * width, kind).reshape(stop - start, *shape[1:])


def _read(file: IO[bytes], n: int, kind: np.dtype[Any]) -> NDArray[Any]:
    array = np.empty(n, kind)
    target, done = array.view(np.uint8), 0
    while done < len(target):
        piece = file.read(min(_PIECE, len(target) - done))
        if not piece:
            raise EOFError(f"an array ends after {done} of {len(target)} bytes")
        target[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
    return array


def _whole(archive: zipfile.ZipFile, name: str) -> NDArray[Any] | None:
    if f"{name}.npy" not in archive.namelist():
        return None
    with archive.open(f"{name}.npy") as file:
        shape, _, kind = _header(file)
        return _read(file, int(np.prod(shape, dtype=np.int64)), kind).reshape(shape)


def _as_float32(features: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what is too large becomes infinite and is refused as such
        return features.astype(np.float32, copy=False)


def _named(labels: NDArray[Any], classes: NDArray[Any] | None) -> list[str]:
    """Names of classes; whole numbers are looked up among them where there are any."""
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    if labels.dtype.kind not in "iuU":
        raise ValueError(f"train_labels are of type {labels.dtype}, neither whole numbers nor names")
    if classes is None or labels.dtype.kind == "U":
        return [str(label) for label in labels.tolist()]
    if labels.size and not 0 <= labels.min() <= labels.max() < len(classes):
        raise ValueError(
            f"train_labels run from {labels.min()} to {labels.max()}, and there are {len(classes)} classes"
        )
    names = np.char.decode(classes, "utf-8") if classes.dtype.kind == "S" else classes
    return [str(name) for name in names[labels].tolist()]
