"""Files that are replaced in one step, and changed by one process at a time.

A reader, a second writer or a kill meets the old file or the new one, whole. What a killed process leaves behind is
told from what belongs to a living one by the locks that the system frees when a process ends, and the next who writes
the same file clears it away.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout, lock_descriptor

_STALE_SECONDS = 3600.0
# Names beside the target repeat its name and add something of their own; file systems allow 255 bytes in all.
_LONGEST_REPEATED_NAME = 200
_PATIENCE = 2.0  # seconds for who has a file open for a moment, such as a reader or a scanner for viruses
_COPY = "gddsg-copy"  # what temporary files of copies are called after: the copies have many names


class UnconfirmedError(OSError):
    """Raised when a file was replaced but the disk did not confirm it."""


class LockedError(OSError):
    """Raised when another process is changing a file, and nobody wants to wait for it."""


def open_files_stay() -> bool:
    """Whether a file that somebody has open can be neither removed nor replaced, as on Windows."""
    return os.name == "nt"


@contextlib.contextmanager
def locked(path: Path, on_wait: Callable[[], None] | None = None, *, wait: bool = True) -> Iterator[Path]:
    """The file that ``path`` leads to, which no other process changes meanwhile.

    Whatever links lead to a file, its lock is one file beside it, which is gone afterwards; the system frees the lock
    of a process that was killed, and the next one takes the file over.

    Parameters
    ----------
    path : Path
        The file, or a link to it; it need not exist.
    on_wait : callable or None
        Called when another process has to be waited for.
    wait : bool
        Whether to wait for it.

    Raises
    ------
    LockedError
        If another process is changing the file and ``wait`` is false.
    OSError
        If there can be no lock beside the file.
    """
    while True:
        target = locate(path)
        if not target.parent.is_dir():  # FileLock would make it, and a slip of the pen would make a folder
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        beside = target.with_name(f"{_hidden_prefix(target)}lock")
        lock = FileLock(beside)
        _acquire(lock, on_wait, wait)
        try:
            if locate(path) == target:
                yield target
                return
        finally:
            # While it is still held: who opens the file at this moment finds it nameless, and tries again. Where a
            # file that is open cannot be removed, an empty one stays.
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            lock.release()
        # the link leads elsewhere since we began to wait: that is the file to be changed


def _acquire(lock: FileLock, on_wait: Callable[[], None] | None, wait: bool) -> None:
    try:
        lock.acquire(timeout=0)
    except Timeout as cause:
        if not wait:
            raise LockedError(errno.EBUSY, "another process is changing it") from cause
        if on_wait is not None:
            on_wait()
        lock.acquire()


def replace_file(target: Path, content: bytes) -> None:
    """Write ``content`` to ``target`` in one step."""
    with replacing(target) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """An empty file beside ``target`` to be filled; it takes the target's place when the block ends without an error.

    Links are followed; owner, group and permission bits are kept as far as the system lets us. The content is on the
    disk before it gets its name, and the name is before this returns: what was confirmed survives a power cut.

    Raises
    ------
    UnconfirmedError
        If the file is in its place, but the disk did not confirm it.
    OSError
        If it cannot be written; the old file is then unchanged and no temporary file is left.
    """
    target = locate(target)
    old = _state_of_old_file(target)
    # Nobody may read the new content who may not read the old one, not even while it is being written.
    temporary, descriptor = _make_temporary(target, 0o666 if old is None else 0o600)
    try:
        # A descriptor that is open all the time sees every write error when it is synchronised; a later one might not.
        try:
            _remove_dead_files(target, now=os.fstat(descriptor).st_mtime)
            yield temporary
            if old is not None:
                _keep_owner_and_mode(temporary, old)
            synchronise(descriptor)
            if not open_files_stay():
                temporary.replace(target)
        finally:
            os.close(descriptor)
        if open_files_stay():
            _replace_patiently(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _replace_patiently(temporary: Path, target: Path) -> None:
    """Replace a file that others may have open, who are in the way for as long as they have."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            temporary.replace(target)
            return
        except PermissionError as cause:
            if time.monotonic() > deadline:
                raise PermissionError(errno.EACCES, "another program has the file open, or it is read-only") from cause
        time.sleep(0.01)


def synchronise(descriptor: int) -> None:
    """Have what was written to a file on the disk, not only in the memory of the system or of the disk."""
    if sys.platform == "darwin":  # where fsync ends at the disk's own memory
        import fcntl  # which Windows does not have

        with contextlib.suppress(OSError):  # not every file system knows this
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def remove(path: Path) -> None:
    """Remove a file, a read-only one too, as Windows does not unless its attribute goes first."""
    try:
        path.unlink()
    except PermissionError:
        if not open_files_stay():
            raise
        path.chmod(stat.S_IWRITE)
        path.unlink()


