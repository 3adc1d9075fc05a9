"""Folders of photos: what is a class, what is a photo, and what is left out for which reason."""

import os
import sys
import unicodedata
from pathlib import Path

import pytest

from gddsg.data.decoding import reads_heic
from gddsg.data.image_folder import image_folder, read_photos, unlabelled_photos
from gddsg.data.image_folder import test_photos as photos_for_test
from gddsg.errors import DataError


@pytest.fixture
def make(tmp_path):
    def make(*names):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if name.endswith("/") else path.touch()
        return tmp_path

    return make


def found(listing, root):
    return [(photo.label, photo.path.relative_to(root).as_posix()) for photo in listing.photos]


def reasons(listing, root):
    return {Path(skipped.name).relative_to(root).as_posix(): skipped.reason for skipped in listing.skipped}


def test_subfolders_are_classes_with_photos_at_any_depth(make):
    root = make("dog/2.JPG", "dog/deep/deeper/1.png", "cat/1.webp")
    listing = read_photos(root)
    assert found(listing, root) == [("cat", "cat/1.webp"), ("dog", "dog/2.JPG"), ("dog", "dog/deep/deeper/1.png")]
    assert listing.skipped == ()
    assert read_photos(str(root)) == listing


def test_a_folder_without_subfolders_is_one_class(make, monkeypatch):
    root = make("cat/1.jpg", "cat/2.jpg")
    assert {photo.label for photo in read_photos(root / "cat").photos} == {"cat"}
    monkeypatch.chdir(root / "cat")
    assert {photo.label for photo in read_photos(".").photos} == {"cat"}


def test_a_single_file_is_of_the_class_its_folder_is_named_after(make, monkeypatch):
    root = make("cat/1.jpg", "cat/2.jpg")
    assert found(read_photos(root / "cat/2.jpg"), root) == [("cat", "cat/2.jpg")]
    monkeypatch.chdir(root / "cat")
    assert read_photos("1.jpg").photos[0].label == "cat"


def test_several_paths_are_read_together_and_each_photo_once(make):
    root = make("cat/1.jpg", "dog/1.jpg", "dog/2.jpg")
    paths = (root / "dog/2.jpg", root / "cat", root, root / "dog")
    assert found(read_photos(*paths), root) == found(read_photos(root), root)
    assert read_photos(*paths).skipped == ()


@pytest.mark.parametrize("held_out", ["test", "TEST", "val", "validation"])
def test_a_divided_folder_means_its_training_part(make, held_out):
    root = make("Train/cat/1.jpg", f"{held_out}/cat/2.jpg", "notes.txt", "loose.jpg")
    listing = read_photos(root)
    assert found(listing, root) == [("cat", "Train/cat/1.jpg")]
    assert reasons(listing, root) == {"notes.txt": "not an image file", "loose.jpg": "in no class folder"}
    assert found(photos_for_test(root), root) == [("cat", f"{held_out}/cat/2.jpg")]


def test_of_test_and_validation_the_test_part_is_the_test(make):
    root = make("train/cat/1.jpg", "val/cat/2.jpg", "test/cat/3.jpg")
    assert found(photos_for_test(root), root) == [("cat", "test/cat/3.jpg")]
    assert found(read_photos(root / "val"), root) == [("cat", "val/cat/2.jpg")]


def test_photos_for_test_are_all_photos_where_there_is_no_division(make):
    root = make("cat/1.jpg", "dog/1.jpg")
    assert photos_for_test(root) == read_photos(root)


def test_a_train_is_a_class_like_any_other(make):
    root = make("train/1.jpg", "tram/1.jpg")
    assert [photo.label for photo in read_photos(root).photos] == ["train", "tram"]
    assert read_photos(make("only/train/1.jpg") / "only").photos[0].label == "train"


def test_parts_without_class_folders_are_not_taken_for_classes(make):
    with pytest.raises(DataError, match="in no class folder"):
        read_photos(make("train/1.jpg", "test/2.jpg"))


@pytest.mark.parametrize(
    ("names", "wrong", "right"),
    [
        (["photos/cat/1.jpg", "photos/dog/1.jpg"], "photos", ["photos"]),
        (["photos/cat/1.jpg", "docs/readme.txt", "loose.jpg"], "photos", ["photos"]),
        (["a/b/cat/1.jpg", "a/b/dog/1.jpg"], "a", ["a/b"]),
        (["birds/train/owl/1.jpg", "birds/test/owl/2.jpg"], "birds", ["birds"]),
        (["train/owl/1.jpg", "train/hen/1.jpg"], "train", ["train"]),
        (["train/owl/1.jpg", "test/owl/1.jpg", "extra/owl/1.jpg"], "train", ["train"]),
        (["test/owl/1.jpg", "notes/1.txt", "extra/1.jpg"], "test", ["test"]),
        (["birds/train/owl/1.jpg", "birds/val/owl/2.jpg", "fish/1.jpg"], "birds", ["birds"]),
        ([f"{s}/{p}/owl/1.jpg" for s in "abcd" for p in ("train", "test")], "a", ["a", "b", "c"]),
        (["train/photos/owl/1.jpg", "train/photos/hen/1.jpg", "test/owl/1.jpg"], "photos", ["train/photos"]),
    ],
)
@pytest.mark.parametrize("read", [read_photos, photos_for_test, image_folder])
def test_a_folder_one_level_too_high_is_refused_with_the_right_path(make, read, names, wrong, right):
    root = make(*names)
    if wrong == "photos" and right != ["photos"]:  # only the training part is too high
        read = read_photos
    with pytest.raises(DataError, match=f"one level too high: it would make '{wrong}' a class") as caught:
        read(root)
    assert f"name {' '.join(repr(str(root / path)) for path in right)}" in str(caught.value)
    read(root / right[0])


