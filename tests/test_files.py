"""Files that are replaced in one step."""

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from gddsg.files import UnconfirmedError, replace_file, replacing

posix_only = pytest.mark.skipif(os.name != "posix", reason="permissions and special files are those of POSIX")


def test_a_file_is_written_and_replaced(tmp_path):
    for content in (b"old", b"newer"):
        replace_file(tmp_path / "a", content)
        assert (tmp_path / "a").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_others_may_read_it_as_the_user_allows(tmp_path):
    replace_file(tmp_path / "a", b"x")
    (tmp_path / "b").write_bytes(b"x")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"}
    assert len(modes) == 1


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    replace_file(tmp_path / "a", b"old")

    def fail(self, target):
        raise OSError("no")

    monkeypatch.setattr(type(tmp_path), "replace", fail)
    with pytest.raises(OSError, match="no"):
        replace_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_the_old_file_and_no_other(tmp_path, error):
    replace_file(tmp_path / "a", b"old")

    def fail():
        with replacing(tmp_path / "a") as temporary:
            temporary.write_bytes(b"half of the n")
            raise error

    with pytest.raises(error):
        fail()
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_old_file_stays_until_the_block_ends(tmp_path):
    replace_file(tmp_path / "a", b"old")
    with replacing(tmp_path / "a") as temporary:
        assert temporary.read_bytes() == b""
        assert temporary.parent == tmp_path
        temporary.write_bytes(b"new")
        assert (tmp_path / "a").read_bytes() == b"old"
    assert (tmp_path / "a").read_bytes() == b"new"


@posix_only
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_permission_bits_are_kept(tmp_path, mode):
    replace_file(tmp_path / "a", b"old")
    (tmp_path / "a").chmod(mode)
    with replacing(tmp_path / "a") as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600  # nobody else may look while it is written
        temporary.write_bytes(b"new")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode
    assert (tmp_path / "a").read_bytes() == b"new"


@posix_only
def test_a_new_file_obeys_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@posix_only
def test_symbolic_links_are_followed(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(Path("real", "target"))
    for content in (b"the link dangles", b"it does no more"):
        replace_file(link, content)
        assert link.is_symlink()
        assert (tmp_path / "real" / "target").read_bytes() == content


def test_only_stale_temporary_files_of_the_same_file_are_removed(tmp_path):
    names = {
        "stale": ".a.123-0123abcd.tmp",
        "fresh": ".a.124-0123abcd.tmp",
        "foreign": ".b.123-0123abcd.tmp",
        "similar": ".a.notes.tmp",
    }
    for kind, name in names.items():
        (tmp_path / name).touch()
        if kind != "fresh":
            two_hours_ago = (tmp_path / name).stat().st_mtime - 7200
            os.utime(tmp_path / name, (two_hours_ago, two_hours_ago))
    replace_file(tmp_path / "a", b"x")
    assert {path.name for path in tmp_path.iterdir()} == {"a", names["fresh"], names["foreign"], names["similar"]}


def test_of_writers_at_the_same_time_one_wins(tmp_path):
    contents = [bytes([version]) * 100_000 for version in range(8)]
    writers = [threading.Thread(target=replace_file, args=(tmp_path / "a", content)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert (tmp_path / "a").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_content_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    replace_file(tmp_path / "a", b"old")
    seen, fsync = [], os.fsync

    def look(descriptor):
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        seen.append((kind, (tmp_path / "a").read_bytes()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    replace_file(tmp_path / "a", b"new")
    assert seen[0] == ("file", b"old")
    if os.name == "posix":
        assert seen[1:] == [("folder", b"new")]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_at_the_last_moment_changes_nothing(tmp_path, monkeypatch, number):
    replace_file(tmp_path / "a", b"old")

    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        replace_file(tmp_path / "a", b"new")
    assert not isinstance(caught.value, UnconfirmedError)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@posix_only
def test_a_folder_that_cannot_be_synchronised(tmp_path, monkeypatch):
    fsync = os.fsync

    def fail_for_folders(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_folders)
    number = errno.EINVAL  # network file systems say so
    replace_file(tmp_path / "a", b"one")
    number = errno.EIO
    with pytest.raises(UnconfirmedError) as caught:
        replace_file(tmp_path / "a", b"two")
    assert caught.value.errno == errno.EIO
    assert (tmp_path / "a").read_bytes() == b"two"


@posix_only
def test_only_plain_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    for path in (Path("/dev/null"), tmp_path / "pipe", tmp_path / "folder", tmp_path / "nul\0byte"):
        with pytest.raises(OSError, match=r"plain file|directory|not a possible file name"):
            replace_file(path, b"x")
    assert sorted(tmp_path.iterdir()) == before


def test_a_long_name_is_no_trouble(tmp_path):
    name = "x" * os.pathconf(tmp_path, "PC_NAME_MAX")
    replace_file(tmp_path / name, b"x")
    assert (tmp_path / name).read_bytes() == b"x"
