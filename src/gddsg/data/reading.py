"""Files of strangers are read up to a limit and only if they are plain: no pipe to wait for, no endless device."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

__all__ = ["is_file", "open_plain", "plain_size", "read_plain"]

_PIECE = 1 << 16
# Opening a pipe must not wait for somebody who writes; Windows would turn line ends of what it takes for text.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def is_file(path: Path) -> bool:
    """Whether there is such a file; a name that no file can have, or that cannot be looked up, is none.

    Parameters
    ----------
    path : Path
        As a list of a stranger may say it.
    """
    try:
        return path.is_file()
    except OSError:
        return False


def plain_size(path: Path, at_most: int) -> int:
    """Bytes of a plain file, without opening it.

    Parameters
    ----------
    path : Path
        The file.
    at_most : int
        The limit.

    Raises
    ------
    OSError
        If it is missing, larger than the limit or no plain file; ``strerror`` says which.
    """
    try:
        return _checked_size(path.stat(), at_most)
    except ValueError as error:  # a name that no file can have
        raise OSError(errno.EINVAL, str(error)) from error


def open_plain(path: Path, at_most: int) -> BinaryIO:
    """A plain file, open for reading.

    Parameters
    ----------
    path : Path
        The file.
    at_most : int
        A file of more bytes is refused.

    Raises
    ------
    OSError
        If it cannot be opened, is larger than the limit or no plain file; ``strerror`` says which.
    """
    descriptor = _opened(path)
    try:
        _checked_size(os.fstat(descriptor), at_most)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_plain(path: Path, at_most: int) -> bytes:
    """The content of a plain file; one that grows meanwhile is no way around the limit.

    Parameters
    ----------
    path : Path
        The file.
    at_most : int
        Bytes that are read; a larger file is refused unread.

    Raises
    ------
    OSError
        If it cannot be read, is larger than the limit or no plain file; ``strerror`` says which.
    """
    descriptor = _opened(path)
    with os.fdopen(descriptor, "rb", buffering=0) as file:  # half the time of read_bytes
        expected = _checked_size(os.fstat(descriptor), at_most) + 1
        pieces: list[bytes] = []
        found = 0
        while piece := file.read(min(max(expected - found, _PIECE), at_most + 1 - found)):
            pieces.append(piece)
            found += len(piece)
            if found > at_most:
                raise OSError(errno.EFBIG, f"it grew beyond {at_most:,} bytes while it was read")
    return b"".join(pieces)


def _opened(path: Path) -> int:
    try:
        return os.open(path, _FLAGS)
    except ValueError as error:  # a name that no file can have
        raise OSError(errno.EINVAL, str(error)) from error


def _checked_size(status: os.stat_result, at_most: int) -> int:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a device, pipe or socket, not a plain file")
    if status.st_size > at_most:
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, and at most {at_most:,} are read")
    return status.st_size
