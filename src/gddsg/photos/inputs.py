"""Photos from whatever a program has at hand: paths, images that Pillow has opened, arrays of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gddsg.data.dataset import PhotoListing, Skipped
from gddsg.data.decoding import upright_rgb
from gddsg.data.image_folder import unlabelled_photos
from gddsg.data.photo import Photo
from gddsg.errors import InputError, PhotoError

ImageLike = str | PathLike[str] | Image.Image | NDArray[np.uint8]
"""A path of an image file or of a folder of them, an image of Pillow, or an array of pixels."""

_EXPECTED = "expected paths, images of Pillow, or uint8 arrays (height, width, 3) or (height, width)"


def list_images(images: Sequence[ImageLike]) -> PhotoListing:
    """The photos that are meant, without labels, in the order given.

    Parameters
    ----------
    images : sequence of ImageLike
        Paths, images and arrays, in any mixture. What has no name of its own is called ``image 1`` and so on, after
        its place among them.
    """
    photos: list[Photo] = []
    skipped: list[Skipped] = []
    numbered = enumerate(images, start=1)
    for are_paths, group in groupby(numbered, key=lambda pair: isinstance(pair[1], str | PathLike)):
        some: list[tuple[int, Any]] = list(group)
        part = unlabelled_photos(*(path for _, path in some)) if are_paths else _list_in_memory(some)
        photos += part.photos
        skipped += part.skipped
    if not images:
        raise InputError(f"No image was given; {_EXPECTED}.")
    return PhotoListing(tuple(photos), tuple(skipped))


def _list_in_memory(images: Sequence[tuple[int, Any]]) -> PhotoListing:
    photos, skipped = [], []
    for number, image in images:
        name = str(getattr(image, "filename", "") or f"image {number}")
        try:
            photos.append(Photo.of_pixels(_pixels(image, number), "", name))
        except PhotoError as error:
            skipped.append(Skipped(name, str(error)))
    return PhotoListing(tuple(photos), tuple(skipped))


def _pixels(image: Any, number: int) -> NDArray[np.uint8]:
    """``(height, width, 3)`` of an image or an array."""
    if isinstance(image, Image.Image):
        return np.asarray(upright_rgb(image))
    if not isinstance(image, np.ndarray):
        several = "; several are given one by one, predict(*images)" if isinstance(image, list | tuple) else ""
        raise InputError(f"Image {number} is of type {type(image).__name__}; {_EXPECTED}{several}.")
    grey, colours = image.ndim == 2, image.ndim == 3 and image.shape[2] == 3
    if image.dtype != np.uint8 or not (grey or colours) or not image.size:
        raise InputError(
            f"Image {number} is an array of shape {image.shape} and type {image.dtype}; expected pixels from 0 to 255, "
            "uint8, of shape (height, width, 3) with red, green and blue, or (height, width) for grey. Several images "
            "are given one by one, predict(*images)."
        )
    return np.repeat(image[:, :, None], 3, axis=2) if grey else image
