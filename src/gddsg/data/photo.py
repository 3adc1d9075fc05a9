"""A photo: the bytes of one image, its label, and the one way to turn the bytes into pixels."""

from __future__ import annotations

import hashlib
import io
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from gddsg.errors import PhotoError

MAX_PIXELS = 178_956_970
"""More than this (a decompressed half gigabyte) is refused unread: a small file can claim any size."""

# Formats that hold pixels and are decoded by Pillow itself; others can start programs (EPS) or hold no photo at all.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "TGA", "ICO", "AVIF")


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

    def read(self) -> bytes:
        """The content: of the file, or of the pixels after their shape."""
        if self.pixels is not None:
            return np.array(self.pixels.shape, dtype="<u4").tobytes() + np.ascontiguousarray(self.pixels).tobytes()
        try:
            with (self.path or Path(self.name)).open("rb", buffering=0) as file:  # half the time of read_bytes
                return file.read()
        except OSError as error:
            raise PhotoError(f"{self.name}: cannot be read ({error.strerror or error})") from error

    def image(self, content: bytes, at_least: int) -> Image.Image:
        """The RGB image in what was read; see :func:`decode`.

        Parameters
        ----------
        content : bytes
            What :meth:`read` gave.
        at_least : int
            Pixels that the shorter side should keep; 0 for all there are.
        """
        if self.pixels is not None:
            return Image.fromarray(self.pixels, "RGB")
        try:
            return decode(content, at_least)
        except PhotoError as error:
            raise PhotoError(f"{self.name}: {error}") from error.__cause__


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
    return int.from_bytes(key[:8], "big")


def decode(content: bytes, at_least: int = 0) -> Image.Image:
    """An upright RGB image from the bytes of an image file, or a :class:`PhotoError`.

    Of an animation it is the first frame; transparent parts become white; 16 bits become 8.

    Parameters
    ----------
    content : bytes
        Of the file.
    at_least : int
        Allows a large JPEG to be decoded at a fraction of its size, as long as no side falls below that many pixels;
        0 forbids it.
    """
    if not content:
        raise PhotoError("the file is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd metadata and sizes below our own limit: the pixels decide
            return _decode(content, at_least)
    except PhotoError:
        raise
    except UnidentifiedImageError as error:
        raise PhotoError("not an image of a known format") from error
    except Exception as error:
        raise PhotoError(f"damaged image ({type(error).__name__}: {error})") from error


@cache
def _installed_formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _decode(content: bytes, at_least: int) -> Image.Image:
    with Image.open(io.BytesIO(content), formats=_installed_formats()) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise PhotoError(f"{width} × {height} pixels; at most {MAX_PIXELS} are decoded")
        if at_least:
            image.draft("RGB", (at_least, at_least))
        image.seek(0)
        image.load()
        return _rgb(ImageOps.exif_transpose(image))


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise PhotoError("pixels are floating-point numbers of unknown range; save it with 8 or 16 bits")
    if image.mode.startswith("I"):  # 16 bits, which Pillow would clip at 255 instead of scaling
        values = np.asarray(image).astype(np.int64)
        shift = 8 if values.size and int(values.max()) > 255 else 0
        return Image.fromarray((values >> shift).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")