def copy_new(source: Path, target: Path) -> None:
    """Copy a file, with its times and permission bits, to a name that is free, in one step.

    Raises
    ------
    FileExistsError
        If there is something under that name, which stays as it is.
    OSError
        If it cannot be copied; nothing is left then, unless by a kill, see :func:`remove_dead_copies`.
    """
    temporary, descriptor = _make_temporary(target.with_name(_COPY), 0o600)
    try:
        try:
            shutil.copyfile(source, temporary)
            with contextlib.suppress(OSError):  # not every file system keeps times or bits
                shutil.copystat(source, temporary)
            synchronise(descriptor)
        finally:
            os.close(descriptor)
        name_new(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            remove(temporary)


def name_new(file: Path, target: Path) -> None:
    """Give a file another name on the same disk, if that is free; where disks allow two names, the old one stays.

    Raises
    ------
    FileExistsError
        If there is something under that name, which stays as it is.
    UnconfirmedError
        If the file has the name, but the disk did not confirm it.
    OSError
        If the two are on different disks.
    """
    try:
        target.hardlink_to(file)
    except FileExistsError:
        raise
    except OSError as cause:
        if cause.errno == errno.EXDEV:
            raise
        # A file system without hard links: the name is taken by an empty file of ours, which is then replaced.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))
        try:
            file.replace(target)
        except OSError:
            target.unlink()
            raise
    _sync_folder(target.parent)


def remove_dead_copies(folder: Path) -> None:
    """Remove what processes have left that were killed while they copied files into a folder."""
    _remove_all_dead(folder / _COPY)


def remove_dead_replacements(target: Path) -> None:
    """Remove what processes have left that were killed while they replaced a file, before anybody writes it again."""
    _remove_all_dead(locate(target))


def _remove_all_dead(target: Path) -> None:
    temporary, descriptor = _make_temporary(target, 0o600)
    try:
        _remove_dead_files(target, now=os.fstat(descriptor).st_mtime)
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def locate(path: str | os.PathLike[str]) -> Path:
    """Absolute path with symbolic links followed; what no file can be called is an `OSError` like any other."""
    try:
        return Path(os.path.realpath(os.fspath(path)))
    except ValueError as cause:
        raise OSError(errno.EINVAL, f"not a possible file name ({cause})") from cause


def _state_of_old_file(target: Path) -> os.stat_result | None:
    """What is known of the file to be replaced, None if there is none; anything but a plain file is refused."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(old.st_mode):
        # Renaming would turn /dev/null into a file of ours, to the surprise of the whole machine.
        raise OSError(errno.EINVAL, "it is a device, pipe or socket, not a plain file")
    return old


def _keep_owner_and_mode(temporary: Path, old: os.stat_result) -> None:
    """Give a file the owner, group and permission bits of another; a group that we may not give gets no permissions."""
    if os.name == "nt":  # there is but one bit, and a file that is read-only is not replaced
        return
    mode, new = stat.S_IMODE(old.st_mode), temporary.stat()
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.chown(temporary, old.st_uid, old.st_gid)
        except PermissionError:  # to give files away takes a superuser
            try:
                os.chown(temporary, -1, old.st_gid)
            except PermissionError:
                mode &= ~0o070
    temporary.chmod(mode)


# Temporary files.


def _hidden_prefix(target: Path) -> str:
    return f".{os.fsdecode(os.fsencode(target.name)[:_LONGEST_REPEATED_NAME])}."


def _make_temporary(target: Path, mode: int) -> tuple[Path, int]:
    """An empty file beside ``target``, and its descriptor: as long as that is open it is locked, which means alive."""
    while True:
        temporary = target.with_name(f"{_hidden_prefix(target)}{os.getpid()}-{secrets.token_hex(8)}.tmp")
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        if os.name == "nt":  # an open file cannot be removed there, which is sign enough
            return temporary, descriptor
        with contextlib.suppress(OSError):  # a file system without locks: then age has to tell
            lock_descriptor(descriptor)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # somebody cleared it away before it was locked


def _remove_dead_files(target: Path, now: float) -> None:
    """Remove temporary files that killed writers have left."""
    pattern = re.compile(re.escape(_hidden_prefix(target)) + r"\d+-[0-9a-f]+\.tmp")
    # This is housekeeping: what cannot be listed or removed must not keep the file from being written.
    with contextlib.suppress(OSError):
        for path in target.parent.iterdir():
            if pattern.fullmatch(path.name):
                with contextlib.suppress(OSError):
                    _remove_if_dead(path, now)


def _remove_if_dead(path: Path, now: float) -> None:
    """Remove a temporary file unless a living process holds its lock.

    The pid in the name is no sign: pids return (in containers most writers have the same one) and may belong to another
    machine. Where the file system knows no locks, an hour without a change is the sign of death; `now` is then the time
    of a file just made in the same folder, for the clock of a network drive need not be ours.
    """
    if os.name == "nt":  # an open file cannot be removed there
        path.unlink(missing_ok=True)
        return
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        try:
            dead = lock_descriptor(descriptor, blocking=False)
        except OSError:
            dead = now - os.fstat(descriptor).st_mtime > _STALE_SECONDS
        if dead:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


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
