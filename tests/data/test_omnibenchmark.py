"""OmniBenchmark: two folders of classes, with a warning of classes that hold the same photos."""

import pytest

from gddsg.data.omnibenchmark import omnibenchmark
from gddsg.errors import DataError


@pytest.fixture
def make(tmp_path):
    def make(**contents):
        """Photos by class; those in capitals are for test."""
        for label, photos in contents.items():
            for place, content in enumerate(photos):
                part = "test" if content.isupper() else "train"
                path = tmp_path / part / label / f"{place}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content.lower())
        return tmp_path

    return make


def test_folders_of_classes_are_read_without_a_word(make):
    dataset = omnibenchmark(make(c0=["one", "two", "SIX"], c1=["ten", "far", "ANT"], c10=["dog", "cat", "COW"]))
    assert (dataset.name, dataset.classes) == ("omnibenchmark", ("c0", "c1", "c10"))
    assert (len(dataset.train), len(dataset.test)) == (6, 3)


def test_classes_with_the_same_photos_are_named(make):
    root = make(a=["one", "two", "SIX"], b=["two", "six", "ONE"], c=["ten", "far", "ANT"], d=["three", "four", "FIVE"])
    with pytest.warns(UserWarning, match=r"'a' and 'b'\. No method") as caught:
        dataset = omnibenchmark(root)
    assert len(dataset.classes) == 4
    assert caught[0].filename == __file__


def test_half_of_the_smaller_class_is_enough_and_less_is_not(make):
    with pytest.warns(UserWarning, match="'a' and 'b'"):
        omnibenchmark(make(a=["one", "two", "three", "WORDS"], b=["one", "TWELVE"]))


def test_a_single_photo_in_common_is_no_reason_to_warn(make):
    omnibenchmark(make(a=["one", "two", "three", "WORDS"], b=["one", "twelve", "eleven", "FIFTEEN"]))


def test_missing_files_are_explained_and_download_cannot_help(tmp_path):
    for download in (False, True):
        with pytest.raises(DataError, match=r"(?s)train/<class>/.*OmniBenchmark.*nothing to download"):
            omnibenchmark(tmp_path, download=download)
