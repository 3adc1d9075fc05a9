"""Feature files come back as they were written; what does not fit together, or is foreign, is refused."""

import contextlib
import io
import os
import pickle
import sys
import zipfile

import numpy as np
import pytest

from gddsg.data.dataset import FeatureDataset
from gddsg.data.feature_file import feature_file, write_feature_file
from gddsg.errors import DataError


def arrays(**changes):
    random = np.random.default_rng(0)
    whole = {
        "train_features": random.random((6, 4), dtype=np.float32),
        "train_labels": np.array([0, 1, 2, 0, 1, 2]),
        "test_features": random.random((3, 4), dtype=np.float32),
        "test_labels": np.array([2, 1, 0]),
        "classes": np.array(["ant", "bee", "cat"]),
        **changes,
    }
    return {name: array for name, array in whole.items() if array is not None}


@pytest.fixture
def save(tmp_path):
    def save(**changes):
        path = tmp_path / "pets.npz"
        np.savez(path, **arrays(**changes))
        return path

    return save


def same(one, other):
    names = ("train_features", "train_labels", "test_features", "test_labels")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_features_and_labels_are_read(save):
    dataset = feature_file(save())
    assert (dataset.name, dataset.classes) == ("pets", ("ant", "bee", "cat"))
    assert dataset.train_features.dtype == dataset.test_features.dtype == np.float32
    assert np.array_equal(dataset.train_features, arrays()["train_features"])
    assert dataset.test_labels.tolist() == [2, 1, 0]


@pytest.mark.parametrize("kind", [np.float16, np.float64, np.int32, np.uint8])
def test_other_numbers_become_float32(save, kind):
    numbers = np.arange(24).reshape(6, 4).astype(kind)
    dataset = feature_file(save(train_features=numbers))
    assert dataset.train_features.dtype == np.float32
    assert np.array_equal(dataset.train_features, numbers)


@pytest.mark.parametrize("scale", [np.float32(3), np.array([3.0]), np.array([1, 2, 3, 4], np.float32)])
def test_bytes_are_decoded(save, scale):
    codes = np.random.default_rng(1).integers(0, 256, (6, 4), dtype=np.uint8)
    path = save(train_features=None, test_features=None, train_codes=codes, test_codes=codes[:3], scale=scale)
    dataset = feature_file(path)
    expected = (codes / 255.0) ** 2 * scale
    np.testing.assert_allclose(dataset.train_features, expected, rtol=1e-6)
    assert dataset.test_features.dtype == np.float32


def test_names_may_be_labels_and_classes_may_be_missing(save):
    named = {"train_labels": np.array(list("abcabc")), "test_labels": np.array(list("cba"))}
    assert feature_file(save(**named, classes=None)).classes == ("a", "b", "c")
    assert feature_file(save(**named, classes=np.array(list("cbax")))).classes == ("c", "b", "a", "x")
    assert feature_file(save(classes=None)).classes == ("0", "1", "2")
    assert feature_file(save(classes=np.array([b"ant", b"bee", b"cat"]))).classes == ("ant", "bee", "cat")
    assert feature_file(save(train_labels=np.array([0, 1, 2, 0, 1, 2], np.uint8))).train_labels.dtype == np.int64


@pytest.mark.parametrize("classes", ["numbers", "names"])
def test_what_is_written_is_read_again(save, tmp_path, classes):
    dataset = feature_file(save())
    if classes == "names":
        names = np.array(dataset.classes)
        parts = (dataset.train_features, names[dataset.train_labels], dataset.test_features, names[dataset.test_labels])
        dataset = FeatureDataset("pets", *parts, dataset.classes)
    target = tmp_path / "again.npz"
    target.write_bytes(b"old")
    write_feature_file(dataset, target)
    assert same(feature_file(target), dataset)
    assert feature_file(target).classes == dataset.classes
    assert {path.name for path in tmp_path.iterdir()} == {"pets.npz", "again.npz"}


def test_equal_data_sets_give_equal_bytes(save, tmp_path):
    dataset = feature_file(save())
    for name in ("1.npz", "2.npz"):
        write_feature_file(dataset, tmp_path / name)
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()


