"""Photos that came in a request: bytes in memory, never files of their own."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

from PIL import Image, ImageOps

from gddsg.data.decoding import decode, shorter_side
from gddsg.data.photo import MAX_FILE_BYTES, Photo
from gddsg.errors import PhotoError

LONGEST_FILE_NAME = 200
THUMBNAIL_SIDE = 160
_QUALITY = 80


@dataclass(frozen=True)
class UploadedPhoto(Photo):
    """A photo whose file is in memory; it has the sample id that the same file has on a disk.

    Attributes
    ----------
    content : bytes
        Of the file.
    """

    content: bytes = field(default=b"", repr=False, compare=False)

    def size(self) -> int:
        """Bytes of the file."""
        return len(self.content)

    def read(self, at_most: int = MAX_FILE_BYTES) -> bytes:
        """The content of the file.

        Parameters
        ----------
        at_most : int
            A larger file is refused.
        """
        if len(self.content) > at_most:
            raise PhotoError(f"{self.name}: it has {len(self.content):,} bytes, and at most {at_most:,} are read")
        return self.content

    def shorter_side(self) -> int:
        """Pixels of its shorter side, from the header of the file."""
        with self._named():
            return shorter_side(io.BytesIO(self.content))


def uploaded(name: str, content: bytes, label: str = "") -> UploadedPhoto:
    """A photo of a request.

    Parameters
    ----------
    name : str
        What the client calls it; cut if it is very long, for answers repeat it.
    content : bytes
        Of the file.
    label : str
        Its class.
    """
    return UploadedPhoto(name[-LONGEST_FILE_NAME:] or "photo", label, content=content)


def digest_uploads(what: str, photos: Sequence[UploadedPhoto]) -> bytes:
    """What tells a request from another one: however it is put into parts, the same photos have the same digest.

    Parameters
    ----------
    what : str
        Method and path of the request.
    photos : sequence of UploadedPhoto
        All that came with it.
    """
    parts = sorted(hashlib.sha256(photo.content).digest() for photo in photos)
    return hashlib.sha256(what.encode() + b"\0" + b"".join(parts)).digest()


def digest_request(*parts: str) -> bytes:
    """What tells a request without photos from another one.

    Parameters
    ----------
    parts : str
        All that it says.
    """
    framed = b"".join(len(part).to_bytes(8, "big") + part.encode(errors="surrogatepass") for part in parts)
    return hashlib.sha256(framed).digest()


def thumbnail(photo: Photo) -> bytes:
    """A small JPEG of a photo, upright, without anything that the file says about place or camera.

    Parameters
    ----------
    photo : Photo
        One that can be decoded.
    """
    content = photo.read()
    image = photo.image(content, THUMBNAIL_SIDE) if photo.pixels is not None else decode(content, THUMBNAIL_SIDE)
    small = ImageOps.fit(image, (THUMBNAIL_SIDE, THUMBNAIL_SIDE), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    small.save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()
