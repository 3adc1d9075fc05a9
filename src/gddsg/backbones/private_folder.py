"""The folder for what can be computed again; nobody but the user may put anything there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import platformdirs

from gddsg.files import replacing

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
REMEDY = "name a folder of your own by the environment variable GDDSG_CACHE"
"""What to do where the folder is of no use."""


def cache_folder() -> Path:
    """The folder for what can be computed again: ``GDDSG_CACHE``, or a folder of its own in the user's cache."""
    named = os.environ.get("GDDSG_CACHE")
    return Path(named) if named else platformdirs.user_cache_path("gddsg", appauthor=False)


def make_private(folder: Path) -> None:
    """Make the folder unless it is there, for the user alone.

    Raises
    ------
    OSError
        If that cannot be done, or if others could have put something into the folder.
    """
    try:
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise OSError(errno.ENOTDIR, f"a file is where the folder should be; {REMEDY}") from error
    _require_private(folder.stat())


def read_private(path: Path) -> bytes:
    """The content of a file in a private folder, read once.

    Raises
    ------
    OSError
        If there is none, or if others could have written it.
    """
    _require_private(path.parent.stat())
    with path.open("rb") as file:
        _require_private(os.fstat(file.fileno()))
        return file.read()


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in a private folder in one step; only the user may read it.

    Raises
    ------
    OSError
        If it cannot be written, or if others may write to the folder.
    """
    make_private(path.parent)
    with replacing(path) as temporary:
        temporary.chmod(_FILE_MODE)
        temporary.write_bytes(content)


def touch_private(path: Path) -> None:
    """Make an empty file for the user alone unless there is one; one that is there is closed to others.

    Raises
    ------
    OSError
        If that cannot be done, or if others could have written to it.
    """
    make_private(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _FILE_MODE)
    try:
        found = os.fstat(descriptor)
        _require_private(found)
        if stat.S_IMODE(found.st_mode) & ~_FILE_MODE:
            path.chmod(_FILE_MODE)
    finally:
        os.close(descriptor)


def _require_private(found: os.stat_result) -> None:
    """A file or folder of the user's or of the machine's owner, to which not everybody may write."""
    if not hasattr(os, "getuid"):  # Windows: a user's folders are closed to others
        return
    if found.st_uid not in (os.getuid(), 0):
        trouble = "it belongs to another user"
    elif found.st_mode & stat.S_IWOTH:
        trouble = "everybody may write to it"
    else:
        return
    raise OSError(errno.EPERM, f"{trouble}; {REMEDY}")
