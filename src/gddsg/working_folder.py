"""A folder for files on the way, gone at the end; those of processes that were killed go when the next one starts."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import lock_descriptor

from gddsg.errors import DataError

_NAME = re.compile(r"gddsg-[0-9a-f]{16}")
_LOCK = ".lock"
_ATTEMPTS = 100


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """An empty folder in the folder for temporary files, which nobody else may read; removed when the block ends.

    A killed process leaves its folder behind. It holds a lock on a file in it for as long as it lives, so whoever
    calls this next can tell such folders from those in use, and removes them.

    Yields
    ------
    Path
        The folder; it holds nothing but the lock, an empty file whose name begins with a dot.

    Raises
    ------
    DataError
        If no folder can be made.
    """
    try:
        parent = Path(tempfile.gettempdir())
        _remove_leftovers(parent)
        folder, lock = _locked_folder(parent)
    except OSError as error:
        raise DataError(
            f"No folder for temporary files can be made ({error.strerror or error}). Make room there, or name another "
            "place in the environment variable TMPDIR."
        ) from error
    try:
        yield folder
    finally:
        _remove(folder, lock)


def _locked_folder(parent: Path) -> tuple[Path, int]:
    """A new folder and the descriptor of its lock."""
    for _ in range(_ATTEMPTS):
        folder = parent / f"gddsg-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        # In this moment it looks as if its process were dead, and may be removed; then another one has to do.
        lock = _taken(folder)
        if lock is not None:
            return folder, lock
    raise OSError(f"each of {_ATTEMPTS} new folders in {parent} was removed at once")


def _remove_leftovers(parent: Path) -> None:
    """Remove folders of processes that are dead. This is housekeeping: what cannot be removed stays."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    _remove_if_left(Path(entry.path))


def _remove_if_left(folder: Path) -> None:
    if not _is_ours(folder.lstat()):
        return
    lock = _taken(folder)
    if lock is not None:
        _remove(folder, lock)


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)  # not before: what can be locked is anybody's to remove
    if folder.exists():  # Windows keeps files that are open: the lock was, and now is not
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours(found: os.stat_result) -> bool:
    """A folder of this user that nobody else may write to: so nobody else planted it, a link or anything in it."""
    private = os.name == "nt" or (found.st_uid == os.geteuid() and not found.st_mode & 0o077)
    return stat.S_ISDIR(found.st_mode) and private


def _taken(folder: Path) -> int | None:
    """Descriptor of the folder's lock; None if another process has it, or has removed the folder meanwhile."""
    path = folder / _LOCK
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except FileNotFoundError:
        return None
    try:
        # A file that is no longer under its name was locked by someone who has removed the folder since.
        if lock_descriptor(lock, blocking=False) and os.path.samestat(os.fstat(lock), path.lstat()):
            return lock
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None
