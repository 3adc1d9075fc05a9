"""CIFAR-100 (Krizhevsky 2009): 100 classes, 50 000 training and 10 000 test images of 32 × 32 pixels."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gddsg.data.dataset import ImageDataset, not_found
from gddsg.data.download import download as fetch
from gddsg.data.photo import Photo
from gddsg.data.reading import read_plain
from gddsg.errors import DataError

__all__ = ["cifar100"]

URL = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
MD5 = "eb9058c3a382ffc7106e4002c42a8d85"
_BINARY_URL = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"  # md5 03b5dce01913d631647c71ecec9e9cb8
_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
_LAYOUT = """
cifar-100-python/train, test, meta
or cifar-100-binary/train.bin, test.bin, fine_label_names.txt
or cifar-100-python.tar.gz or cifar-100-binary.tar.gz, as published
"""
_VERSIONS = (("train", "test", "meta"), ("train.bin", "test.bin", "fine_label_names.txt"))
_FOLDERS = (".", "cifar-100-python", "cifar-100-binary")
_ARCHIVES = (".", "cifar-100-python.tar.gz", "cifar-100-binary.tar.gz")
_MAX_BYTES = 250_000_000  # of a file; the largest that is published has 155 million
_RECORD = 2 + 3 * 32 * 32  # bytes an image in the binary version: coarse label, fine label, pixels
_DAMAGE = (
    pickle.UnpicklingError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    EOFError,
    ArithmeticError,
    struct.error,
)

Pixels = NDArray[np.uint8]
Files = dict[str, bytes]


def cifar100(root: Path, download: bool = False) -> ImageDataset:
    """CIFAR-100 in its official division, labelled with the fine classes.

    Parameters
    ----------
    root : Path
        Folder with the python or the binary version, as published or unpacked, or the archive itself.
    download : bool
        Fetch the python version into ``root`` if none is there.

    Raises
    ------
    DataError
        If the files are missing or damaged. Pickles that ask for anything but arrays are refused, hence files of
        unknown origin cannot run anything.
    """
    root = Path(root)
    files = _files(root)
    if files is None and download:
        files = _archive(fetch(URL, root / "cifar-100-python.tar.gz", MD5))
    if files is None:
        remedy = f"Call again with download=True, or fetch {URL} or {_BINARY_URL} and put the file into the folder."
        raise not_found("CIFAR-100", root, _LAYOUT, _PAGE, remedy)
    if "meta" in files:
        names = [_text(name) for name in _list(_unpickle(files, "meta"), "fine_label_names", "meta")]
        train, test = (_batch(files, part, names) for part in ("train", "test"))
    else:
        names = files["fine_label_names.txt"].decode("utf-8", "replace").split()
        train, test = (_records(files, part, names) for part in ("train", "test"))
    return ImageDataset("cifar100", train, test)


# Where the files are.


def _files(root: Path) -> Files | None:
    """The three files of a version, from a folder or else from an archive."""
    for folder in (root / name for name in _FOLDERS):
        for version in _VERSIONS:
            if all((folder / name).is_file() for name in version):
                return {name: _content(folder / name) for name in version}
    archives = (root / name for name in _ARCHIVES)
    return next((_archive(archive) for archive in archives if archive.is_file()), None)


def _content(path: Path) -> bytes:
    try:
        return read_plain(path, _MAX_BYTES)
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read ({error.strerror or error}). Fetch {URL} again.") from error


def _archive(path: Path) -> Files:
    """The files of whichever version an archive holds; they are read in place, not unpacked."""
    wanted = {name for version in _VERSIONS for name in version}
    files: Files = {}
    try:
        with tarfile.open(path, "r:*") as tar:
            for member in tar:
                name, content = PurePosixPath(member.name).name, tar.extractfile(member) if member.isfile() else None
                if name in wanted and content is not None:
                    files[name] = _bounded(member, content.read(_MAX_BYTES + 1))
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise _damaged(str(path), error) from error
    if not any(set(version) <= files.keys() for version in _VERSIONS):
        raise DataError(f"{str(path)!r} is not a CIFAR-100 archive. Expected one of:\n{_LAYOUT.strip()}")
    return files


def _bounded(member: tarfile.TarInfo, content: bytes) -> bytes:
    if len(content) > _MAX_BYTES:
        raise tarfile.TarError(f"{member.name} has more than {_MAX_BYTES:,} bytes")
    return content


# The python version.


def _batch(files: Files, part: str, names: Sequence[str]) -> tuple[Photo, ...]:
    batch = _unpickle(files, part)
    data = batch.get("data")
    if not isinstance(data, _ByteArray) or data.rows is None:
        raise _damaged(part, "there is no array called data")
    return _photos(part, data.rows, _list(batch, "fine_labels", part), names)


def _unpickle(files: Files, name: str) -> dict[str, Any]:
    try:
        content = _ArraysOnly(io.BytesIO(files[name]), encoding="bytes").load()
        return {_text(key): value for key, value in content.items()}
    except (*_DAMAGE, MemoryError) as error:
        raise _damaged(name, str(error) or type(error).__name__) from error


def _list(content: dict[str, Any], key: str, name: str) -> list[Any]:
    values = content.get(key)
    if not isinstance(values, list):
        raise _damaged(name, f"there is no list called {key}")
    return values


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


class _ByteKind:
    """Stands in for the element type of an array; there is but one."""

    def __init__(self, kind: Any, *_: Any) -> None:
        if _text(kind) not in {"u1", "|u1", "uint8"}:
            raise pickle.UnpicklingError(f"an array of {_text(kind)} instead of bytes")

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like mean nothing for bytes."""