@pytest.mark.parametrize(
    "names",
    [
        ["cat/1.jpg"],
        ["cat/1.jpg", "cat/old/2.jpg"],
        ["cat/2023/1.jpg", "cat/2024/2.jpg", "dog/2023/3.jpg"],
        ["cat/train/1.jpg", "cat/test/2.jpg", "dog/train/3.jpg", "dog/test/4.jpg"],
        ["train/1.jpg", "tram/deep/1.jpg"],
    ],
)
def test_classes_may_hold_folders(make, names):
    listing = read_photos(make(*names))
    assert [photo.label for photo in listing.photos] == [name.split("/")[0] for name in sorted(names)]


def test_links_that_lead_in_circles_are_not_followed_for_ever(make):
    root = make("only/notes.txt")
    (root / "only/up").symlink_to(root)
    (root / "again").symlink_to(root / "only")
    with pytest.raises(DataError, match="No photo was found"):
        read_photos(root)


@pytest.fixture
def no_heic(monkeypatch):
    """As where pillow-heif is not installed."""
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    reads_heic.cache_clear()
    yield
    reads_heic.cache_clear()


def test_litter_is_left_out_in_silence_and_everything_else_with_a_reason(make, no_heic):
    root = make(
        *("cat/1.jpg", "cat/.hidden.jpg", "cat/Thumbs.db", "cat/desktop.ini", ".git/1.jpg", "__MACOSX/cat/1.jpg"),
        *("cat/.DS_Store", "cat/notes.txt", "cat/2.HEIC", "cat/plain", "loose.png", "read.me", "empty/", "words/a.txt"),
    )
    listing = read_photos(root)
    assert found(listing, root) == [("cat", "cat/1.jpg")]
    assert reasons(listing, root) == {
        "cat/2.HEIC": "HEIC images take another package: pip install 'gddsg[heif]'; or convert it to JPEG",
        "cat/notes.txt": "not an image file",
        "cat/plain": "not an image file",
        "empty": "no photo in it",
        "loose.png": "in no class folder",
        "read.me": "not an image file",
        "words": "no photo in it",
        "words/a.txt": "not an image file",
    }


def test_a_folder_that_may_not_be_opened_is_left_out(make, monkeypatch):
    root = make("cat/1.jpg", "secret/1.jpg")
    scandir = os.scandir

    def guarded(folder):
        if Path(folder).name == "secret":
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", guarded)
    listing = read_photos(root)
    assert found(listing, root) == [("cat", "cat/1.jpg")]
    assert reasons(listing, root) == {"secret": "the folder cannot be opened (Permission denied)"}


def test_links_are_followed_and_circles_are_not(make):
    root = make("photos/cat/1.jpg", "store/2.jpg", "store/sub/3.jpg")
    photos = root / "photos"
    (photos / "dog").symlink_to(root / "store")
    (photos / "cat/linked.jpg").symlink_to(root / "store/2.jpg")
    (photos / "cat/up").symlink_to(photos)
    (root / "store/sub/self").symlink_to(root / "store")
    (photos / "cat/far").symlink_to(root.parent)
    (photos / "cat/nothing.jpg").symlink_to(root / "gone")
    (photos / "cat/itself.jpg").symlink_to(photos / "cat/itself.jpg")
    listing = read_photos(photos)
    assert found(listing, photos) == [
        *(("cat", "cat/1.jpg"), ("cat", "cat/linked.jpg")),
        *(("dog", "dog/2.jpg"), ("dog", "dog/sub/3.jpg")),
    ]
    kinds = {name: reason.split()[0] for name, reason in reasons(listing, photos).items()}
    assert kinds == {
        **dict.fromkeys(("cat/up", "cat/far", "dog/sub/self"), "a"),
        **dict.fromkeys(("cat/nothing.jpg", "cat/itself.jpg"), "neither"),
    }


