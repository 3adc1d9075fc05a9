"""Photos put into folders: nothing is overwritten, nothing lost, and no class name leads out of the folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gddsg.data.dataset import PhotoListing
from gddsg.data.photo import Photo
from gddsg.errors import DataError
from gddsg.photos import filing as module
from gddsg.photos.filing import file_photos, folder_name, leave_out_filed, prepare_folder
from gddsg.photos.reports import PhotoPrediction

NAMES = ["../x", "a/b", "..", ".", "/etc", "a\\b", "C:x", "con", "NUL.txt", "a\0b", "a\nb", ".hidden", "dot.", " ", ""]


def predicted(path, label):
    return PhotoPrediction(str(path), label, 0.9, ((label, 0.9),), 1.0)


def write(path, content=b"photo"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def into(tmp_path):
    prepare_folder(tmp_path / "into")
    return tmp_path / "into"


@pytest.mark.parametrize("label", NAMES)
@pytest.mark.parametrize("move", [False, True])
def test_no_name_of_a_class_leads_out_of_the_folder(label, move, tmp_path, into):
    source = write(tmp_path / "inbox" / "1.jpg")
    (report,) = file_photos([predicted(source, label)], into, move=move).photos
    assert report.label == label
    assert Path(report.target).resolve().parent.parent == into.resolve()
    assert Path(report.target).read_bytes() == b"photo"
    assert source.exists() != move
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inbox", "into"]


def test_folders_of_different_classes_are_different():
    labels = [*NAMES, "_._x", "a_b", "x" * 300, "x" * 299, "🦊" * 80, "🦊" * 81, "Fuchs", "grey wolf", "été 日本"]
    names = [folder_name(label) for label in labels]
    assert len(set(names)) == len(labels)
    assert names[-3:] == labels[-3:]
    assert max(len(name.encode()) for name in names) < 255


@pytest.mark.parametrize("move", [False, True])
def test_names_that_are_taken_get_a_number_and_nothing_is_overwritten(move, tmp_path, into):
    write(into / "fox" / "1.jpg", b"older")
    sources = [write(tmp_path / place / "1.jpg", place.encode()) for place in ("a", "b", "c")]
    predictions = [predicted(source, "fox") for source in sources]
    report = file_photos(predictions, into, move=move)
    expected = {"fox/1.jpg": b"older", "fox/1 (2).jpg": b"a", "fox/1 (3).jpg": b"b", "fox/1 (4).jpg": b"c"}
    assert files(into) == expected
    assert not any(one.there_before for one in report.photos)
    if not move:
        assert all(one.there_before for one in file_photos(predictions, into, move=False).photos)
        assert files(into) == expected


@pytest.mark.posix
def test_a_copy_keeps_times_and_bits(tmp_path, into):
    source = write(tmp_path / "1.jpg")
    source.chmod(0o640)
    os.utime(source, (1_000_000_000, 1_000_000_000))
    (one,) = file_photos([predicted(source, "fox")], into, move=False).photos
    assert Path(one.target).stat().st_mtime == 1_000_000_000
    assert Path(one.target).stat().st_mode == source.stat().st_mode
    assert not Path(one.target).samefile(source)  # who edits the copy leaves the original alone


def test_photos_in_the_folder_already_are_left_alone(tmp_path, into):
    write(into / "fox" / "1.jpg")
    listing = PhotoListing((Photo.of_file(into / "fox" / "1.jpg"), Photo.of_file(write(tmp_path / "2.jpg"))))
    assert [one.path.name for one in leave_out_filed(listing, into).photos] == ["2.jpg"]


def test_a_photo_is_not_removed_by_moving_it_to_where_it_is(tmp_path, into):
    source = write(into / "fox" / "1.jpg")
    (tmp_path / "other").symlink_to(into)
    for path in (source, tmp_path / "other" / "fox" / "1.jpg"):
        (one,) = file_photos([predicted(path, "fox")], into, move=True).photos
        assert one.there_before
        assert files(into) == {"fox/1.jpg": b"photo"}


def test_a_move_that_was_killed_halfway_is_finished(tmp_path, into):
    """The photo has both names, or is on both disks."""
    linked, copied = write(tmp_path / "1.jpg"), write(tmp_path / "2.jpg")
    (into / "fox").mkdir()
    (into / "fox" / "1.jpg").hardlink_to(linked)
    write(into / "fox" / "2.jpg")
    file_photos([predicted(linked, "fox"), predicted(copied, "fox")], into, move=True)
    assert files(tmp_path) == {"into/fox/1.jpg": b"photo", "into/fox/2.jpg": b"photo"}


def test_a_move_to_another_disk_copies_first(tmp_path, into, monkeypatch):
    def other_disk(file, target):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(module, "name_new", other_disk)
    source = write(tmp_path / "1.jpg")
    file_photos([predicted(source, "fox")], into, move=True)
    assert files(into) == {"fox/1.jpg": b"photo"}
    assert not source.exists()


@pytest.mark.parametrize("move", [False, True])
def test_a_file_system_without_hard_links(move, tmp_path, into, monkeypatch):
    def refuse(self, target):
        if os.path.lexists(self):
            raise FileExistsError(17, "File exists")
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    write(into / "fox" / "1.jpg", b"older")
    source = write(tmp_path / "1.jpg")
    file_photos([predicted(source, "fox")], into, move=move)
    assert files(into) == {"fox/1.jpg": b"older", "fox/1 (2).jpg": b"photo"}
    assert source.exists() != move


def test_links_are_copied_as_what_they_lead_to(tmp_path, into):
    original = write(tmp_path / "store" / "original.jpg")
    link = tmp_path / "link.jpg"
    link.symlink_to(original)
    file_photos([predicted(link, "fox")], into, move=True)
    assert files(into) == {"fox/link.jpg": b"photo"}
    assert not (into / "fox" / "link.jpg").is_symlink()
    assert not os.path.lexists(link)
    assert original.exists()


def test_a_photo_that_is_gone_is_skipped(tmp_path, into):
    present = write(tmp_path / "2.jpg")
    report = file_photos([predicted(tmp_path / "1.jpg", "fox"), predicted(present, "fox")], into, move=True)
    assert [Path(one.target).name for one in report.photos] == ["2.jpg"]
    assert "it is gone" in report.skipped[0].reason
    assert files(into) == {"fox/2.jpg": b"photo"}


def test_a_full_disk_stops_and_says_how_far_it_came(tmp_path, into, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    sources = [write(tmp_path / f"{i}.jpg", b"%d" % i) for i in range(3)]
    predictions = [predicted(source, "fox") for source in sources]
    file_photos(predictions[:1], into, move=False)
    monkeypatch.setattr(module, "copy_new", full)
    with pytest.raises(DataError, match=r"No space left.*Photos in their places: 1.*goes on from here"):
        file_photos(predictions, into, move=False)
    monkeypatch.undo()
    assert len(file_photos(predictions, into, move=False).photos) == 3
    assert files(into) == {f"fox/{i}.jpg": b"%d" % i for i in range(3)}


def test_a_folder_that_cannot_be(tmp_path):
    write(tmp_path / "file")
    for folder in (tmp_path / "file", tmp_path / "no" / "such", Path("a\0b")):
        with pytest.raises(DataError, match="cannot be made a folder for photos"):
            prepare_folder(folder)


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from gddsg.photos.filing import file_photos
from gddsg.photos.reports import PhotoPrediction

def half(source, target):
    Path(target).write_bytes(Path(source).read_bytes()[:1])
    os.kill(os.getpid(), signal.SIGKILL)

shutil.copyfile = half
file_photos([PhotoPrediction(sys.argv[1], "fox", 0.9, (("fox", 0.9),), 1.0)], Path(sys.argv[2]), move=False)
"""


@pytest.mark.posix
def test_a_kill_leaves_no_half_photo_and_the_next_call_clears_up(tmp_path, into):
    source = write(tmp_path / "1.jpg")
    assert subprocess.run([sys.executable, "-c", KILLED, source, into], check=False).returncode == -9
    (left,) = (into / "fox").iterdir()
    assert left.name.startswith(".")  # hidden, and never taken for a photo
    file_photos([predicted(source, "fox")], into, move=False)
    assert files(into) == {"fox/1.jpg": b"photo"}
