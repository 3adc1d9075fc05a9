"""Files that are replaced in one step: a reader, a second writer or a kill meets the old file or the new one, whole."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

_STALE_SECONDS = 3600.0
# The temporary name repeats the name of the target and adds pid and random digits; file systems allow 255 bytes in all.
_LONGEST_REPEATED_NAME = 200


class UnconfirmedError(OSError):
    """Raised when a file was replaced but the disk did not confirm it."""


def replace_file(target: Path, content: bytes) -> None:
    """Write ``content`` to ``target`` in one step."""
    with replacing(target) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """An empty file beside ``target`` to be filled; it takes the target's place when the block ends without an error.

    Links are followed, permission bits are kept. The content is on the disk before it gets its name, and the name is
    before this returns: what was confirmed survives a power cut.

    Raises
    ------
    UnconfirmedError
        If the file is in its place, but the disk did not confirm it.
    OSError
        If it cannot be written; the old file is then unchanged and no temporary file is left.
    """
    target = locate(target)
    old_mode = _mode_of_old_file(target)
    temporary = _temporary_path(target)
    # Nobody may read the new content who may not read the old one, not even while it is being written.
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666 if old_mode is None else 0o600)
    try:
        # A descriptor that is open all the time sees every write error when it is synchronised; a later one might not.
        try:
            _remove_stale_files(target, now=os.fstat(descriptor).st_mtime)
            yield temporary
            if old_mode is not None:
                temporary.chmod(old_mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def locate(path: str | os.PathLike[str]) -> Path:
    """Absolute path with symbolic links followed; what no file can be called is an `OSError` like any other."""
    try:
        return Path(os.path.realpath(os.fspath(path)))
    except ValueError as cause:
        raise OSError(errno.EINVAL, f"not a possible file name ({cause})") from cause


def _mode_of_old_file(target: Path) -> int | None:
    """Permission bits of the file to be replaced, None if there is none; anything but a plain file is refused."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        # Renaming would turn /dev/null into a file of ours, to the surprise of the whole machine.
        raise OSError(errno.EINVAL, "it is a device, pipe or socket, not a plain file")
    return stat.S_IMODE(mode)


def _temporary_prefix(target: Path) -> str:
    return f".{os.fsdecode(os.fsencode(target.name)[:_LONGEST_REPEATED_NAME])}."


def _temporary_path(target: Path) -> Path:
    return target.with_name(f"{_temporary_prefix(target)}{os.getpid()}-{secrets.token_hex(8)}.tmp")


def _remove_stale_files(target: Path, now: float) -> None:
    """Remove temporary files that writers killed long ago have left.

    A living writer's file keeps changing, so an hour without a change is the sign of death. The pid in the name is no
    such sign: pids return (in containers most writers have the same one) and may belong to another machine. `now` is
    the time of a file just made in the same folder, for the clock of a network drive need not be ours. Should a writer
    have slept for an hour, it fails to rename its file and the old one stays: nothing is lost.
    """
    pattern = re.compile(re.escape(_temporary_prefix(target)) + r"\d+-[0-9a-f]+\.tmp")
    # This is housekeeping: what cannot be listed or removed must not keep the file from being written.
    with contextlib.suppress(OSError):
        for path in target.parent.iterdir():
            if pattern.fullmatch(path.name) and now - path.lstat().st_mtime > _STALE_SECONDS:
                path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself survive a power cut, where the file system offers that."""
    if os.name == "nt":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        # A folder may be open for writing but closed for reading; then there is no way to ask.
        return
    try:
        os.fsync(descriptor)
    except OSError as cause:
        # Some network file systems cannot do this for folders.
        if cause.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise UnconfirmedError(cause.errno, cause.strerror) from cause
    finally:
        os.close(descriptor)
