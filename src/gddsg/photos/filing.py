"""Photos put into folders by what a model takes them for. No file is ever overwritten, and no photo lost.

Names of classes are data: each becomes the name of one folder, whatever is written in it.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gddsg.data.dataset import PhotoListing, Skipped
from gddsg.errors import DataError
from gddsg.files import UnconfirmedError, copy_new, name_new, remove, remove_dead_copies
from gddsg.photos.reports import PhotoPrediction

_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')  # on one system or another
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[\d¹²³]) *(\..*)?", re.IGNORECASE)  # on Windows
_LONGEST_NAME = 200  # bytes, with a hash to come; file systems allow 255


@dataclass(frozen=True)
class FiledPhoto:
    """Where a photo was put.

    Attributes
    ----------
    name : str
        Path it came from.
    label : str
        What the model takes it for.
    probability : float
        Of the likeliest class.
    target : str
        Path of the copy, or of the photo itself where it was moved.
    there_before : bool
        Whether the very same photo was there already, from an earlier call.
    """

    name: str
    label: str
    probability: float
    target: str
    there_before: bool


@dataclass(frozen=True)
class FilingReport:
    """Which photos went where.

    Attributes
    ----------
    photos : tuple of FiledPhoto
        In the order of their paths.
    skipped : tuple of Skipped
        Files that stayed where they are, and why.
    """

    photos: tuple[FiledPhoto, ...]
    skipped: tuple[Skipped, ...]


def prepare_folder(folder: Path) -> None:
    """Make the folder that photos go to, if it is not there; a :class:`DataError` if it cannot be used."""
    try:
        folder.mkdir(exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"{str(folder)!r} cannot be made a folder for photos ({reason}). Expected a folder, or a new name in a "
            "folder that exists and may be written to."
        ) from error


def leave_out_filed(listing: PhotoListing, folder: Path) -> PhotoListing:
    """The photos that are not in ``folder`` already, for an inbox may hold the folder that photos go to."""
    inside = Path(os.path.realpath(folder))
    kept = (one for one in listing.photos if inside not in Path(os.path.realpath(one.path or one.name)).parents)
    return PhotoListing(tuple(kept), listing.skipped)


def file_photos(predictions: Sequence[PhotoPrediction], folder: Path, *, move: bool) -> FilingReport:
    """Copy or move photos into a folder for each label; a call that was interrupted may be repeated.

    A photo whose name is taken by another one is given a number, as in ``1 (2).jpg``; one that is there already stays.

    Parameters
    ----------
    predictions : sequence of PhotoPrediction
        Of photos in files, named by their paths.
    folder : Path
        That the folders are made in.
    move : bool
        Whether photos leave the place where they are, which they do once they are in the other.
    """
    filed: list[FiledPhoto] = []
    skipped: list[Skipped] = []
    ready: set[Path] = set()
    for one in predictions:
        source, target_folder = Path(one.name), folder / folder_name(one.label)
        try:
            if target_folder not in ready:
                target_folder.mkdir(exist_ok=True)
                remove_dead_copies(target_folder)
                ready.add(target_folder)
            target, before = _put(source, target_folder, move)
        except OSError as error:
            if not os.path.lexists(source):
                skipped.append(Skipped(one.name, "it is gone: somebody else has removed it meanwhile"))
                continue
            raise DataError(
                f"{one.name!r} cannot be put into {str(target_folder)!r} ({error.strerror or error}). Expected a place "
                f"that can be written to, with room on the disk. Photos in their places: {len(filed)}; all others are "
                "where they were, and the same command goes on from here."
            ) from error
        filed.append(FiledPhoto(one.name, one.label, one.probability, str(target), before))
    return FilingReport(tuple(filed), tuple(skipped))


def folder_name(label: str) -> str:
    """The name of the folder for a class: its own where every system takes that for a name and nothing else.

    Parameters
    ----------
    label : str
        Any text; what is no name of a folder is replaced, and a hash keeps it apart from others.

    Examples
    --------
    >>> folder_name("grey wolf"), folder_name("../x")
    ('grey wolf', '_._x-d6b96a97')
    """
    content = label.encode("utf-8", "backslashreplace")
    text = _NOT_IN_NAMES.sub("_", content[:_LONGEST_NAME].decode(errors="ignore"))
    text = text.rstrip(". ")  # Windows drops them
    text = f"_{text[1:]}" if text.startswith(".") else text  # hidden, or a way up
    text = f"_{text}" if _RESERVED.fullmatch(text) else text
    return label if text == label and text else f"{text}-{hashlib.sha256(content).hexdigest()[:8]}"


def _put(source: Path, folder: Path, move: bool) -> tuple[Path, bool]:
    """Where the photo is now, and whether it was there before."""
    number = 0
    while True:
        number += 1
        target = folder / (source.name if number == 1 else f"{source.stem} ({number}){source.suffix}")
        before = os.path.lexists(target)
        if before and not _is_equal(source, target):
            continue
        if not before:
            try:
                _name_or_copy(source, target, move)
            except FileExistsError:  # somebody was faster
                continue
        if move and not _is_one_entry(source, target):
            with suppress(FileNotFoundError):
                remove(source)
        return target, before


def _is_equal(source: Path, target: Path) -> bool:
    return target.is_file() and filecmp.cmp(source, target, shallow=False)


def _name_or_copy(source: Path, target: Path, move: bool) -> None:
    if move and not source.is_symlink():  # on one disk a photo gets the other name before it loses the old one
        try:
            name_new(source, target)
            return
        except (FileExistsError, UnconfirmedError):
            raise
        except OSError:  # it is on another disk
            pass
    copy_new(source, target)


def _is_one_entry(source: Path, target: Path) -> bool:
    """Whether two paths are one entry of one folder: to remove the source would be to remove the photo."""
    places = [os.path.join(os.path.realpath(path.parent), path.name) for path in (source, target)]  # noqa: PTH118
    if places[0] == places[1]:
        return True
    # another spelling where case does not matter, or another way to the same disk
    return source.exists() and source.samefile(target) and target.stat().st_nlink < 2
