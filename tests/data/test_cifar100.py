"""CIFAR-100: both versions give the same photos, packed or not, and a pickle can hold nothing but data."""

import hashlib
import io
import os
import pickle
import struct
import sys
import tarfile

import numpy as np
import pytest

from gddsg.data.cifar100 import cifar100
from gddsg.data.photo import content_key
from gddsg.errors import DataError

MODULE = sys.modules["gddsg.data.cifar100"]  # the package has a function of this name
NAMES = ["apple", "aquarium_fish", "baby"]
RANDOM = np.random.default_rng(0)
ROWS = {part: RANDOM.integers(0, 256, (n, 3072), dtype=np.uint8) for part, n in (("train", 5), ("test", 2))}
LABELS = {"train": [0, 2, 1, 0, 1], "test": [1, 0]}


# The published files were written by Python 2, which Python 3 cannot imitate; hence this small writer of its pickles.


def old_pickle(value):
    return b"\x80\x02" + old(value) + b"."


def old(value):
    return OLD[type(value)](value)


def old_array(array):
    dtype = b"cnumpy\ndtype\n" + old(("u1", 0, 1)) + b"R" + old((3, "|", None, None, None, -1, -1, 0)) + b"b"
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + old((0,)) + old("b") + b"tR"
    return empty + b"(" + old(1) + old(array.shape) + dtype + old(False) + old(array.tobytes()) + b"tb"


OLD = {
    str: lambda value: b"U" + struct.pack("<B", len(value)) + value.encode("latin1"),
    bytes: lambda value: b"T" + struct.pack("<i", len(value)) + value,
    bool: lambda value: b"\x88" if value else b"\x89",
    type(None): lambda _: b"N",
    int: lambda value: b"J" + struct.pack("<i", value),
    list: lambda value: b"](" + b"".join(map(old, value)) + b"e",
    tuple: lambda value: b"(" + b"".join(map(old, value)) + b"t",
    dict: lambda value: b"}(" + b"".join(old(key) + old(item) for key, item in value.items()) + b"u",
    np.ndarray: old_array,
}


def batch(part):
    files = [f"{part}_{number}.png" for number in range(len(LABELS[part]))]
    return {"filenames": files, "fine_labels": LABELS[part], "coarse_labels": [0] * len(files), "data": ROWS[part]}


def python_version(dump=old_pickle):
    return {"meta": dump({"fine_label_names": NAMES, "coarse_label_names": ["x"]}), **{p: dump(batch(p)) for p in ROWS}}


def binary_version():
    def records(part):
        labels = np.array([[9, label] for label in LABELS[part]], np.uint8)
        return np.hstack([labels, ROWS[part]]).tobytes()

    names = "\n".join(NAMES).encode() + b"\n\n"
    return {"train.bin": records("train"), "test.bin": records("test"), "fine_label_names.txt": names}


VERSIONS = {"python": python_version, "binary": binary_version}


