"""Stanford Dogs: the lists decide, packed or not."""

import sys
import tarfile

import numpy as np
import pytest
from scipy.io import savemat

from gddsg.data.stanford_dogs import stanford_dogs
from gddsg.errors import DataError

MODULE = sys.modules["gddsg.data.stanford_dogs"]  # the package has a function of this name
LISTS = {
    "train": [("n1-Chihuahua/n1_1.jpg", 1), ("n2-wire-haired_fox_terrier/n2_1.jpg", 2)],
    "test": [("n1-Chihuahua/n1_2.jpg", 1), ("n2-wire-haired_fox_terrier/n2_2.jpg", 2)],
}


def write_list(path, listed):
    files = np.empty((len(listed), 1), dtype=object)
    files[:, 0] = [file for file, _ in listed]
    numbers = np.array([[number] for _, number in listed], np.uint8)
    savemat(path, {"file_list": files, "annotation_list": files, "labels": numbers})


def lay_out(folder, images="Images", **lists):
    folder.mkdir(parents=True, exist_ok=True)
    for part, listed in {**LISTS, **lists}.items():
        write_list(folder / f"{part}_list.mat", listed)
    for file, _ in LISTS["train"] + LISTS["test"]:
        (folder / images / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / images / file).touch()
    return folder


def assert_right(dataset):
    assert (dataset.name, dataset.classes) == ("stanford-dogs", ("n1-Chihuahua", "n2-wire-haired_fox_terrier"))
    assert [photo.path.name for photo in dataset.train] == ["n1_1.jpg", "n2_1.jpg"]
    assert [photo.path.name for photo in dataset.test] == ["n1_2.jpg", "n2_2.jpg"]
    assert [photo.label for photo in dataset.test] == list(dataset.classes)
    assert all(photo.path.is_file() for photo in (*dataset.train, *dataset.test))


@pytest.mark.parametrize("images", ["Images", "images"])
def test_the_published_layout_is_read(tmp_path, images):
    assert_right(stanford_dogs(lay_out(tmp_path, images)))


def test_download_fetches_and_unpacks_both_archives_once(tmp_path, monkeypatch):
    source, asked = lay_out(tmp_path / "source"), []

    def fetch(url, target):
        asked.append(url)
        target.parent.mkdir(exist_ok=True)
        names = ("Images",) if "images" in url else ("train_list.mat", "test_list.mat")
        with tarfile.open(target, "w") as tar:
            for name in names:
                tar.add(source / name, name)

    monkeypatch.setattr(MODULE, "fetch", fetch)
    for _ in range(2):
        assert_right(stanford_dogs(tmp_path / "data", download=True))
    assert asked == [f"http://vision.stanford.edu/aditya86/ImageNetDogs/{name}.tar" for name in ("images", "lists")]


def test_missing_files_are_explained(tmp_path):
    with pytest.raises(DataError, match=r"(?s)Images/, train_list\.mat.*vision\.stanford\.edu.*download=True"):
        stanford_dogs(tmp_path)


def test_an_incomplete_data_set_is_refused(tmp_path):
    (lay_out(tmp_path) / "Images/n1-Chihuahua/n1_2.jpg").unlink()
    with pytest.raises(DataError, match=r"1 of 4 photos is missing.*n1_2\.jpg"):
        stanford_dogs(tmp_path)


def test_lists_of_different_numbering_are_refused(tmp_path):
    lay_out(tmp_path, test=[(file, 3 - number) for file, number in LISTS["test"]])
    with pytest.raises(DataError, match="one number a breed"):
        stanford_dogs(tmp_path)


def test_damaged_lists_are_refused(tmp_path):
    path = lay_out(tmp_path) / "train_list.mat"
    content = path.read_bytes()
    for bad in (b"", b"hello", content[:200], content[: len(content) // 2]):
        path.write_bytes(bad)
        with pytest.raises(DataError, match=r"train_list\.mat.*damaged"):
            stanford_dogs(tmp_path)
    savemat(path, {"file_list": np.zeros((2, 2)), "labels": np.zeros((1, 1))})
    with pytest.raises(DataError, match="equal length"):
        stanford_dogs(tmp_path)
    savemat(path, {"labels": np.zeros((1, 1))})
    with pytest.raises(DataError, match="file_list"):
        stanford_dogs(tmp_path)
