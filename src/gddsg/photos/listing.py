"""Which labelled photos are meant by the folders and lists that a user names."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from gddsg.data.dataset import PhotoListing, refuse_case_twins
from gddsg.data.image_folder import read_photos, test_photos
from gddsg.data.photo_list import Part, listed_photos


def list_labelled_photos(paths: Sequence[str | PathLike[str]], part: Part, case_sensitive: bool) -> PhotoListing:
    """The photos of folders and of lists together.

    Parameters
    ----------
    paths : sequence of str or path-like
        Folders, one class a folder, and lists that end in ``.csv``.
    part : {"train", "test"}
        What to take where there are both.
    case_sensitive : bool
        Whether classes may differ only in upper and lower case.
    """
    lists = [path for path in paths if Path(path).suffix.casefold() == ".csv"]
    folders = [path for path in paths if path not in lists]
    found = [listed_photos(path, part, case_sensitive=case_sensitive) for path in lists]
    if folders or not lists:
        read = read_photos if part == "train" else test_photos
        found.append(read(*folders, case_sensitive=case_sensitive))
    photos = tuple(photo for listing in found for photo in listing.photos)
    refuse_case_twins((photo.label for photo in photos), case_sensitive)
    return PhotoListing(photos, tuple(skipped for listing in found for skipped in listing.skipped))