def lay_out(files, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def packed(files, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in {"file.txt~": b"", **files}.items():
            member = tarfile.TarInfo(f"cifar-100-any/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def assert_right(dataset):
    assert (dataset.name, dataset.classes, dataset.skipped) == ("cifar100", tuple(NAMES), ())
    for part, photos in (("train", dataset.train), ("test", dataset.test)):
        assert [photo.label for photo in photos] == [NAMES[label] for label in LABELS[part]]
        assert [photo.name for photo in photos] == [f"cifar100/{part}/{n}" for n in range(len(photos))]
        for photo, row in zip(photos, ROWS[part], strict=True):
            assert photo.pixels.shape == (32, 32, 3)
            assert np.array_equal(photo.pixels[..., 1].ravel(), row[1024:2048])
            assert photo.pixels[2, 5].tolist() == [row[69], row[1024 + 69], row[2048 + 69]]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("inside", [True, False])
def test_unpacked_versions_are_read(tmp_path, version, inside):
    lay_out(VERSIONS[version](), tmp_path / f"cifar-100-{version}" if inside else tmp_path)
    assert_right(cifar100(tmp_path))


@pytest.mark.parametrize("version", VERSIONS)
def test_archives_are_read_in_place(tmp_path, version):
    archive = packed(VERSIONS[version](), tmp_path / f"cifar-100-{version}.tar.gz")
    assert_right(cifar100(tmp_path))
    assert_right(cifar100(archive))
    assert list(tmp_path.iterdir()) == [archive]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_files_pickled_again_by_python_3_are_read(tmp_path, protocol):
    lay_out(python_version(lambda value: pickle.dumps(value, protocol)), tmp_path)
    assert_right(cifar100(tmp_path))


def test_both_versions_give_photos_of_equal_content(tmp_path):
    keys = []
    for version, files in VERSIONS.items():
        lay_out(files(), tmp_path / version)
        keys.append([content_key(photo.read()) for photo in cifar100(tmp_path / version).train])
    assert keys[0] == keys[1]


def test_missing_files_are_explained(tmp_path):
    lay_out({"train": b"", "test": b""}, tmp_path)
    with pytest.raises(DataError, match=r"(?s)cifar-100-python/train, test, meta.*cifar\.html.*download=True"):
        cifar100(tmp_path)


def test_download_fetches_the_archive_and_reads_it(tmp_path, monkeypatch):
    source = packed(python_version(), tmp_path / "server/cifar.tar.gz")
    asked = []

    def fetch(url, target, md5):
        asked.append((url, md5))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
        return target

    monkeypatch.setattr(MODULE, "fetch", fetch)
    for _ in range(2):
        assert_right(cifar100(tmp_path / "cifar100", download=True))
    assert asked == [(MODULE.URL, "eb9058c3a382ffc7106e4002c42a8d85")]


class Evil:
    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    "evil",
    [
        Evil(os.system, "touch ran"),
        Evil(eval, "open('ran', 'w')"),
        Evil(getattr, 1, "real"),
        Evil(np.load, "x"),
        Evil(hashlib.md5),
        np.array([1, 2], dtype=object),
        np.array([1.5]),
        np.int64(3),
    ],
    ids=["system", "eval", "getattr", "load", "md5", "objects", "floats", "integer"],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_pickles_that_ask_for_more_than_data_are_refused(tmp_path, monkeypatch, evil, protocol):
    monkeypatch.chdir(tmp_path)
    lay_out({**python_version(), "train": pickle.dumps({**batch("train"), "extra": evil}, protocol)}, tmp_path)
    with pytest.raises(DataError, match="train is damaged or not a file of this data set"):
        cifar100(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("train", b""),
        ("train", b"hello"),
        ("train", python_version()["train"][:-100]),
        ("train", old_pickle([1, 2])),
        ("train", old_pickle({})),
        ("train", old_pickle({**batch("train"), "fine_labels": 3})),
        ("train", old_pickle({**batch("train"), "fine_labels": [0, 1]})),
        ("train", old_pickle({**batch("train"), "fine_labels": [0, 1, 2, 3, 0]})),
        ("train", old_pickle({**batch("train"), "fine_labels": ["0"] * 5})),
        ("train", old_pickle({**batch("train"), "data": [1, 2]})),
        ("train", old_pickle({**batch("train"), "data": ROWS["train"][:, :9]})),
        ("train", old_pickle({**batch("train"), "data": ROWS["train"][0]})),
        ("train", old_pickle({**batch("train"), "data": ROWS["train"][:0], "fine_labels": []})),
        ("meta", old_pickle({"fine_label_names": None})),
    ],
)
def test_damaged_pickles_are_refused(tmp_path, part, content):
    lay_out({**python_version(), part: content}, tmp_path)
    with pytest.raises(DataError, match=f"{part} is damaged"):
        cifar100(tmp_path)


def test_an_array_whose_shape_lies_is_refused(tmp_path):
    content = python_version()["train"].replace(old((5, 3072)), old((50_000_000, 3072)))
    assert content != python_version()["train"]
    lay_out({**python_version(), "train": content}, tmp_path)
    with pytest.raises(DataError, match="train is damaged"):
        cifar100(tmp_path)


def test_damaged_binary_files_and_archives_are_refused(tmp_path):
    files = binary_version()
    lay_out({**files, "test.bin": files["test.bin"][:-1]}, tmp_path / "short")
    with pytest.raises(DataError, match="not a multiple of 3074"):
        cifar100(tmp_path / "short")
    lay_out({**files, "fine_label_names.txt": b"apple"}, tmp_path / "names")
    with pytest.raises(DataError, match="from 0 to 0"):
        cifar100(tmp_path / "names")
    archive = packed(files, tmp_path / "cifar-100-binary.tar.gz")
    archive.write_bytes(archive.read_bytes()[:5000])
    with pytest.raises(DataError, match="is damaged"):
        cifar100(tmp_path)
    packed({"other": b""}, archive)
    with pytest.raises(DataError, match="not a CIFAR-100 archive"):
        cifar100(archive)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x80\x02}r\xff\xff\xff\xff", "EOFError"),  # a place far beyond all others to remember a value at
        (b"\x80\x05\x96" + bytes(7) + b"\x20", "announced, and 0 are there"),  # bytes by the exabyte
    ],
)
def test_a_pickle_that_claims_memory_gets_none(tmp_path, content, reason):
    lay_out({**python_version(), "train": content}, tmp_path)
    with pytest.raises(DataError, match=f"train is damaged.*{reason}"):
        cifar100(tmp_path)


def test_an_archive_is_unpacked_up_to_a_limit(tmp_path, monkeypatch):
    archive = packed({**python_version(), "train": bytes(3_000_000)}, tmp_path / "cifar-100-python.tar.gz")
    assert archive.stat().st_size < 100_000
    monkeypatch.setattr(MODULE, "_MAX_BYTES", 2_000_000)
    with pytest.raises(DataError, match="more than 2,000,000 bytes"):
        cifar100(tmp_path)
