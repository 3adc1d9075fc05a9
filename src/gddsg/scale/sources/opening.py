"""What a user names as sources, told apart by how their names end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from os import PathLike, fspath
from pathlib import PurePosixPath
from typing import Any

import fsspec

from gddsg.data.dataset import Skipped
from gddsg.data.photo import Photo
from gddsg.errors import DataError
from gddsg.photos.listing import list_labelled_photos
from gddsg.scale.sizes import Sizes
from gddsg.scale.sources.feature_rows import feature_file_pieces
from gddsg.scale.sources.folders import distant_photos
from gddsg.scale.sources.parquet import parquet_pieces
from gddsg.scale.sources.pieces import FeaturePiece, ListedPhotos, PhotoPiece, distant
from gddsg.scale.sources.shards import TarPhotos

StrPath = str | PathLike[str]

_SHARDS = (".parquet", ".tar", ".npz")
_EXPECTED = (
    "Expected folders of photos with a subfolder for every class, lists (.csv), Parquet files (.parquet), tar shards "
    "(.tar) or feature files (.npz), or folders of the last three"
)


@dataclass(frozen=True)
class Columns:
    """Columns of Parquet files, where they have none of the usual names.

    Attributes
    ----------
    values : str or None
        Images or features.
    labels : str or None
        Labels.
    """

    values: str | None = None
    labels: str | None = None


@dataclass
class Sources:
    """What was found, piece by piece, and made only as far as it is asked for.

    Attributes
    ----------
    photos : iterable of PhotoPiece
        Empty where there are features.
    features : iterable of FeaturePiece
        Likewise.
    skipped : list of Skipped
        What was left out on the way; whole when the pieces have come to their end.
    rows : int
        Of all features.
    """

    photos: Iterable[PhotoPiece] = ()
    features: Iterable[FeaturePiece] = ()
    skipped: list[Skipped] = field(default_factory=list)
    rows: int = 0


def open_sources(
    names: Sequence[StrPath],
    sizes: Sizes,
    columns: Columns = Columns(),  # noqa: B008  # a frozen value
    case_sensitive: bool = False,
) -> Sources:
    """The sources of these names.

    Parameters
    ----------
    names : sequence of str or path-like
        Folders and files, here or at an address.
    sizes : Sizes
        How work is cut up.
    columns : Columns
        Of Parquet files.
    case_sensitive : bool
        Whether classes may differ only in upper and lower case.
    """
    if not names:
        raise DataError(f"No source was given. {_EXPECTED}.")
    files = list(chain.from_iterable(_files(fspath(name)) for name in names))
    kinds = {name: _holds_features(name, columns) for name in files}
    if len(set(kinds.values())) > 1:
        some = {holds: name for name, holds in kinds.items()}
        raise DataError(f"{some[True]} holds features and {some[False]} photos. Learn them into models of their own.")
    sources = Sources()
    if not kinds[files[0]]:
        sources.photos = _photo_pieces(files, sizes, columns, case_sensitive, sources.skipped)
        return sources
    sources.features = _feature_pieces(files, sizes, columns)
    # what a file holds is in its head: looking there twice costs little, and spares a list of all pieces
    sources.rows = sum(piece.rows for piece in _feature_pieces(files, sizes, columns))
    return sources


def _files(name: str) -> list[str]:
    """The name itself, or what a pattern or a folder of shards stands for, sorted."""
    with distant(name):
        file_system, path = fsspec.core.url_to_fs(name)
        if "*" in name:
            found = sorted(map(str, file_system.glob(path)))
            if not found:
                raise DataError(f"{name} stands for no file at all. Check the spelling.")
            return [_spelt(file_system, name, one) for one in found]
        if not file_system.exists(path):
            raise DataError(f"{name!r} cannot be found. Check the spelling and the folder. {_EXPECTED}.")
        if not file_system.isdir(path):
            return [name]
        inside = sorted(str(one["name"]) for one in file_system.ls(path, detail=True) if one["type"] == "file")
        shards = [one for one in inside if _ending(one) in _SHARDS]
        return [_spelt(file_system, name, one) for one in shards] if shards else [name]


def _spelt(file_system: Any, name: str, path: str) -> str:
    return str(file_system.unstrip_protocol(path)) if "://" in name else path


def _ending(name: str) -> str:
    return PurePosixPath(name).suffix.casefold()


def _holds_features(name: str, columns: Columns) -> bool:
    ending = _ending(name)
    if ending == ".npz":
        return True
    if ending == ".parquet":
        first = next(parquet_pieces(name, columns.values, columns.labels, lambda _: 1), None)
        return first is not None and not first[0]
    if ending in (".tar", ".csv") or _is_folder(name):
        return False
    raise DataError(f"{name!r} is a file of an unknown kind. {_EXPECTED}.")


def _is_folder(name: str) -> bool:
    with distant(name):
        file_system, path = fsspec.core.url_to_fs(name)
        return bool(file_system.isdir(path))


def _feature_pieces(files: Sequence[str], sizes: Sizes, columns: Columns) -> Iterator[FeaturePiece]:
    for name in files:
        if _ending(name) == ".npz":
            yield from feature_file_pieces(name, sizes.rows)
        else:
            for _, piece in parquet_pieces(name, columns.values, columns.labels, lambda _: sizes.rows):
                yield piece


def _photo_pieces(
    files: Sequence[str], sizes: Sizes, columns: Columns, case_sensitive: bool, skipped: list[Skipped]
) -> Iterator[PhotoPiece]:
    here = [name for name in files if "://" not in name and _ending(name) not in _SHARDS]
    if here:  # all at once, for what is given twice is learnt once
        listing = list_labelled_photos(here, "train", case_sensitive)
        skipped += listing.skipped
        yield from _listed(listing.photos, sizes)
    for name in files:
        if _ending(name) == ".parquet":
            for _, piece in parquet_pieces(name, columns.values, columns.labels, lambda _: sizes.photos):
                yield piece
        elif _ending(name) == ".tar":
            yield TarPhotos(name)
        elif name not in here:
            yield from _listed(distant_photos(name, skipped), sizes)


def _listed(photos: Iterable[Photo], sizes: Sizes) -> Iterator[PhotoPiece]:
    left = iter(photos)
    while some := tuple(islice(left, sizes.photos)):
        yield ListedPhotos(some)