def test_a_failed_write_leaves_the_old_file_alone(save, tmp_path, monkeypatch):
    dataset = feature_file(save())
    target = tmp_path / "old.npz"
    target.write_bytes(b"old")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(DataError, match="No space left"):
        write_feature_file(dataset, target)
    assert target.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2


def test_bad_places_and_bad_data_are_not_written(save, tmp_path):
    dataset = feature_file(save())
    with pytest.raises(DataError, match=r"add \.npz"):
        write_feature_file(dataset, tmp_path / "features.dat")
    with pytest.raises(DataError, match="existing folder"):
        write_feature_file(dataset, tmp_path / "nowhere/features.npz")
    dataset.train_features[1, 1] = np.nan
    with pytest.raises(DataError, match="row 1"):
        write_feature_file(dataset, tmp_path / "new.npz")
    assert not (tmp_path / "new.npz").exists()


NAN, HUGE = np.ones((6, 4)), np.full((6, 4), 1e300)
NAN[2, 3] = np.nan
CODES = {"train_features": None, "test_features": None}
BYTES = np.zeros((6, 4), np.uint8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_features": None}, "neither train_features nor train_codes"),
        ({"test_labels": None}, "no test_labels"),
        ({"train_features": np.zeros((6, 5))}, "5 columns, test features 4"),
        ({"train_features": np.zeros(6)}, r"shape \(6,\)"),
        ({"train_features": np.zeros((0, 4)), "train_labels": np.zeros(0, int)}, "at least one row"),
        ({"train_features": NAN}, "row 2"),
        ({"train_features": HUGE}, "too large for float32 in row 0"),
        ({"train_features": np.full((6, 4), "1")}, "not numbers"),
        ({"train_features": np.zeros((6, 4), complex)}, "not numbers"),
        ({"train_labels": np.zeros(5, int)}, "6 rows"),
        ({"train_labels": np.zeros((6, 1), int)}, r"shape \(6, 1\)"),
        ({"train_labels": np.zeros(6)}, "train_labels are of type float64|labels of one part"),
        ({"train_labels": np.zeros(6), "test_labels": np.zeros(3)}, "neither whole numbers nor names"),
        ({"train_labels": np.array([0, 1, 2, 3, 0, 0])}, "from 0 to 3; for 3 classes"),
        ({"test_labels": np.array([0, -1, 0])}, "from -1 to 0"),
        ({"test_labels": np.array([0, 10**9, 0]), "classes": None}, "largest label is 1000000000"),
        ({"train_labels": np.full(6, "ant")}, "one part are numbers"),
        ({"train_labels": np.full(6, "ant"), "test_labels": np.full(3, "dog")}, "'dog', which is not among"),
        ({"classes": np.array(["ant", "ant", "cat"])}, "same name"),
        ({"classes": np.arange(3)}, "not names"),
        ({"classes": np.array([b"\xff", b"b", b"c"])}, "not UTF-8"),
        ({**CODES, "train_codes": BYTES, "test_codes": BYTES[:3]}, "with a scale"),
        ({**CODES, "train_codes": BYTES.astype(int), "test_codes": BYTES[:3], "scale": np.float32(1)}, "not uint8"),
        ({**CODES, "train_codes": BYTES, "test_codes": BYTES[:3], "scale": np.ones(3)}, "one a column"),
        ({**CODES, "train_codes": BYTES + 1, "test_codes": BYTES[:3], "scale": np.float32(np.inf)}, "infinity"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(save, changes, message):
    with pytest.raises(DataError, match=message) as error:
        feature_file(save(**changes))
    assert "pets.npz" in str(error.value)
    assert "Expected an .npz file" in str(error.value)


def test_truncated_and_damaged_files_are_refused(save, tmp_path):
    content = save().read_bytes()
    whole = feature_file(tmp_path / "pets.npz")
    path = tmp_path / "bad.npz"
    for end in range(0, len(content) - 1, 7):
        path.write_bytes(content[:end])
        with pytest.raises(DataError):
            feature_file(path)
    for place in range(0, len(content), 11):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        with contextlib.suppress(DataError):  # some bytes do not matter: times, paddings, the entry of the classes
            assert same(feature_file(path), whole)


def test_foreign_files_are_refused_and_pickles_never_run(tmp_path):
    path = tmp_path / "foreign.npz"
    single = io.BytesIO()
    np.save(single, np.zeros(3))
    for content in (b"", b"hello", pickle.dumps({"a": 1}), single.getvalue()):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"not an \.npz file"):
            feature_file(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(DataError, match=r"notes\.txt is not an array"):
        feature_file(path)
    np.savez(path, **arrays(train_labels=np.array([{}] * 6, dtype=object)))
    with pytest.raises(DataError, match="cannot be read"):
        feature_file(path)
    with pytest.raises(DataError, match="no feature file"):
        feature_file(tmp_path / "gone.npz")
    with pytest.raises(DataError, match="cannot be read"):
        feature_file(tmp_path)


def test_packed_files_agree_with_the_formula_by_hand(tmp_path):
    codes = np.array([[0, 255], [51, 102]], np.uint8)
    labels = np.array([0, 1])
    path = tmp_path / "tiny.npz"
    np.savez(path, train_codes=codes, test_codes=codes, train_labels=labels, test_labels=labels, scale=np.array([2, 5]))
    assert feature_file(path).train_features == pytest.approx(np.array([[0, 5], [0.08, 0.8]], np.float32))


def with_header(path, name, old, new):
    """The same file, one array of which begins otherwise, its checksum right again."""
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    members[name] = members[name].replace(old, new.ljust(len(old)), 1)
    with zipfile.ZipFile(path, "w") as archive:
        for one, content in members.items():
            archive.writestr(one, content)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"(6, 4), }            ", b"(9999999999, 9), }", "not what its shape"),
        (b"(6, 4), }            ", b"(99999999999, 9**9)}", "cannot be read"),
        (b"(6, 4), }   ", b"(-6, -4), }", "not what its shape"),
        (b"(6, 4), }", b"(5, 4), }", "not what its shape"),  # one row would be left over
        (b"(6, 4), }", b"(6, 4)", "cannot be read"),
        (b"'<f4'", b"'<U0'", "neither numbers nor text"),
        (b"'<f4'", b"'|O8'", "neither numbers nor text"),
        (b"NUMPY\x01", b"NUMPY\x03", "cannot be read"),
        (b"NUMPY\x01\x00", b"NUMPY\x09\x00", "cannot be read"),
    ],
)
def test_a_forged_header_is_refused(save, old, new, message):
    path = save()
    with_header(path, "train_features.npy", old, new)
    with pytest.raises(DataError, match=message):
        feature_file(path)


