"""Pieces of sources, small enough to be named in a message to another machine, and read there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import fsspec
import numpy as np
from numpy.typing import NDArray

from gddsg.data.decoding import shorter_side
from gddsg.data.photo import MAX_FILE_BYTES, Photo
from gddsg.errors import DataError, PhotoError

Rows = NDArray[np.intp]
FeatureRows = tuple[NDArray[np.float32], list[str]]


class PhotoPiece(Protocol):
    """Some labelled photos, in an order of their own."""

    def photos(self) -> Sequence[Photo]:
        """The photos; called where they are read."""

    def listed(self, photos: Sequence[Photo]) -> PhotoPiece:
        """The same piece for those who have seen its photos, where that spares them to look for them again."""

    def some(self, rows: Rows) -> tuple[PhotoPiece, Rows | None]:
        """A piece that these rows are in, and which of its rows they are; None for all."""


class FeaturePiece(Protocol):
    """Some rows of features, with their labels."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def key(self) -> str:
        """By which it is known again; another if the file has changed."""

    @property
    def rows(self) -> int:
        """How many rows."""

    def read(self) -> FeatureRows:
        """The features ``(rows, feature_dim)``, and a label a row."""


@dataclass(frozen=True)
class ListedPhotos:
    """Photos that are known one by one."""

    members: tuple[Photo, ...]

    def photos(self) -> Sequence[Photo]:
        """The photos."""
        return self.members

    def listed(self, photos: Sequence[Photo]) -> PhotoPiece:
        """The piece itself."""
        return self

    def some(self, rows: Rows) -> tuple[PhotoPiece, Rows | None]:
        """These photos alone."""
        return ListedPhotos(tuple(self.members[row] for row in rows.tolist())), None


@dataclass(frozen=True)
class DistantPhoto(Photo):
    """A photo in a file, or in a part of one, at any address, or in memory.

    Attributes
    ----------
    url : str
        Of the file.
    start : int
        Where it begins in the file.
    length : int or None
        Bytes; None for the whole file.
    content : bytes or None
        Itself, where it is in memory.
    """

    url: str = ""
    start: int = 0
    length: int | None = None
    content: bytes | None = field(default=None, repr=False, compare=False)

    def size(self) -> int:
        """Bytes that :meth:`read` gives."""
        if self.content is not None:
            return self._allowed(len(self.content))
        if self.length is not None:
            return self._allowed(self.length)
        with distant(self.name, PhotoError):
            file_system, path = fsspec.core.url_to_fs(self.url)
            return self._allowed(int(file_system.size(path)))

    def read(self, at_most: int = MAX_FILE_BYTES) -> bytes:
        """The content."""
        if self.content is not None:
            return self.content
        with distant(self.name, PhotoError):
            file_system, path = fsspec.core.url_to_fs(self.url)
            end = None if self.length is None else self.start + self.length
            content = bytes(file_system.cat_file(path, start=self.start or None, end=end))
        if len(content) > at_most or (self.length is not None and len(content) != self.length):
            raise PhotoError(f"{self.name}: cannot be read (its file has changed meanwhile)")
        return content

    def shorter_side(self) -> int:
        """Pixels of its shorter side, from the header of the image."""
        import io

        with self._named():
            return shorter_side(io.BytesIO(self.read()))

    def _allowed(self, size: int) -> int:
        if size > MAX_FILE_BYTES:
            raise PhotoError(f"{self.name}: cannot be read (it has {size:,} bytes, and at most {MAX_FILE_BYTES:,} are)")
        return size


class distant:  # noqa: N801  # used like a function, in with statements
    """Trouble with an address becomes an error of ours that names it.

    Parameters
    ----------
    name : str
        The address.
    kind : type
        Of the error.
    """

    def __init__(self, name: str, kind: type[DataError] | type[PhotoError] = DataError) -> None:
        self._name, self._kind = name, kind

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: Any) -> None:
        if isinstance(error, self._kind):
            return
        if isinstance(error, OSError):
            reason = error.strerror or str(error) or type(error).__name__
            raise self._kind(f"{self._name}: cannot be read ({reason})") from error
        if isinstance(error, ImportError):
            raise DataError(f"{self._name}: its kind of address needs another package ({error}).") from error
        if isinstance(error, ValueError) and "Protocol not known" in str(error):
            raise DataError(f"{self._name}: no such kind of address ({error}). Expected such as s3:// or file://.")


def file_key(url: str) -> str:
    """By which a file is known again: another one if it has changed.

    Parameters
    ----------
    url : str
        Its address.
    """
    with distant(url):
        file_system, path = fsspec.core.url_to_fs(url)
        return f"{url} {file_system.ukey(path)}"