@pytest.mark.posix
def test_pipes_are_not_opened(make):
    root = make("cat/1.jpg")
    os.mkfifo(root / "cat/pipe.jpg")
    assert list(reasons(read_photos(root), root)) == ["cat/pipe.jpg"]
    with pytest.raises(DataError, match="pipe"):
        read_photos(root / "cat/pipe.jpg")


def test_labels_are_composed_and_stripped(make):
    root = make(unicodedata.normalize("NFD", "Löwe") + "/1.jpg", " cat /1.jpg", "cat/2.jpg", "   /1.jpg")
    listing = read_photos(root)
    assert [photo.label for photo in listing.photos] == [unicodedata.normalize("NFC", "Löwe"), "cat", "cat"]
    assert list(reasons(listing, root).values()) == ["a class needs a name; rename the folder"]


def test_classes_that_differ_in_case_alone_are_refused_unless_allowed(make):
    root = make("Cat/1.jpg", "cat/1.jpg")
    with pytest.raises(DataError, match=r"'Cat' and 'cat'.*rename one of them, or allow it with case_sensitive=True"):
        read_photos(root)
    assert [photo.label for photo in read_photos(root, case_sensitive=True).photos] == ["Cat", "cat"]
    with pytest.raises(DataError, match="differ only"):
        read_photos(root / "Cat", root / "cat")


def test_names_that_are_no_text_are_left_out_and_shown_readably(make):
    root = make("cat/1.jpg")
    try:
        (Path(os.fsdecode(os.fsencode(root) + b"/cat/\xff.jpg"))).touch()
        (Path(os.fsdecode(os.fsencode(root) + b"/d\xf6g"))).mkdir()
    except OSError:
        pytest.skip("this file system takes only names that are text")
    listing = read_photos(root)
    assert found(listing, root) == [("cat", "cat/1.jpg")]
    assert reasons(listing, root) == dict.fromkeys(
        ["cat/\\xff.jpg", "d\\xf6g"], "its name is not valid Unicode; rename it"
    )
    with pytest.raises(DataError, match="not valid Unicode"):
        read_photos(os.fsdecode(os.fsencode(root) + b"/cat/\xff.jpg"))


@pytest.mark.parametrize("read", [read_photos, photos_for_test, unlabelled_photos])
def test_nothing_to_read_is_an_error_that_helps(make, read):
    root = make("empty/", "words/a.txt", "words/b.txt", "words/c.txt", "words/d.txt")
    with pytest.raises(DataError, match="No path was given"):
        read()
    with pytest.raises(DataError, match="'nowhere' cannot be found"):
        read(root / "words", "nowhere")
    with pytest.raises(DataError, match="cannot be found"):
        read("null\0byte")
    with pytest.raises(DataError, match="No photo was found"):
        read(root / "empty")
    with pytest.raises(DataError, match=r"(?s)a\.txt: not an image file.*more"):
        read(root / "words")


def test_unlabelled_photos_come_in_the_order_given(make):
    root = make("b/2.jpg", "b/1.jpg", "b/sub/3.jpg", "a.jpg", "c.txt", "b/.x/4.jpg")
    (root / "b/sub/back").symlink_to(root / "b")
    listing = unlabelled_photos(root / "b", root / "a.jpg", root / "c.txt", root / "b/1.jpg")
    assert found(listing, root) == [("", name) for name in ("b/1.jpg", "b/2.jpg", "b/sub/3.jpg", "a.jpg")]
    assert set(reasons(listing, root)) == {"c.txt", "b/sub/back"}


def test_an_image_folder_without_division_is_split_by_the_seed(make):
    root = make(*(f"pets/{label}/{number}.jpg" for label in ("cat", "dog") for number in range(10)), "pets/a.txt")
    dataset = image_folder(root / "pets", test_share=0.3, seed=5)
    assert dataset.name == "pets"
    assert dataset.classes == ("cat", "dog")
    assert len(dataset.train) + len(dataset.test) == 20
    assert {photo.label for photo in dataset.test} == {"cat", "dog"}
    assert [skipped.reason for skipped in dataset.skipped] == ["not an image file"]
    assert image_folder(root / "pets", test_share=0.3, seed=5) == dataset


def test_an_image_folder_keeps_its_own_division(make):
    root = make("train/cat/1.jpg", "train/dog/1.jpg", "test/cat/2.jpg", "test/hen/1.jpg")
    dataset = image_folder(root)
    assert [(photo.label, photo.path.name) for photo in dataset.train] == [("cat", "1.jpg"), ("dog", "1.jpg")]
    assert [(photo.label, photo.path.name) for photo in dataset.test] == [("cat", "2.jpg")]
    assert [skipped.reason for skipped in dataset.skipped] == ["its class has no training photo"]


def test_an_image_folder_compares_the_spelling_of_both_parts(make):
    root = make("train/cat/1.jpg", "test/Cat/2.jpg")
    with pytest.raises(DataError, match="differ only"):
        image_folder(root)
    with pytest.raises(DataError, match="is a file"):
        image_folder(root / "train/cat/1.jpg")
