"""How good a new model should be: which backbone it gets, by the sizes of the first photos it learns."""

from __future__ import annotations

import hashlib
import heapq
import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from gddsg.data.photo import Photo
from gddsg.errors import InputError, PhotoError

DEFAULT_QUALITY = "good"

THUMBNAIL_SIDE = 64
"""Where the shorter side of most photos has fewer pixels than this, they are thumbnails: an input of 288 pixels does
photos of birds good down to 48, and at 32 no more (docs/photos.md)."""

_FOR_PHOTOS: dict[str, str] = {
    "fast": "efficientnet-lite0",
    "good": "efficientnet-lite0@288",
    "best": "efficientnet-lite1@320+efficientnet-lite2@340",
}
_FOR_THUMBNAILS: dict[str, str] = {
    "fast": "efficientnet-lite0",
    "good": "efficientnet-lite0",
    "best": "efficientnet-lite1+efficientnet-lite2",
}
_ENOUGH = 99  # photos for a median
_MOST = 1000  # looked at, should most of them have no header to read


def choose_backbone(quality: str, photos: Sequence[Photo] = ()) -> str:
    """The name of the backbone for a new model.

    Parameters
    ----------
    quality : {"fast", "good", "best"}
        What the user asks for.
    photos : sequence of Photo
        The first that the model learns, in any order. Where no size of them can be read, they count as photos, not as
        thumbnails.
    """
    sides = list(islice(_readable_sides(photos), _ENOUGH))
    thumbnails = bool(sides) and statistics.median(sides) < THUMBNAIL_SIDE
    return (_FOR_THUMBNAILS if thumbnails else _FOR_PHOTOS)[quality]


def backbones_of(quality: str) -> tuple[str, ...]:
    """The names that :func:`choose_backbone` may give.

    Parameters
    ----------
    quality : {"fast", "good", "best"}
        What the user asks for.
    """
    return tuple(dict.fromkeys([_FOR_PHOTOS[quality], _FOR_THUMBNAILS[quality]]))


def check_quality(quality: str | None, backbone: str | None) -> None:
    """Refuse a quality that there is not, or that comes with a backbone.

    Parameters
    ----------
    quality, backbone : str or None
        What the user asks for.
    """
    if quality is None:
        return
    if quality not in _FOR_PHOTOS:
        raise InputError(f"quality={quality!r} was given; expected one of {', '.join(_FOR_PHOTOS)}.")
    if backbone is not None:
        raise InputError(
            f"The quality {quality} and the backbone {backbone} were given; expected one of the two, for a quality "
            "stands for a backbone. Leave one of them out."
        )


def _readable_sides(photos: Iterable[Photo]) -> Iterator[int]:
    """Shorter sides of some photos: always the same ones, however they are ordered and wherever their folder is."""
    for photo in heapq.nsmallest(_MOST, photos, key=_draw):
        try:
            yield photo.shorter_side()
        except PhotoError:
            continue


def _draw(photo: Photo) -> tuple[bytes, str]:
    """By which photos are drawn: looks random, and is the same tomorrow."""
    name = photo.name if photo.path is None else photo.path.name
    return hashlib.sha256(f"{photo.label}\0{name}".encode(errors="surrogatepass")).digest(), photo.name
