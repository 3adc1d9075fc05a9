"""The one way from the bytes of an image file to pixels, within stated limits of memory."""

from __future__ import annotations

import ctypes
import io
import os
import re
import struct
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from threading import Lock
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, TiffImagePlugin, UnidentifiedImageError
from PIL.ImageFile import ImageFile

from gddsg.errors import PhotoError

__all__ = ["MAX_DECODED_BYTES", "MAX_PIXELS", "decode", "decoded_bytes", "reads_heic", "shorter_side", "upright_rgb"]

MAX_PIXELS = 178_956_970
"""More than this is refused unread: a small file can claim any size."""

MAX_DECODED_BYTES = 800_000_000
"""Memory that decoding one image may take, as estimated from its header; above it is refused undecoded."""

# Above this an image is brought near the useful size before it is converted; below, pixels stay what they always were,
# for models and caches rely on them.
_REDUCED_ABOVE = 16_000_000
_STRIP_PIXELS = 1_000_000  # converted at a time
_MAX_FACTOR = 64  # a strip has at least as many rows
_STRIP_BYTES = 24  # memory a pixel of a strip takes while it is converted: several copies with four channels
_RETURNED_ABOVE = 100_000_000  # bytes; for less it is not worth the while
_MAX_SCANS = 200  # of a JPEG; ten are usual where it is not one
_JPEG_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")  # those with a length, and the end
_SCAN, _END, _PROGRESSIVE = 0xDA, 0xD9, frozenset({0xC2, 0xC6, 0xCA, 0xCE})
_MAX_ICON_PIXELS = 2048 * 2048  # Pillow decodes icons as soon as it opens them

# Formats that hold pixels and are decoded by Pillow itself; others can start programs (EPS) or hold no photo at all.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "TGA", "ICO", "AVIF")
_PIXEL_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}  # four for all others
# What a decoder takes for itself, a pixel, beside the image: measured, rounded up.
_DECODER_BYTES = {"WEBP": 13, "AVIF": 13, "JPEG2000": 20, "GIF": 3, "BMP": 2, "ICO": 12, "HEIF": 13}
# Where width and height are in what an icon holds, by how that begins: PNG, the oldest bitmap, any other bitmap.
_ICON_SIDES = {b"\x89PNG": (">ii", 16), b"\x0c\0\0\0": ("<HH", 4)}

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def decode(content: bytes, at_least: int = 0) -> Image.Image:
    """An upright RGB image from the bytes of an image file, or a :class:`PhotoError`.

    Of an animation it is the first frame; transparent parts become white; 16 bits become 8.

    Parameters
    ----------
    content : bytes
        Of the file.
    at_least : int
        Allows a large JPEG, and every image of more than 16 million pixels, to come at a fraction of its size, as long
        as no side falls below that many pixels; 0 forbids it.
    """
    with _telling_of_faults():
        with closing(_opened(content)) as image:
            needed = _decoded_bytes(image, content, at_least)
            _refuse_large(image, needed)
            if image.format != "HEIF":  # there one of the images is the main one, and it comes first by itself
                image.seek(0)
            image.load()
            turn = _turn(image)
            upright = _rgb_in_strips(image, _factor(image.size, at_least))
        if needed > _RETURNED_ABOVE:
            _return_memory()
        return upright if turn is None else upright.transpose(turn)


def upright_rgb(image: Image.Image) -> Image.Image:
    """The same for an image that a program has opened or made with Pillow, in its full size.

    Parameters
    ----------
    image : Image.Image
        Of any mode but floating-point numbers; it stays as it is.
    """
    with _telling_of_faults():
        width, height = image.size
        if not width or not height:
            raise PhotoError(f"{width} × {height} pixels: there is nothing on it")
        if width * height > MAX_PIXELS:
            raise PhotoError(f"{width} × {height} pixels; at most {MAX_PIXELS} are used")
        image.load()
        turn = _turn(image)
        upright = _rgb_in_strips(image, 1)
        return upright if turn is None else upright.transpose(turn)


def _turn(image: Image.Image) -> Image.Transpose | None:
    """What makes an image upright, as its camera says."""
    return _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))


def decoded_bytes(content: bytes, at_least: int = 0) -> int:
    """Memory that :func:`decode` takes, as far as the header of the image tells; a :class:`PhotoError` if too much.

    Parameters
    ----------
    content : bytes
        Of the file.
    at_least : int
        As for :func:`decode`.
    """
    with _telling_of_faults(), closing(_opened(content)) as image:
        needed = _decoded_bytes(image, content, at_least)
        _refuse_large(image, needed)
        return needed


def shorter_side(file: BinaryIO) -> int:
    """Pixels of the shorter side of an image, as its header says; a :class:`PhotoError` where there is none.

    Parameters
    ----------
    file : binary file
        Of the image. An icon counts as no image, for it would be decoded as soon as it is opened.
    """
    formats = [name for name in _installed_formats() if name != "ICO"]
    with _telling_of_faults(), closing(Image.open(file, formats=formats)) as image:
        return min(image.size)


