"""Folders of photos at an address: a subfolder a class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import fsspec

from gddsg.data.dataset import Skipped, clean_label
from gddsg.data.image_folder import IMAGE_EXTENSIONS
from gddsg.errors import DataError
from gddsg.scale.sources.pieces import DistantPhoto, distant


def distant_photos(url: str, skipped: list[Skipped]) -> Iterator[DistantPhoto]:
    """The photos of a folder, by class and then by path; one class after the other is listed.

    Parameters
    ----------
    url : str
        The folder; where it has a subfolder ``train``, that.
    skipped : list of Skipped
        Takes what is left out.
    """
    with distant(url):
        file_system, root = fsspec.core.url_to_fs(url)
        folders, files = _entries(file_system, root)
        train = [one for one in folders if PurePosixPath(one).name == "train"]
        if train and len(folders) > 1:
            folders, files = _entries(file_system, train[0])
        skipped += [Skipped(file_system.unstrip_protocol(file), "in no class folder") for file in files]
        if not folders:
            raise DataError(f"{url} has no subfolders. Expected a folder with a subfolder of photos for every class.")
        for folder in folders:
            yield from _of_class(file_system, folder, skipped)


def _of_class(file_system: Any, folder: str, skipped: list[Skipped]) -> Iterator[DistantPhoto]:
    label = clean_label(PurePosixPath(folder).name)
    for path in sorted(file_system.find(folder)):
        inside = PurePosixPath(path).relative_to(folder).parts
        name = file_system.unstrip_protocol(path)
        if any(part.startswith(".") for part in inside):
            continue
        if PurePosixPath(path).suffix.casefold() in IMAGE_EXTENSIONS:
            yield DistantPhoto(name, label, url=name)
        else:
            skipped.append(Skipped(name, "not an image file"))


def _entries(file_system: Any, folder: str) -> tuple[list[str], list[str]]:
    found = sorted(file_system.ls(folder, detail=True), key=lambda one: str(one["name"]))
    seen = [one for one in found if not PurePosixPath(one["name"]).name.startswith(".")]
    folders = [str(one["name"]).rstrip("/") for one in seen if one["type"] == "directory"]
    return folders, [str(one["name"]) for one in seen if one["type"] == "file"]
