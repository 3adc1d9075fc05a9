"""Files that are replaced in one step."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gddsg.files import LockedError, UnconfirmedError, locked, replace_file, replacing

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


WRITE_FOR_EVER = """
import sys, time
from pathlib import Path
from gddsg.files import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"half of it")
    print("writing", flush=True)
    time.sleep(600)
"""

HOLD_FOR_EVER = """
import sys, time
from pathlib import Path
from gddsg.files import locked
with locked(Path(sys.argv[1])):
    print("holding", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def started():
    """Starts programs that never end by themselves, and waits until they are at work."""
    programs = []

    def start(code, *arguments):
        program = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE)
        programs.append(program)
        assert program.stdout.readline()
        return program

    yield start
    for program in programs:
        program.kill()
        program.wait()
        program.stdout.close()


def end(program):
    program.kill()
    program.wait()


def test_what_a_killed_writer_left_goes_with_the_next_write_and_what_a_living_one_needs_stays(tmp_path, started):
    dead, living = started(WRITE_FOR_EVER, tmp_path / "a"), started(WRITE_FOR_EVER, tmp_path / "a")
    end(dead)
    (tmp_path / ".b.123-0123abcd.tmp").touch()  # of another file
    (tmp_path / ".a.notes.tmp").touch()  # of another program
    replace_file(tmp_path / "a", b"x")
    names = {path.name for path in tmp_path.iterdir()}
    (kept,) = (name for name in names if name.startswith(f".a.{living.pid}-"))
    assert names == {"a", kept, ".b.123-0123abcd.tmp", ".a.notes.tmp"}


def test_without_locks_age_tells_what_is_dead(tmp_path, monkeypatch):
    def fail(descriptor, *, blocking=True):
        raise OSError(errno.ENOSYS, "this file system has no locks")

    monkeypatch.setattr("gddsg.files.lock_descriptor", fail)
    names = {"stale": ".a.123-0123abcd.tmp", "fresh": ".a.124-0123abcd.tmp"}
    for name in names.values():
        (tmp_path / name).touch()
    two_hours_ago = (tmp_path / names["stale"]).stat().st_mtime - 7200
    os.utime(tmp_path / names["stale"], (two_hours_ago, two_hours_ago))
    replace_file(tmp_path / "a", b"x")
    assert {path.name for path in tmp_path.iterdir()} == {"a", names["fresh"]}


def test_a_lock_is_gone_afterwards_even_that_of_a_killed_process(tmp_path, started):
    end(started(HOLD_FOR_EVER, tmp_path / "a"))
    assert [path.name for path in tmp_path.iterdir()] == [".a.lock"]
    with locked(tmp_path / "a"):
        pass
    assert not list(tmp_path.iterdir())


@posix_only
def test_a_file_has_one_lock_whatever_links_lead_to_it(tmp_path, started):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a")
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    started(HOLD_FOR_EVER, tmp_path / "real" / "a")
    for path in (tmp_path / "link", tmp_path / "folder" / "a"):
        with pytest.raises(LockedError, match="another process"), locked(path, wait=False):
            pytest.fail("two processes hold one lock")


@posix_only
def test_a_link_that_changes_while_it_is_waited_for_is_followed_again(tmp_path, started):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "old")
    holder = started(HOLD_FOR_EVER, link)

    def turn():
        link.unlink()
        link.symlink_to(tmp_path / "new")
        end(holder)

    with locked(link, on_wait=turn) as target:
        assert target == tmp_path / "new"
        assert {path.name for path in tmp_path.iterdir()} == {"link", ".new.lock"}


def test_threads_take_turns(tmp_path):
    inside, most = [], []

    def work(number):
        for _ in range(20):
            with locked(tmp_path / "a"):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert len(most) == 120
    assert not list(tmp_path.iterdir())


COUNT = """
import sys
from pathlib import Path
from gddsg.files import locked
print("counting", flush=True)
for _ in range(int(sys.argv[2])):
    with locked(Path(sys.argv[1])) as path:
        path.write_text(str(int(path.read_text()) + 1))
"""


def test_processes_take_turns_though_each_removes_the_lock_that_others_are_about_to_take(tmp_path, started):
    """Two of them inside at once would lose a number."""
    (tmp_path / "a").write_text("0")
    programs = [started(COUNT, tmp_path / "a", 100) for _ in range(4)]
    assert [program.wait(timeout=120) for program in programs] == [0] * 4
    assert (tmp_path / "a").read_text() == "400"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@posix_only
@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only a superuser may give files away")
def test_owner_and_group_are_kept(tmp_path):
    replace_file(tmp_path / "a", b"old")
    os.chown(tmp_path / "a", 12_345, 54_321)
    (tmp_path / "a").chmod(0o640)
    replace_file(tmp_path / "a", b"new")
    found = (tmp_path / "a").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12_345, 54_321, 0o640)


@posix_only
def test_a_group_that_cannot_be_kept_gets_no_permissions(tmp_path, monkeypatch):
    replace_file(tmp_path / "a", b"old")
    (tmp_path / "a").chmod(0o664)
    before = (tmp_path / "a").stat()
    monkeypatch.setattr(os, "chown", lambda *_: (_ for _ in ()).throw(PermissionError))
    monkeypatch.setattr("gddsg.files._state_of_old_file", lambda _: other_group(before))
    replace_file(tmp_path / "a", b"new")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o604


def other_group(found):
    return os.stat_result([*found[:5], found.st_gid + 1, *found[6:10]])


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