class _Silence:
    """Warnings of odd metadata and sizes below our own limit are ignored while any thread decodes: the pixels decide.

    Filters are of the whole process; threads that each set and reset them would leave them set in the end.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._threads = 0
        self._filters = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if self._threads == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
            self._threads += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._threads -= 1
            if self._threads == 0:
                self._filters.__exit__(None, None, None)


_SILENCE = _Silence()


@contextmanager
def _telling_of_faults() -> Iterator[None]:
    """Whatever is wrong with an image is a :class:`PhotoError`; no list of what decoders raise would be complete."""
    try:
        with _SILENCE:
            yield
    except PhotoError:
        raise
    except UnidentifiedImageError as error:
        raise PhotoError("not an image of a known format") from error
    except Image.DecompressionBombError as error:  # Pillow refuses as much as we do, before we have seen the size
        numbers = re.findall(r"\d+", str(error))
        raise _too_many_pixels(f"{int(numbers[0]):,}" if numbers else "more than Pillow opens") from error
    except MemoryError as error:
        raise PhotoError("there is not enough memory to decode it; make a smaller copy of it") from error
    except Exception as error:
        raise PhotoError(f"damaged image ({type(error).__name__}: {error})") from error


@cache
def _installed_formats() -> tuple[str, ...]:
    Image.init()
    wanted = (*_FORMATS, "HEIF") if reads_heic() else _FORMATS
    return tuple(name for name in wanted if name in Image.OPEN)


@cache
def reads_heic() -> bool:
    """Whether HEIC images, as many telephones take them, can be decoded: it takes the package ``pillow-heif``."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    # pixels shall not depend on whether there is a thumbnail in the file, and threads are ours to share out
    register_heif_opener(thumbnails=False, decode_threads=1)
    return True


def _opened(content: bytes) -> ImageFile:
    if not content:
        raise PhotoError("the file is empty")
    _refuse_large_icons(content)
    return Image.open(io.BytesIO(content), formats=_installed_formats())


def _return_memory() -> None:
    """Give freed memory back to the system: glibc keeps it for each thread by itself, which adds up to gigabytes."""
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is not None:
        trim(0)


@cache
def _c_library() -> ctypes.CDLL | None:
    return None if os.name == "nt" else ctypes.CDLL(None)


def _refuse_large(image: ImageFile, needed: int) -> None:
    width, height = image.size
    if needed > MAX_DECODED_BYTES:
        raise PhotoError(
            f"decoding its {width} × {height} pixels would take {needed:,} bytes of memory, and at most "
            f"{MAX_DECODED_BYTES:,} are used; make a smaller copy of it"
        )


def _too_many_pixels(how_many: str) -> PhotoError:
    return PhotoError(f"too many pixels ({how_many}), at most {MAX_PIXELS:,} are decoded; make a smaller copy of it")


def _refuse_large_icons(content: bytes) -> None:
    """An icon has at most 256 × 256 pixels, but the PNG or bitmap in it may claim any size."""
    if not content.startswith(b"\0\0\1\0"):
        return
    for entry in range(6, 6 + 16 * int.from_bytes(content[4:6], "little"), 16):
        place = int.from_bytes(content[entry + 12 : entry + 16], "little")
        head = content[place : place + 24].ljust(24, b"\0")
        sides = _ICON_SIDES.get(head[:4], ("<ii", 4))
        width, height = map(abs, struct.unpack_from(sides[0], head, sides[1]))
        if width * height > 2 * _MAX_ICON_PIXELS:  # a bitmap counts its mask as another half
            raise PhotoError(f"an icon of {width} × {height} pixels; at most {_MAX_ICON_PIXELS} are decoded")


# How much memory: from the header alone, before a pixel is decoded.


