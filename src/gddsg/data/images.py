"""Images as inputs: picked by rows without being looked at, decoded when asked, augmented on request."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gddsg.data.photo import MAX_FILE_BYTES, Photo
from gddsg.errors import InputError, InputTypeError

__all__ = ["Images"]

Pixels = NDArray[np.uint8]
Box = tuple[float, float, float, float]

_ATTEMPTS = 10
_DRAWS = 4 * _ATTEMPTS + 1  # area, shape, left and top of each attempt, and the flip
_NO_NAME = "a photo"
_SPARE_AT_TEST, _SPARE_IN_TRAINING = 2, 4  # how many times ``size`` a JPEG keeps: a small cut-out needs more


@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Images in a certain order, none of them decoded yet. It never changes; some rows of it are another ``Images``.

    Made by :meth:`of`. ``images[rows]`` takes whole numbers, a mask or a slice, as an array does.

    Attributes
    ----------
    source : tuple of Photo, or ndarray
        Photos, or pixels ``(n, height, width, 3)`` uint8.
    rows : ndarray
        Places in ``source``, ``(n_images,)``.

    Examples
    --------
    >>> images = Images.of(np.zeros((5, 8, 12, 3), dtype=np.uint8))
    >>> len(images), len(images[[0, 3]]), images[1:].pixels(4).shape
    (5, 2, (4, 4, 4, 3))
    """

    source: tuple[Photo, ...] | Pixels
    rows: NDArray[np.intp]

    @classmethod
    def of(cls, source: Any) -> Images:
        """Images of what holds some.

        Parameters
        ----------
        source : Images, sequence of Photo, or ndarray
            An array is ``(n, height, width, 3)`` uint8, and is copied unless it cannot be written to.
        """
        if isinstance(source, Images):
            return source
        if isinstance(source, np.ndarray):
            pixels = _frozen(source)
            return cls(pixels, np.arange(len(pixels)))
        photos = tuple(source) if isinstance(source, Sequence) and not isinstance(source, str) else (None,)
        if not all(isinstance(photo, Photo) for photo in photos):
            raise InputTypeError(
                f"A {type(source).__name__} was given; expected images: Images, a list of Photo, or pixels "
                "(n, height, width, 3) uint8 in an array."
            )
        return cls(photos, np.arange(len(photos)))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Any) -> Images:
        if not isinstance(chosen, slice):
            chosen = np.asarray(chosen)
            if chosen.ndim != 1:
                raise InputTypeError(
                    "Images were indexed by something else than rows; expected whole numbers, a mask or a slice, such "
                    "as images[[3]] for one image."
                )
            chosen = chosen if chosen.dtype == bool else chosen.astype(np.intp, casting="safe") if len(chosen) else []
        return Images(self.source, self.rows[chosen])

    def __repr__(self) -> str:
        kind = "pixels" if isinstance(self.source, np.ndarray) else "photos"
        return f"Images({len(self)} of {kind})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Some rows take no more room in a pickle than they need."""
        if isinstance(self.source, np.ndarray):
            return Images.of, (self.source[self.rows],)
        return Images.of, (tuple(self.source[row] for row in self.rows.tolist()),)

    def bare(self) -> Images:
        """The same images as somebody has them who knows nothing else: no other rows, no labels, names or places."""
        if isinstance(self.source, np.ndarray):
            pixels = self.source[self.rows]
            pixels.flags.writeable = False  # nobody else has this copy, so it need not be copied again
            return Images.of(pixels)
        return Images.of(tuple(_BarePhoto.of(self.source[row]) for row in self.rows.tolist()))

    def pixels(self, size: int, rows: Any = None, *, crop: float = 1.0) -> Pixels:
        """The central square of each image, resized: ``(n, size, size, 3)`` uint8.

        Parameters
        ----------
        size : int
            Height and width of the result.
        rows : array_like, optional
            Which images, as in ``images[rows]``; all of them unless told.
        crop : float, optional
            Share of the shorter side that is used; 0.875 is what 224 pixels out of 256 are.
        """
        _check_size(size)
        if not 0 < crop <= 1:
            raise InputError(f"crop={crop!r} was given; expected a share of the shorter side, above 0 and up to 1.")
        chosen = self if rows is None else self[rows]

        def cut(image: Image.Image, _: int) -> Image.Image:
            return image.resize((size, size), Image.Resampling.BICUBIC, box=_centre(image.size, crop))

        return chosen._made(size, math.ceil(_SPARE_AT_TEST * size / crop), cut)

    def prepared(self, prepare: Callable[[Image.Image], NDArray[Any]], useful_side: int) -> NDArray[Any]:
        """What ``prepare`` makes of each image in turn, stacked.

        Parameters
        ----------
        prepare : callable
            From an RGB image of Pillow to an array, such as the preprocessing of a backbone.
        useful_side : int
            Pixels that the shorter side should have at least; a JPEG may be decoded no larger than twice that.
        """
        return np.stack([np.asarray(prepare(self._image(row, useful_side))) for row in self.rows.tolist()])

    def augmented(
        self,
        size: int,
        random: np.random.Generator,
        rows: Any = None,
        *,
        scale: tuple[float, float] = (0.05, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        flip: float = 0.5,
    ) -> Pixels:
        """A random part of each image, resized and perhaps mirrored: ``(n, size, size, 3)`` uint8.

        Every image takes equally many numbers from ``random``, whatever its shape: the same generator and the same rows
        give the same pixels, and a damaged photo that is left out shifts nothing but itself.

        Parameters
        ----------
        size : int
            Height and width of the result.
        random : numpy.random.Generator
            What all draws come from.
        rows : array_like, optional
            Which images, as in ``images[rows]``; all of them unless told. A training loop draws
            ``order = random.permutation(len(images))`` and hands in ``order[start : start + 32]``, batch by batch.
        scale : pair of float, optional
            Least and largest share of the area.
        ratio : pair of float, optional
            Least and largest width for a height of 1, before resizing.
        flip : float, optional
            Share of images that are mirrored, left and right exchanged.
        """
        _check_size(size)
        _check_ranges(scale, ratio, flip)
        chosen = self if rows is None else self[rows]
        draws = _draws(len(chosen), random)

        def cut(image: Image.Image, place: int) -> Image.Image:
            box = _random_box(image.size, draws[place], scale, ratio)
            part = image.resize((size, size), Image.Resampling.BICUBIC, box=box)
            return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if draws[place, -1] < flip else part

        return chosen._made(size, _SPARE_IN_TRAINING * size, cut)

    @staticmethod
    def skip(n: int, random: np.random.Generator) -> None:
        """Take from ``random`` what :meth:`augmented` takes for ``n`` images, which somebody else looks at."""
        _draws(n, random)

    def digest(self) -> bytes:
        """SHA-256 of all images together, in their order; see :meth:`digests`."""
        return hashlib.sha256(b"".join(self.digests())).digest()

    def digests(self) -> list[bytes]:
        """SHA-256 of each image as it is stored: it is read, and not decoded."""
        found = []
        for row in self.rows.tolist():
            one = self.source[row]
            content = one.read() if isinstance(one, Photo) else repr(one.shape).encode() + one.tobytes()
            found.append(hashlib.sha256(content).digest())
        return found

    def _made(self, size: int, at_least: int, cut: Callable[[Image.Image, int], Image.Image]) -> Pixels:
        made = np.empty((len(self), size, size, 3), dtype=np.uint8)
        for place, row in enumerate(self.rows.tolist()):
            made[place] = np.asarray(cut(self._image(row, at_least), place))
        return made

    def _image(self, row: int, at_least: int) -> Image.Image:
        """One RGB image; a :class:`gddsg.errors.PhotoError` that names the photo where it cannot be decoded."""
        if isinstance(self.source, np.ndarray):
            return Image.fromarray(self.source[row])
        photo = self.source[row]
        return photo.image(b"" if photo.pixels is not None else photo.read(), at_least)


@dataclass(frozen=True)
class _BarePhoto(Photo):
    """A photo that does not tell its label, name or folder, which in most data sets is the label once more.

    Errors still name the file: who mends the data set has to find it.
    """

    _photo: Photo = field(default=Photo(""), repr=False)

    @classmethod
    def of(cls, photo: Photo) -> Photo:
        """What there is to see of a photo."""
        if isinstance(photo, cls):
            return photo
        if photo.pixels is None:
            return cls(_NO_NAME, _photo=photo)
        return Photo.of_pixels(photo.pixels.copy(), "", _NO_NAME)  # they may be a view of those of all photos

    def size(self) -> int:
        return self._photo.size()

    def read(self, at_most: int = MAX_FILE_BYTES) -> bytes:
        return self._photo.read(at_most)

    def shorter_side(self) -> int:
        return self._photo.shorter_side()

    def decoded_bytes(self, content: bytes, at_least: int) -> int:
        return self._photo.decoded_bytes(content, at_least)

    def image(self, content: bytes, at_least: int) -> Image.Image:
        return self._photo.image(content, at_least)


def _frozen(array: NDArray[Any]) -> Pixels:
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[3] != 3 or 0 in array.shape[1:]:
        raise InputError(
            f"Pixels of shape {array.shape} and type {array.dtype} were given; expected (n, height, width, 3) uint8."
        )
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def _draws(n: int, random: np.random.Generator) -> NDArray[np.float64]:
    return random.random((n, _DRAWS))


def _check_size(size: int) -> None:
    if not isinstance(size, int | np.integer) or size < 1:
        raise InputError(f"size={size!r} was given; expected a whole number of pixels from 1, such as 224.")


def _check_ranges(scale: tuple[float, float], ratio: tuple[float, float], flip: float) -> None:
    if not 0 < scale[0] <= scale[1] <= 1:
        raise InputError(
            f"scale={scale!r} was given; expected shares of the area, above 0 and up to 1, such as (0.05, 1)."
        )
    if not 0 < ratio[0] <= ratio[1] < math.inf:
        raise InputError(f"ratio={ratio!r} was given; expected widths for a height of 1, such as (0.75, 1.33).")
    if not 0 <= flip <= 1:
        raise InputError(f"flip={flip!r} was given; expected the share of images to mirror, from 0 to 1.")


def _centre(size: tuple[int, int], crop: float) -> Box:
    """Left, top, right, bottom of the central square; cutting and resizing in one step never blows up a panorama."""
    side = crop * min(size)
    left, top = (size[0] - side) / 2, (size[1] - side) / 2
    return left, top, left + side, top + side


def _random_box(
    size: tuple[int, int], draws: NDArray[np.float64], scale: tuple[float, float], ratio: tuple[float, float]
) -> Box:
    """Left, top, right, bottom of a random part: its area uniform, its shape log-uniform; the first that fits."""
    width, height = size
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for area, shape, across, down in draws[:-1].reshape(_ATTEMPTS, 4).tolist():
        target = width * height * (scale[0] + area * (scale[1] - scale[0]))
        relative = math.exp(low + shape * (high - low))
        w, h = math.sqrt(target * relative), math.sqrt(target / relative)
        if w <= width and h <= height:
            left, top = across * (width - w), down * (height - h)
            return left, top, min(left + w, width), min(top + h, height)
    return _largest_centre(size, ratio)


def _largest_centre(size: tuple[int, int], ratio: tuple[float, float]) -> Box:
    """The largest central part of a shape that ``ratio`` allows."""
    width, height = size
    relative = min(max(width / height, ratio[0]), ratio[1])
    w, h = min(width, height * relative), min(height, width / relative)
    left, top = (width - w) / 2, (height - h) / 2
    return left, top, left + w, top + h
