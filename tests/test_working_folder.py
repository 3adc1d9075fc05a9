"""Working folders: private while they are used, gone afterwards, whatever became of their process."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from gddsg.errors import DataError
from gddsg.working_folder import working_folder

HOLDER = """
import sys
from gddsg.working_folder import working_folder

with working_folder() as folder:
    (folder / "sub").mkdir()
    (folder / "sub" / "features").write_bytes(b"x" * 1000)
    print(folder, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder for temporary files, of this process and of those it starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def holder():
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def ended(process):
    process.stdin.close()
    process.stdout.close()
    return process.wait()


def test_a_folder_is_private_and_gone_in_the_end(place):
    with working_folder() as folder:
        assert folder.parent == place
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "sub").mkdir()
        (folder / "sub" / "file").write_text("x")
    assert not list(place.iterdir())


def test_a_folder_is_gone_after_an_error(place):
    with pytest.raises(KeyError), working_folder():
        raise KeyError
    assert not list(place.iterdir())


@pytest.mark.posix
def test_what_a_killed_process_left_is_removed_and_what_is_in_use_stays(place):
    killed, left = holder()
    living, used = holder()
    killed.send_signal(signal.SIGKILL)
    assert ended(killed) == -signal.SIGKILL
    assert (Path(left) / "sub" / "features").is_file()
    with working_folder() as folder:
        assert {str(path) for path in place.iterdir()} == {used, str(folder)}
    assert ended(living) == 0
    assert not list(place.iterdir())


def test_a_process_killed_before_it_had_its_lock_leaves_nothing_either(place):
    (place / "gddsg-0123456789abcdef").mkdir(mode=0o700)
    with working_folder():
        assert len(list(place.iterdir())) == 1


@pytest.mark.posix
def test_only_private_folders_of_this_very_name_are_removed(place, tmp_path):
    treasure = tmp_path / "treasure"
    treasure.mkdir(mode=0o700)
    (treasure / "kept").write_text("x")
    (place / "gddsg-0000000000000001").symlink_to(treasure)
    (place / "gddsg-0000000000000002").mkdir()
    (place / "gddsg-0000000000000002").chmod(0o777)  # anybody may have put anything into it
    (place / "gddsg-0000000000000003").write_text("a file")
    (place / "gddsg-photos").mkdir(mode=0o700)
    with working_folder():
        pass
    assert len(list(place.iterdir())) == 4
    assert [path.name for path in treasure.iterdir()] == ["kept"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can make files of others")
def test_folders_of_others_stay(place):
    other = place / "gddsg-0123456789abcdef"
    other.mkdir(mode=0o700)
    os.chown(other, 12345, 12345)
    with working_folder():
        pass
    assert list(place.iterdir()) == [other]


def test_links_in_what_was_left_are_not_followed(place, tmp_path):
    (tmp_path / "kept").write_text("x")
    left = place / "gddsg-0123456789abcdef"
    left.mkdir(mode=0o700)
    (left / "out").symlink_to(tmp_path)
    with working_folder():
        pass
    assert not left.exists()
    assert (tmp_path / "kept").exists()


def test_many_at_once_do_not_remove_each_other(place):
    failures = []

    def work():
        for _ in range(25):
            with working_folder() as folder:
                try:
                    (folder / "file").write_text("x")
                    if (folder / "file").read_text() != "x":
                        failures.append(folder)
                except OSError as error:
                    failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert not list(place.iterdir())


def test_no_place_for_temporary_files_is_said_in_words(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file" / "folder"))
    with pytest.raises(DataError, match="TMPDIR"), working_folder():
        pass
