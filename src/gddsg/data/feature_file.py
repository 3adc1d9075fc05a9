"""Feature files: features of photos, computed once, with their labels in one ``.npz`` file."""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gddsg.data.dataset import FeatureDataset
from gddsg.data.reading import plain_size
from gddsg.errors import DataError
from gddsg.files import replacing
from gddsg.wording import counted

__all__ = ["check_feature_path", "feature_file", "write_feature_file"]

_FORMAT = (
    "an .npz file with train_features and test_features (n, dim), or train_codes, test_codes (n, dim) uint8 and scale, "
    "together with train_labels and test_labels (n,) and, if you like, classes"
)
MAX_UNPACKED_BYTES = 64_000_000_000
"""Memory that the arrays of a feature file may take in all."""

MAX_RATIO = 100
"""How many times its size on the disk a feature file may take in memory: what is compressed better is a trap."""

_SMALL_BYTES = 50_000_000  # below this nothing is compressed too well
_PIECE = 1 << 20
_LONGEST_HEADER = 10_000  # NumPy's own limit

StrPath = str | os.PathLike[str]
Arrays = dict[str, NDArray[Any]]


def feature_file(path: StrPath) -> FeatureDataset:
    """Read a feature file; nothing in it is ever run.

    Features are stored as such, or as bytes: ``features = (codes / 255)² · scale``, with one scale or one a column.
    Labels are names, or whole numbers that index ``classes``; without ``classes`` they are the names themselves.

    Raises
    ------
    DataError
        If the file is no feature file, is damaged, or holds arrays that do not fit together.
    """
    source = Path(path)
    arrays = _arrays(source)
    try:
        train, test = _features(arrays, "train"), _features(arrays, "test")
        labels = _labels(arrays, "train"), _labels(arrays, "test")
        dataset = FeatureDataset(source.stem, train, labels[0], test, labels[1], _classes(arrays, labels))
        _check(dataset)
    except DataError as error:
        raise DataError(f"{source}: {error} Expected {_FORMAT}.") from error
    return dataset


def write_feature_file(dataset: FeatureDataset, path: StrPath) -> None:
    """Write a feature file in one step: whatever happens, ``path`` holds the old file or the new one.

    Raises
    ------
    DataError
        If the data set does not fit together, ``path`` does not end in ``.npz``, or it cannot be written.
    """
    target = Path(path)
    check_feature_path(target)
    _check(dataset)
    try:
        _replace(target, dataset)
    except OSError as error:
        raise DataError(
            f"The feature file {str(target)!r} cannot be written ({error.strerror or error}). Expected an existing "
            "folder you may write to, with room for the file. What was there before is unchanged."
        ) from error


def check_feature_path(path: StrPath) -> None:
    """Raise a :class:`DataError` if no feature file can be written there, as far as can be told without writing."""
    target = Path(path)
    if target.suffix.casefold() != ".npz":
        raise DataError(f"{str(target)!r} was given; feature files are recognised by their ending: add .npz.")
    if not target.parent.is_dir():
        raise DataError(f"There is no folder {str(target.parent)!r}; expected an existing folder for {target.name!r}.")


def _replace(target: Path, dataset: FeatureDataset) -> None:
    with replacing(target) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            train_features=dataset.train_features,
            train_labels=dataset.train_labels,
            test_features=dataset.test_features,
            test_labels=dataset.test_labels,
            classes=np.array(dataset.classes, dtype=np.str_),
        )


def _arrays(source: Path) -> Arrays:
    try:
        size = plain_size(source, MAX_UNPACKED_BYTES)
        with warnings.catch_warnings(), source.open("rb") as file:
            warnings.simplefilter("ignore")  # of a header that an old Python has written, or nobody has
            if file.read(2) != b"PK":  # NumPy would also open single arrays and look for pickles
                raise DataError(f"{source} is not an .npz file. Expected {_FORMAT}.")
            with zipfile.ZipFile(file) as archive:
                return _unpacked(archive, size)
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"There is no feature file {str(source)!r}. Check the path. Expected {_FORMAT}.") from error
    except Exception as error:  # no list of what NumPy and zipfile raise over damaged bytes would be complete
        raise DataError(
            f"{source} cannot be read: it is damaged, incomplete or not a feature file ({error or type(error).__name__}"
            f"). Copy or write it again. Expected {_FORMAT}."
        ) from error


