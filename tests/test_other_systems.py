"""What Windows and macOS do otherwise than Linux, played on Linux: the tests there run on machines of others."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path, PureWindowsPath

import pytest

from gddsg import files, working_folder
from gddsg.bench import memory
from gddsg.errors import InputError
from gddsg.photos.filing import folder_name
from gddsg.store.rows_file import sqlite_address

POSIX_ONLY = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")


def test_every_module_can_be_imported_without_those_of_posix():
    names = [
        ".".join(path.relative_to(Path(files.__file__).parents[1]).with_suffix("").parts)
        for path in Path(files.__file__).parent.rglob("*.py")
        if path.stem not in ("__main__", "__init__") and "scale" not in path.parts
    ]
    # what others need they get first: asyncio and filelock look at the system, which is not played here
    code = (
        "import sys, asyncio, filelock, torch, sklearn, matplotlib, transformers, uvicorn, fastapi, importlib\n"
        f"sys.modules.update(dict.fromkeys({POSIX_ONLY!r}))\n"
        f"for name in {names!r}: importlib.import_module(name)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def like_windows(monkeypatch):
    monkeypatch.setattr(files, "open_files_stay", lambda: True)


def in_the_way(monkeypatch, times):
    """As if another program had the target open the first few times that somebody wants to replace it."""
    tried, replace = [], Path.replace

    def replace_or_not(self, target):
        tried.append(target)
        if len(tried) <= times:
            raise PermissionError(errno.EACCES, "Access is denied")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", replace_or_not)
    return tried


def test_who_has_the_file_open_for_a_moment_is_waited_for(tmp_path, monkeypatch, like_windows):
    tried = in_the_way(monkeypatch, times=3)
    files.replace_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert len(tried) == 4


def test_who_has_it_open_for_good_is_named_as_the_reason(tmp_path, monkeypatch, like_windows):
    (tmp_path / "a").write_bytes(b"old")
    in_the_way(monkeypatch, times=10**9)
    monkeypatch.setattr(files, "_PATIENCE", 0.05)
    with pytest.raises(PermissionError, match="another program has the file open"):
        files.replace_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_elsewhere_nobody_is_waited_for(tmp_path, monkeypatch):
    tried = in_the_way(monkeypatch, times=3)
    with pytest.raises(PermissionError):
        files.replace_file(tmp_path / "a", b"new")
    assert len(tried) == 1


@pytest.fixture
def read_only_files_stay(monkeypatch):
    """Windows removes no file that is read-only."""
    unlink = Path.unlink

    def unlink_or_not(self, missing_ok=False):
        if os.path.lexists(self) and not self.stat().st_mode & stat.S_IWRITE:
            raise PermissionError(errno.EACCES, "Access is denied")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_or_not)


@pytest.mark.posix
def test_a_read_only_photo_is_copied_and_nothing_else_is_left(tmp_path, like_windows, read_only_files_stay):
    photo = tmp_path / "1.jpg"
    photo.write_bytes(b"x")
    photo.chmod(0o444)
    (tmp_path / "fox").mkdir()
    files.copy_new(photo, tmp_path / "fox" / "1.jpg")
    assert [path.name for path in (tmp_path / "fox").iterdir()] == ["1.jpg"]
    files.remove(photo)
    assert not photo.exists()


def test_what_may_not_be_removed_elsewhere_stays(tmp_path, read_only_files_stay):
    (tmp_path / "1.jpg").touch(0o444)
    with pytest.raises(PermissionError):
        files.remove(tmp_path / "1.jpg")


def test_a_folder_goes_although_its_lock_was_open(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    remove, calls = shutil.rmtree, []

    def remove_but_what_is_open(folder, ignore_errors):
        calls.append(folder)
        if len(calls) % 2:  # the lock is open the first time
            for path in Path(folder).iterdir():
                if path.name != ".lock":
                    path.unlink()
        else:
            remove(folder)

    monkeypatch.setattr(working_folder.shutil, "rmtree", remove_but_what_is_open)
    with working_folder.working_folder() as folder:
        (folder / "file").touch()
    (tmp_path / "gddsg-0123456789abcdef").mkdir(mode=0o700)  # left by a process that was killed
    with working_folder.working_folder():
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("path", "address"),
    [
        (r"C:\Users\Ann\a b.gddsg", "file:///C:/Users/Ann/a%20b.gddsg?mode=ro"),
        (r"\\server\share\100%.gddsg", "file:////server/share/100%25.gddsg?mode=ro"),
    ],
)
def test_a_drive_and_a_network_drive_as_sqlite_is_told_of_them(path, address):
    assert sqlite_address(PureWindowsPath(path), "mode=ro") == address


@pytest.mark.parametrize("name", ["con", "NUL.txt", "com1", "COM¹", "lpt0", "CONIN$", "aux .x"])
def test_no_folder_is_called_like_a_device(name):
    assert folder_name(name) != name


def test_memory_that_nobody_tells_is_no_crash(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.setattr(Path, "exists", lambda self: False)
    with pytest.raises(InputError, match="Windows does not tell"):
        memory.peak_mebibytes()


@pytest.mark.skipif(os.name == "nt", reason="there is no fcntl")
@pytest.mark.parametrize("known", [True, False])
def test_macos_is_asked_for_the_disk_itself(tmp_path, monkeypatch, known):
    import fcntl

    asked, synchronised = [], []

    def ask(descriptor, what):
        asked.append(what)
        if not known:
            raise OSError(errno.ENOTSUP, "not on this file system")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", ask)
    monkeypatch.setattr(os, "fsync", synchronised.append)
    with (tmp_path / "a").open("wb") as file:
        files.synchronise(file.fileno())
    assert asked == [51]
    assert len(synchronised) == (not known)
