"""CUB-200-2011: as published, packed or rearranged."""

import sys
import tarfile

import pytest

from gddsg.data.cub200 import cub200
from gddsg.errors import DataError

MODULE = sys.modules["gddsg.data.cub200"]  # the package has a function of this name
TABLES = {
    "images.txt": "1 001.Albatross/a_1.jpg\n2 001.Albatross/a_2.jpg\n3 002.Ani/b_1.jpg\n4 002.Ani/b_2.jpg\n",
    "image_class_labels.txt": "1 1\n2 1\n3 2\n4 2\n",
    "train_test_split.txt": "1 0\n2 1\n3 1\n4 0\n",
    "classes.txt": "1 001.Albatross\n2 002.Ani\n",
}


def lay_out(folder, **tables):
    for name, content in TABLES.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(tables.get(name.removesuffix(".txt"), content))
    for line in TABLES["images.txt"].splitlines():
        photo = folder / "images" / line.split()[1]
        photo.parent.mkdir(parents=True, exist_ok=True)
        photo.touch()
    return folder


def assert_right(dataset):
    assert (dataset.name, dataset.classes) == ("cub200", ("001.Albatross", "002.Ani"))
    parts = [[(photo.label, photo.path.name) for photo in part] for part in (dataset.train, dataset.test)]
    assert parts[0] == [("001.Albatross", "a_2.jpg"), ("002.Ani", "b_1.jpg")]
    assert parts[1] == [("001.Albatross", "a_1.jpg"), ("002.Ani", "b_2.jpg")]
    assert all(photo.path.is_file() for photo in (*dataset.train, *dataset.test))


def test_the_published_layout_is_read_from_either_folder(tmp_path):
    folder = lay_out(tmp_path / "CUB_200_2011")
    assert_right(cub200(tmp_path))
    assert_right(cub200(folder))


def test_class_folders_are_read(tmp_path):
    for name in ("train/001.Albatross/a_2", "train/002.Ani/b_1", "test/001.Albatross/a_1", "test/002.Ani/b_2"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / f"{name}.jpg").touch()
    (tmp_path / "attributes").mkdir()
    assert_right(cub200(tmp_path))


def pack(tmp_path):
    lay_out(tmp_path / "source/CUB_200_2011")
    archive = tmp_path / "CUB_200_2011.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "source/CUB_200_2011", "CUB_200_2011")
    return archive


def test_an_archive_put_there_by_hand_is_unpacked(tmp_path):
    archive = pack(tmp_path)
    root = tmp_path / "data"
    root.mkdir()
    archive.rename(root / archive.name)
    assert_right(cub200(root))
    assert (root / "CUB_200_2011/images.txt").is_file()


def test_download_fetches_and_unpacks_once(tmp_path, monkeypatch):
    archive, asked = pack(tmp_path), []

    def fetch(url, target, md5):
        asked.append((url, md5))
        target.parent.mkdir(parents=True)
        target.write_bytes(archive.read_bytes())

    monkeypatch.setattr(MODULE, "fetch", fetch)
    for _ in range(2):
        assert_right(cub200(tmp_path / "data", download=True))
    assert asked == [(MODULE.URL, "97eceeb196236b17998738112f37df78")]


def test_missing_files_are_explained(tmp_path):
    with pytest.raises(DataError, match=r"(?s)CUB_200_2011/images/.*train_test_split\.txt.*caltech.*download=True"):
        cub200(tmp_path / "nowhere")


def test_an_incomplete_data_set_is_refused(tmp_path):
    folder = lay_out(tmp_path / "CUB_200_2011")
    (folder / "images/002.Ani/b_2.jpg").unlink()
    with pytest.raises(DataError, match=r"1 of 4 photos is missing.*b_2\.jpg"):
        cub200(tmp_path)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"image_class_labels": "1 1\n2 1\n3 2\n"}, "do not fit together"),
        ({"classes": "1 001.Albatross\n"}, "do not fit together"),
        ({"train_test_split": "1 0\n2 1\n3 1\n4 7\n"}, "do not fit together"),
        ({"images": "1 a.jpg\n2\n"}, r"images\.txt, line 2"),
        ({"images": ""}, "0 of 0"),
    ],
)
def test_tables_that_do_not_fit_are_refused(tmp_path, tables, message):
    lay_out(tmp_path, **tables)
    with pytest.raises(DataError, match=message):
        cub200(tmp_path)
    (tmp_path / "images.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match="cannot be read"):
        cub200(tmp_path)