def _decoded_bytes(image: ImageFile, content: bytes, at_least: int) -> int:
    """Estimate the memory, after telling the decoder to give no more than is useful where it can."""
    pixels = image.width * image.height
    if pixels > MAX_PIXELS:
        raise _too_many_pixels(f"{image.width} × {image.height}")
    own = _jpeg_bytes(image, content)
    width, height = _shrink(image, content, at_least)
    factor = _factor((width, height), at_least)
    own += _DECODER_BYTES.get(image.format or "", 0) * width * height + _block_bytes(image)
    source = _PIXEL_BYTES.get(image.mode, 4) * width * height
    strip = _STRIP_BYTES * min(_strip_rows(width, factor), height) * width
    result = 4 * -(-width // factor) * -(-height // factor)
    return max(source + max(own, strip + result), 2 * result)  # turning makes a copy, but the source is gone by then


def _factor(size: tuple[int, int], at_least: int) -> int:
    """By how much both sides of a large image may be divided."""
    large = at_least and size[0] * size[1] > _REDUCED_ABOVE
    return max(min(min(size) // at_least, _MAX_FACTOR), 1) if large else 1


def _strip_rows(width: int, factor: int) -> int:
    """Rows converted at a time: a multiple of the factor, so that strips are reduced as the whole would be."""
    return max(_STRIP_PIXELS // (max(width, 1) * factor), 1) * factor


def _shrink(image: ImageFile, content: bytes, at_least: int) -> tuple[int, int]:
    """Width and height that the decoder will give, which for some formats need not be those of the file."""
    if image.format != "JPEG2000":
        if at_least:
            image.draft("RGB", (at_least, at_least))
        return image.size
    most = min(_factor(image.size, at_least).bit_length() - 1, _jpeg2000_levels(content))
    halvings = max(n for n in range(most + 1) if _halved(image.size, n) == _rounded_up(image.size, n))
    image.reduce = halvings  # type: ignore[method-assign,assignment]  # a number in this format alone
    return _halved(image.size, halvings)


def _halved(size: tuple[int, int], times: int) -> tuple[int, int]:
    """Sides as Pillow expects them from the decoder of JPEG 2000, and fails where that one rounds otherwise."""
    width, height = ((side + (1 << times >> 1)) >> times for side in size)
    return width, height


def _rounded_up(size: tuple[int, int], times: int) -> tuple[int, int]:
    """Sides as the decoder gives them."""
    width, height = (-(-side >> times) for side in size)
    return width, height


def _jpeg2000_levels(content: bytes) -> int:
    """How often a JPEG 2000 can be halved, from its first marker "coding style default"; 0 where there is none."""
    place = content.find(b"\xff\x52", content.find(b"\xff\x4f\xff\x51"))
    return content[place + 9] if 0 <= place < len(content) - 9 else 0


def _jpeg_bytes(image: ImageFile, content: bytes) -> int:
    """A JPEG that comes in several scans is held whole, as coefficients of 16 bits, whatever size is asked for.

    Each scan passes over the whole image: a small file with thousands of them would take hours.
    """
    bands = len(image.getbands())
    if image.format not in {"JPEG", "MPO"} or not _in_several_scans(content, bands):
        return 0
    for number, _ in enumerate(place for marker, place in _jpeg_segments(content) if marker == _SCAN):
        if number >= _MAX_SCANS:
            raise PhotoError(f"a JPEG in more than {_MAX_SCANS} scans, which no camera writes; save it again")
    return 2 * bands * image.width * image.height


def _in_several_scans(content: bytes, bands: int) -> bool:
    """Whether a JPEG is progressive, or the first scan leaves out some components."""
    for marker, place in _jpeg_segments(content):
        if marker in _PROGRESSIVE:
            return True
        if marker == _SCAN:
            return content[place + 4] < bands
    return False


def _jpeg_segments(content: bytes) -> Iterator[tuple[int, int]]:
    """Marker and place of each segment with a length, up to the end of the image."""
    place = 2
    while found := _JPEG_MARKER.search(content, place):
        marker, place = content[found.end() - 1], found.end() - 2
        if marker == _END or place + 5 > len(content):
            return
        yield marker, place
        place += 2 + struct.unpack_from(">H", content, place + 2)[0]


def _block_bytes(image: ImageFile) -> int:
    """A TIFF is decompressed by strips or tiles, each held whole, and may claim tiles larger than the image."""
    if not isinstance(image, TiffImagePlugin.TiffImageFile):
        return 0
    tags = image.tag_v2
    strip = min(int(tags.get(TiffImagePlugin.ROWSPERSTRIP, image.height)), image.height) * image.width
    block = int(tags.get(TiffImagePlugin.TILEWIDTH, 0)) * int(tags.get(TiffImagePlugin.TILELENGTH, 0)) or strip
    bits = max(tags.get(TiffImagePlugin.BITSPERSAMPLE, (8,)))
    return block * int(tags.get(TiffImagePlugin.SAMPLESPERPIXEL, 1)) * max(int(bits), 8) // 8


# From what the decoder gave to RGB.


def _rgb_in_strips(image: Image.Image, factor: int) -> Image.Image:
    """RGB with both sides divided; the copies this takes are of one strip at a time."""
    if image.mode == "F":
        raise PhotoError("pixels are floating-point numbers of unknown range; save it with 8 or 16 bits")
    width, height = image.size
    rows = _strip_rows(width, factor)
    boxes = [(0, top, width, min(top + rows, height)) for top in range(0, height, rows)]
    shift = _shift(image, boxes) if image.mode.startswith("I") else 0
    if len(boxes) == 1 and factor == 1:
        return _rgb(image, shift)
    result = Image.new("RGB", (-(-width // factor), -(-height // factor)))
    for box in boxes:
        result.paste(_rgb(image.crop(box), shift).reduce(factor), (0, box[1] // factor))
    return result


def _shift(image: Image.Image, boxes: list[tuple[int, int, int, int]]) -> int:
    """Bits to drop from numbers that Pillow would clip at 255 instead of scaling; none where they fit 8 bits."""
    return 8 if any(np.asarray(image.crop(box)).max() > 255 for box in boxes) else 0


def _rgb(image: Image.Image, shift: int) -> Image.Image:
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image) >> shift).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")