def _unpacked(archive: zipfile.ZipFile, size: int) -> Arrays:
    """All arrays of an archive of ``size`` bytes, none of which may take more memory than it has content."""
    members = archive.infolist()
    total, limit = sum(member.file_size for member in members), min(MAX_UNPACKED_BYTES, MAX_RATIO * size)
    if total > max(limit, _SMALL_BYTES):
        raise ValueError(f"unpacked it would take {total:,} bytes, and of its {size:,} at most {limit:,} are expected")
    if len({member.filename for member in members}) != len(members):
        raise ValueError("two of its arrays have the same name")
    return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    if not member.filename.endswith(".npy"):
        raise ValueError(f"{member.filename} is not an array")
    with archive.open(member) as file:
        shape, by_column, kind = _header(file)
        content = member.file_size - file.tell()
        if kind.kind not in "fiubcSU" or kind.itemsize == 0:
            raise ValueError(f"{member.filename} is of type {kind}, neither numbers nor text")
        if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != content:
            raise ValueError(f"{member.filename} has {content} bytes, which is not what its shape {shape} takes")
        array = np.empty(math.prod(shape), kind)
        _fill(array.view(np.uint8), file)
    return array.reshape(shape, order="F" if by_column else "C")


def _fill(target: NDArray[np.uint8], file: IO[bytes]) -> None:
    done = 0
    while piece := file.read(_PIECE):
        target[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
    if done != len(target):
        raise EOFError(f"an array ends after {done} of {len(target)} bytes")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it is stored by column, and type, as an array begins."""
    if np.lib.format.read_magic(file) == (1, 0):
        return np.lib.format.read_array_header_1_0(file, _LONGEST_HEADER)
    return np.lib.format.read_array_header_2_0(file, _LONGEST_HEADER)


def _features(arrays: Arrays, part: str) -> NDArray[np.float32]:
    """Features ``(n, dim)`` float32 of a part, as stored or decoded."""
    if f"{part}_features" not in arrays:
        return _decoded(arrays, part)
    features = arrays[f"{part}_features"]
    if features.dtype.kind not in "fiu":
        raise DataError(f"{part}_features are of type {features.dtype}, not numbers.")
    with np.errstate(over="ignore"):  # what is too large becomes infinite and is refused as such
        return features.astype(np.float32, copy=False)


def _decoded(arrays: Arrays, part: str) -> NDArray[np.float32]:
    name = f"{part}_codes"
    if name not in arrays or "scale" not in arrays:
        raise DataError(f"There are neither {part}_features nor {name} with a scale, only {sorted(arrays)}.")
    codes, scale = arrays[name], arrays["scale"]
    if codes.dtype != np.uint8 or codes.ndim != 2:
        raise DataError(f"{name} are {codes.dtype} of shape {codes.shape}, not uint8 (n, dim).")
    if scale.dtype.kind not in "fiu" or scale.ndim > 1 or scale.size not in {1, codes.shape[1]}:
        raise DataError(f"scale is {scale.dtype} of shape {scale.shape}, not one number or one a column.")
    squares = np.square(np.arange(256, dtype=np.float32) / np.float32(255))
    features: NDArray[np.float32] = squares[codes]
    with np.errstate(over="ignore", invalid="ignore"):
        features *= scale.astype(np.float32)
    return features


def _labels(arrays: Arrays, part: str) -> NDArray[Any]:
    """Labels ``(n,)`` of a part: int64 or text."""
    name = f"{part}_labels"
    if name not in arrays:
        raise DataError(f"There are no {name}, only {sorted(arrays)}.")
    labels = _text(arrays[name], name)
    return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels


def _text(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Bytes become text, everything else stays; what is no text is refused, since nobody could write or show it."""
    try:
        text = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError as error:
        raise DataError(f"{name} are bytes that are not UTF-8 ({error}).") from error
    if text.dtype.kind == "U":
        points = np.ascontiguousarray(text).ravel().view(np.dtype("u4").newbyteorder(text.dtype.byteorder))
        if points.max(initial=0) > 0x10FFFF or ((points >= 0xD800) & (points <= 0xDFFF)).any():
            raise DataError(f"{name} have characters that are none.")
    return text


def _classes(arrays: Arrays, labels: tuple[NDArray[Any], NDArray[Any]]) -> tuple[str, ...]:
    if "classes" in arrays:
        classes = _text(arrays["classes"], "classes")
        if classes.ndim != 1 or classes.dtype.kind != "U":
            raise DataError(f"classes are {classes.dtype} of shape {classes.shape}, not names (n_classes,).")
        return tuple(classes.tolist())
    if all(part.dtype.kind == "i" and part.size for part in labels):
        return tuple(str(number) for number in range(_count(labels)))
    return tuple(sorted({str(label) for part in labels for label in part.ravel().tolist()}))


def _count(labels: tuple[NDArray[Any], NDArray[Any]]) -> int:
    """One more than the largest label; without names, a number beyond all samples is taken for a slip."""
    largest = max(int(part.max()) for part in labels)
    if largest >= 1_000_000:
        raise DataError(f"The largest label is {largest}; without classes, labels are 0, 1, 2 and so on.")
    return largest + 1


def _check(dataset: FeatureDataset) -> None:
    """Raise a :class:`DataError` unless all arrays fit together."""
    train, test = dataset.train_features, dataset.test_features
    _check_features(train, "train_features")
    _check_features(test, "test_features")
    if train.shape[1] != test.shape[1]:
        raise DataError(f"Training features have {train.shape[1]} columns, test features {test.shape[1]}.")
    if dataset.train_labels.dtype.kind != dataset.test_labels.dtype.kind:
        raise DataError("The labels of one part are numbers, those of the other names.")
    if len(set(dataset.classes)) != len(dataset.classes):
        raise DataError("Two classes have the same name.")
    _check_labels(dataset.train_labels, "train_labels", len(train), dataset.classes)
    _check_labels(dataset.test_labels, "test_labels", len(test), dataset.classes)


def _check_features(features: NDArray[Any], name: str) -> None:
    if features.ndim != 2 or 0 in features.shape:
        raise DataError(f"{name} have the shape {features.shape}, not (n, dim) with at least one row and column.")
    if features.dtype != np.float32:
        raise DataError(f"{name} are of type {features.dtype}, not float32.")
    if not np.isfinite(features).all():
        row = int(np.flatnonzero(~np.isfinite(features).all(1))[0])
        raise DataError(f"{name} have NaN, infinity or a number too large for float32 in row {row}.")


def _check_labels(labels: NDArray[Any], name: str, n: int, classes: tuple[str, ...]) -> None:
    if labels.shape != (n,):
        raise DataError(f"{name} have the shape {labels.shape}, and the features {counted(n, 'row')}.")
    if labels.dtype.kind == "U":
        strangers = sorted(set(labels.tolist()) - set(classes))
        if strangers:
            raise DataError(f"{name} name {strangers[0]!r}, which is not among the class names.")
    elif labels.dtype.kind not in "iu":
        raise DataError(f"{name} are of type {labels.dtype}, neither whole numbers nor names.")
    elif labels.min() < 0 or labels.max() >= len(classes):
        span, expected = f"from {labels.min()} to {labels.max()}", counted(len(classes), "class")
        raise DataError(f"{name} run {span}; for {expected} they go from 0 to {len(classes) - 1}.")
