"""Tar shards as WebDataset has them: files of one name up to the first dot are one sample, an image and its label."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import fsspec

from gddsg.data.dataset import clean_label
from gddsg.data.image_folder import IMAGE_EXTENSIONS
from gddsg.data.photo import Photo
from gddsg.errors import DataError
from gddsg.scale.sources.pieces import DistantPhoto, ListedPhotos, PhotoPiece, Rows, distant

_LABELS = (".cls", ".txt")
_LONGEST_LABEL_FILE = 10_000


@dataclass(frozen=True)
class TarPhotos:
    """The photos of a shard.

    Attributes
    ----------
    url : str
        Of the shard.
    """

    url: str

    def photos(self) -> Sequence[Photo]:
        """The photos in the order of the shard; none is read yet."""
        found = list(_samples(self.url))
        if not found:
            raise DataError(
                f"{self.url} has no image with a label. Expected files such as 0001.jpg beside 0001.cls or 0001.txt, "
                "which holds the label."
            )
        return found

    def listed(self, photos: Sequence[Photo]) -> PhotoPiece:
        """The photos by their places, lest the shard be searched again."""
        return ListedPhotos(tuple(photos))

    def some(self, rows: Rows) -> tuple[PhotoPiece, Rows | None]:
        """The piece itself."""
        return self, rows


def _samples(url: str) -> Iterator[DistantPhoto]:
    with distant(url):
        try:
            with fsspec.open(url, "rb") as file, tarfile.open(fileobj=file, mode="r:") as archive:
                yield from _of_archive(url, archive)
        except tarfile.TarError as error:
            raise DataError(
                f"{url} is damaged or no plain tar file ({error}). Unpack it if it is compressed."
            ) from error


def _of_archive(url: str, archive: tarfile.TarFile) -> Iterator[DistantPhoto]:
    stem, image, label = "", None, ""
    for member in archive:
        path = PurePosixPath(member.name)
        name, _, ending = path.name.partition(".")
        if not member.isreg() or not name:
            continue
        if str(path.parent / name) != stem:
            yield from _labelled(url, image, label, stem)
            stem, image, label = str(path.parent / name), None, ""
        ending = f".{ending.casefold()}"
        if ending in IMAGE_EXTENSIONS:
            image = member
        elif ending in _LABELS:
            label = _label(archive, member) or label
    yield from _labelled(url, image, label, stem)


def _labelled(url: str, image: tarfile.TarInfo | None, label: str, stem: str) -> Iterator[DistantPhoto]:
    if image is None:
        return
    if not label:
        raise DataError(
            f"{url}: {image.name!r} has no label. Expected one in {PurePosixPath(stem).name}.cls or "
            f"{PurePosixPath(stem).name}.txt, right beside it in the shard."
        )
    yield DistantPhoto(f"{url}#{image.name}", label, url=url, start=image.offset_data, length=image.size)


def _label(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    content = archive.extractfile(member)
    raw = b"" if content is None or member.size > _LONGEST_LABEL_FILE else content.read()
    try:
        return clean_label(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(f"{member.name!r} in a shard is no text ({error}). Expected the label in UTF-8.") from error