def test_what_is_compressed_too_well_is_refused_before_it_is_unpacked(save, monkeypatch):
    path = save()
    monkeypatch.setattr(sys.modules["gddsg.data.feature_file"], "_SMALL_BYTES", 1000)
    feature_file(path)
    np.savez_compressed(path, **arrays(train_features=np.zeros((100_000, 4))))
    with pytest.raises(DataError, match="unpacked it would take 3,20"):
        feature_file(path)


def test_names_that_are_no_text_are_refused(save):
    path = save()
    for wrong in (b"\xff\xff\xff\x7f", b"\x00\xd8\x00\x00"):  # beyond all characters, and half of one
        save()
        with_header(path, "classes.npy", b"a\0\0\0", wrong)
        with pytest.raises(DataError, match="characters that are none"):
            feature_file(path)


def test_two_arrays_of_one_name_are_refused(save):
    path = save()
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("classes.npy", archive.read("classes.npy"))
    with pytest.raises(DataError, match="same name"):
        feature_file(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(DataError, match="not a plain file"):
        feature_file(tmp_path / "pipe.npz")


def test_arrays_stored_by_column_are_read(save):
    features = np.asfortranarray(arrays()["train_features"])
    np.testing.assert_array_equal(feature_file(save(train_features=features)).train_features, features)
