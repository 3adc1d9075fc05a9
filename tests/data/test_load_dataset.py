"""One function for all data sets."""

import numpy as np
import pytest

from gddsg.data import DATASETS, load_dataset
from gddsg.errors import DataError


def test_names_are_looked_up_with_their_folder(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setitem(DATASETS, "cub200", lambda root, download: asked.append((root.as_posix(), download)))
    load_dataset("cub200")
    load_dataset("cub200", root=tmp_path, download=True)
    assert asked == [("datasets/cub200", False), (tmp_path.as_posix(), True)]
    assert {"cifar100", "cub200", "stanford-dogs", "omnibenchmark"} <= DATASETS.keys()


@pytest.mark.parametrize("name", ["cifar100", "cub200", "stanford-dogs", "omnibenchmark"])
def test_named_data_sets_that_are_missing_are_explained(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=rf"(?s)'datasets/{name}'.*Expected there.*Official page: http"):
        load_dataset(name)


def test_folders_lists_and_feature_files_are_told_apart(tmp_path):
    for name in ("pets/cat/1.jpg", "pets/cat/2.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert load_dataset(tmp_path / "pets").classes == ("cat",)
    (tmp_path / "pets.CSV").write_text("path,label\npets/cat/1.jpg,lion\npets/cat/2.jpg,lion\n")
    assert load_dataset(str(tmp_path / "pets.CSV")).classes == ("lion",)
    features, labels = np.ones((1, 2), np.float32), np.array(["hen"])
    parts = {"train_features": features, "train_labels": labels, "test_features": features, "test_labels": labels}
    np.savez(tmp_path / "pets.npz", **parts)
    assert load_dataset(tmp_path / "pets.npz").classes == ("hen",)


def test_anything_else_is_refused_with_the_choices(tmp_path):
    with pytest.raises(DataError, match=r"'mnist' was given; expected a name among cifar100, .*\.csv.*\.npz"):
        load_dataset("mnist")
    with pytest.raises(DataError, match="with root or download, which are for a name among"):
        load_dataset(tmp_path, download=True)
    with pytest.raises(DataError, match="no feature file"):
        load_dataset(tmp_path / "gone.npz")


def test_a_path_is_never_taken_for_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cifar100/cat").mkdir(parents=True)
    for name in "12":
        (tmp_path / f"cifar100/cat/{name}.jpg").touch()
    for source in (tmp_path / "cifar100", "./cifar100"):
        assert load_dataset(source).classes == ("cat",)