class _ByteArray:
    """Stands in for NumPy's array, which believes what a pickle says of its memory; this one checks it."""

    rows: Pixels | None = None

    def __setstate__(self, state: Any) -> None:
        shape, kind, by_column, content = state[-4:]
        self._fill(content, kind, shape, "F" if by_column else "C")

    def _fill(self, content: Any, kind: Any, shape: Any, order: Literal["C", "F"]) -> None:
        if not isinstance(kind, _ByteKind):
            raise pickle.UnpicklingError("an array of unknown elements")
        self.rows = np.frombuffer(content, np.uint8).reshape(shape, order=order)


def _rebuild(*_: Any) -> _ByteArray:
    return _ByteArray()


def _from_buffer(content: Any, kind: Any, shape: Any, order: Literal["C", "F"]) -> _ByteArray:
    array = _ByteArray()
    array._fill(content, kind, shape, order)
    return array


def _latin1(text: str, *_: Any) -> bytes:
    """How Python 3 writes bytes in the pickle protocol of Python 2."""
    return text.encode("latin1")


_HARMLESS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _ByteArray,
    ("numpy", "dtype"): _ByteKind,
    ("_codecs", "encode"): _latin1,
    # NumPy 2 moved its core to another place.
    ("numpy.core.multiarray", "_reconstruct"): _rebuild,
    ("numpy._core.multiarray", "_reconstruct"): _rebuild,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
}


class _ArraysOnly(pickle._Unpickler):
    """Reads plain values and arrays of bytes; a pickle that asks for more, say ``os.system``, is refused.

    It is the one written in Python: the one in C believes how much memory a pickle says that it needs.
    """

    read: Callable[[int], bytes]
    append: Callable[[Any], None]

    def load_bytearray8(self) -> None:
        """Like its namesake above, which would make room for as many bytes as the pickle claims."""
        (size,) = struct.unpack("<Q", self.read(8))
        content = bytearray(self.read(size))
        if len(content) != size:
            raise pickle.UnpicklingError(f"{size:,} bytes are announced, and {len(content):,} are there")
        self.append(content)

    dispatch: ClassVar[dict[int, Any]] = {**pickle._Unpickler.dispatch, pickle.BYTEARRAY8[0]: load_bytearray8}

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return _HARMLESS[module_name, global_name]
        except KeyError:
            asked = f"it asks for {module_name}.{global_name}, which no CIFAR-100 file needs"
            raise pickle.UnpicklingError(asked) from None


# The binary version.


def _records(files: Files, part: str, names: Sequence[str]) -> tuple[Photo, ...]:
    name = f"{part}.bin"
    content = np.frombuffer(files[name], np.uint8)
    if content.size % _RECORD:
        raise _damaged(name, f"its {content.size} bytes are not a multiple of {_RECORD}")
    records = content.reshape(-1, _RECORD)
    return _photos(part, records[:, 2:], records[:, 1].tolist(), names)


# Both versions.


def _photos(part: str, rows: Pixels, labels: list[Any], names: Sequence[str]) -> tuple[Photo, ...]:
    """Photos of rows ``(n, 3072)``, which hold all red, then all green, then all blue pixels of an image."""
    if rows.shape != (len(rows), _RECORD - 2) or not len(rows):
        raise _damaged(part, f"its images have the shape {rows.shape}; expected (n, {_RECORD - 2})")
    if len(labels) != len(rows):
        raise _damaged(part, f"it has {len(rows)} images but {len(labels)} labels")
    if not all(isinstance(label, int) and 0 <= label < len(names) for label in labels):
        raise _damaged(part, f"a label is not a whole number from 0 to {len(names) - 1}")
    images = np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    pairs = enumerate(zip(images, labels, strict=True))
    return tuple(Photo.of_pixels(image, names[label], f"cifar100/{part}/{place}") for place, (image, label) in pairs)


def _damaged(name: str, reason: object) -> DataError:
    return DataError(
        f"CIFAR-100: {name} is damaged or not a file of this data set ({reason}). Delete it, fetch {URL} again and try "
        "once more."
    )
