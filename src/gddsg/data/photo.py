"""A photo: the bytes of one image, and its label."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gddsg.data.decoding import decode, decoded_bytes, shorter_side
from gddsg.data.reading import open_plain, plain_size, read_plain
from gddsg.errors import PhotoError

MAX_FILE_BYTES = 250_000_000
"""A file larger than this is not read: no photo is, and one that fills the memory would take all others with it."""

_SHAPE = np.dtype("<u4")
_ID_BYTES = 8


@dataclass(frozen=True)
class Photo:
    """One image that can be read at any time.

    Attributes
    ----------
    name : str
        What messages call it: a path, or such as ``cifar100/train/17``.
    label : str
        Its class; empty where it is not known.
    path : Path or None
        The file; None for pixels that are in memory.
    pixels : ndarray or None
        ``(height, width, 3)`` uint8, for photos that are in no file of their own.
    """

    name: str
    label: str = ""
    path: Path | None = None
    pixels: np.ndarray[Any, np.dtype[np.uint8]] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of_file(cls, path: Path, label: str = "") -> Photo:
        """The photo in a file."""
        return cls(str(path), label, path)

    @classmethod
    def of_pixels(cls, pixels: np.ndarray[Any, np.dtype[np.uint8]], label: str, name: str) -> Photo:
        """A photo of pixels ``(height, width, 3)`` uint8."""
        return cls(name, label, None, pixels)

    def size(self) -> int:
        """Bytes that :meth:`read` gives, or a :class:`PhotoError` where it would raise one."""
        if self.pixels is not None:
            return _SHAPE.itemsize * self.pixels.ndim + self.pixels.nbytes
        try:
            return plain_size(self.path or Path(self.name), MAX_FILE_BYTES)
        except OSError as error:
            raise self._unreadable(error) from error

    def read(self, at_most: int = MAX_FILE_BYTES) -> bytes:
        """The content: of the file, or of the pixels after their shape.

        Parameters
        ----------
        at_most : int
            A larger file is refused; pixels in memory come whole.
        """
        if self.pixels is not None:
            return np.array(self.pixels.shape, _SHAPE).tobytes() + np.ascontiguousarray(self.pixels).tobytes()
        try:
            return read_plain(self.path or Path(self.name), at_most)
        except OSError as error:
            raise self._unreadable(error) from error
        except MemoryError as error:
            raise PhotoError(f"{self.name}: there is not enough memory to read it") from error

    def shorter_side(self) -> int:
        """Pixels of its shorter side, from the header of the file; a :class:`PhotoError` where it has none to read."""
        if self.pixels is not None:
            return int(min(self.pixels.shape[:2]))
        try:
            with self._named(), open_plain(self.path or Path(self.name), MAX_FILE_BYTES) as file:
                return shorter_side(file)
        except OSError as error:
            raise self._unreadable(error) from error

    def decoded_bytes(self, content: bytes, at_least: int) -> int:
        """Memory that :meth:`image` takes, about; a :class:`PhotoError` if that is too much.

        Parameters
        ----------
        content : bytes
            What :meth:`read` gave.
        at_least : int
            As for :meth:`image`.
        """
        if self.pixels is not None:
            return 4 * self.pixels.nbytes // 3
        with self._named():
            return decoded_bytes(content, at_least)

    def image(self, content: bytes, at_least: int) -> Image.Image:
        """The RGB image in what was read; see :func:`gddsg.data.decoding.decode`.

        Parameters
        ----------
        content : bytes
            What :meth:`read` gave.
        at_least : int
            Pixels that the shorter side should keep; 0 for all there are.
        """
        if self.pixels is not None:
            return Image.fromarray(self.pixels, "RGB")
        with self._named():
            return decode(content, at_least)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except PhotoError as error:
            raise PhotoError(f"{self.name}: {error}") from error.__cause__

    def _unreadable(self, error: OSError) -> PhotoError:
        remedy = "; make a smaller copy of it, or leave it out" if error.errno == errno.EFBIG else ""
        return PhotoError(f"{self.name}: cannot be read ({error.strerror or error}){remedy}")


def content_key(content: bytes) -> bytes:
    """SHA-256 of a photo's content: equal photos have one key, wherever they are and whatever they are called.

    Parameters
    ----------
    content : bytes
        What :meth:`Photo.read` gave.
    """
    return hashlib.sha256(content).digest()


def identify_sample(key: bytes) -> int:
    """The sample id of a photo: the first 64 bits of its key, which even of a billion photos hardly two would share.

    Parameters
    ----------
    key : bytes
        What :func:`content_key` gives.
    """
    return int.from_bytes(key[:_ID_BYTES], "big")


def start_of_key(sample: int) -> bytes:
    """What the key of a photo begins with, by its sample id.

    Parameters
    ----------
    sample : int
        What :func:`identify_sample` gives.
    """
    return sample.to_bytes(_ID_BYTES, "big")
