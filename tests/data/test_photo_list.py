"""Lists of photos: every common form is read, every fault is named with its line."""

import pytest

from gddsg.data.photo_list import listed_photos, photo_list
from gddsg.errors import DataError


@pytest.fixture
def write(tmp_path):
    for name in ("1.jpg", "2.jpg", "3.jpg", "a,b.jpg"):
        (tmp_path / "photos").mkdir(exist_ok=True)
        (tmp_path / "photos" / name).touch()

    def write(content, encoding="utf-8"):
        path = tmp_path / "pets.csv"
        path.write_bytes(content.encode(encoding))
        return path

    return write


def labels(photos):
    return [(photo.path.name, photo.label) for photo in photos]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_marks_and_line_ends_do_not_matter(write, delimiter, encoding, end):
    lines = ["Path, label ", "photos/1.jpg, Löwe ", "", "photos/2.jpg,dog", ",", "photos/3.jpg,dog"]
    path = write(end.join(line.replace(",", delimiter) for line in lines) + end, encoding)
    listing = listed_photos(path)
    assert labels(listing.photos) == [("1.jpg", "Löwe"), ("2.jpg", "dog"), ("3.jpg", "dog")]
    assert listing.skipped == ()
    assert listing.photos[0].path.is_file()


def test_quotes_further_columns_and_any_order_are_taken(write):
    path = write('"label","note","path"\ncat,"x, y","photos/a,b.jpg"\n')
    assert labels(listed_photos(path).photos) == [("a,b.jpg", "cat")]


def test_lists_from_windows_and_absolute_paths_are_taken(write, tmp_path):
    path = write(f"path,label\nphotos\\1.jpg,cat\n{tmp_path / 'photos/2.jpg'},dog\n")
    assert labels(listed_photos(path).photos) == [("1.jpg", "cat"), ("2.jpg", "dog")]


def test_a_split_column_decides(write):
    path = write("path,label,split\nphotos/1.jpg,cat,train\nphotos/2.jpg,cat,Test\n")
    dataset = photo_list(path)
    assert (dataset.name, labels(dataset.train), labels(dataset.test)) == (
        "pets",
        [("1.jpg", "cat")],
        [("2.jpg", "cat")],
    )
    assert labels(listed_photos(path).photos) == [("1.jpg", "cat")]
    assert labels(listed_photos(path, "test").photos) == [("2.jpg", "cat")]


def test_test_photos_of_a_class_without_training_photos_are_left_out(write):
    dataset = photo_list(write("path,label,split\nphotos/1.jpg,a,train\nphotos/2.jpg,a,test\nphotos/3.jpg,b,test\n"))
    assert labels(dataset.test) == [("2.jpg", "a")]
    assert [skipped.reason for skipped in dataset.skipped] == ["its class has no training photo"]


def test_without_a_split_column_the_seed_decides(write):
    path = write("path,label\nphotos/1.jpg,cat\nphotos/2.jpg,cat\nphotos/3.jpg,cat\n")
    dataset = photo_list(path, test_share=0.5, seed=2)
    assert len(dataset.train) + len(dataset.test) == 3
    assert dataset.train
    assert dataset.test
    assert photo_list(path, test_share=0.5, seed=2) == dataset
    assert len(listed_photos(path, "test").photos) == 3


def test_missing_photos_are_left_out_and_repeated_ones_read_once(write, tmp_path):
    path = write("path,label\nphotos/1.jpg,cat\ngone.jpg,cat\nphotos/1.jpg,cat\n")
    listing = listed_photos(path)
    assert labels(listing.photos) == [("1.jpg", "cat")]
    assert [(s.name, s.reason) for s in listing.skipped] == [(str(tmp_path / "gone.jpg"), "no such file (line 3)")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "begins with ''"),
        ("file,class\n1.jpg,cat\n", "begins with 'file,class'; expected a header"),
        ('"path,label"\n', "expected a header"),
        ("path,label,label\n1.jpg,cat,dog\n", "line 1: the column label appears twice"),
        ("path,label\n", "no photo"),
        ("path,label\nphotos/1.jpg,cat\nphotos/a,b.jpg,cat\n", "line 3: 3 values, but the header has 2 columns"),
        ("path,label\nphotos/1.jpg\n", "line 2: 1 value, but the header has 2 columns"),
        ("path,label\nphotos/1.jpg, \n", "line 2: the label is empty"),
        ("path,label\n ,cat\n", "line 2: the path is empty"),
        ("path,label,split\nphotos/1.jpg,cat,val\n", "line 2: split is 'val'; expected train or test"),
        ("path,label,split\nphotos/1.jpg,cat,\n", "line 2: split is ''"),
        ("path,label,split\nphotos/1.jpg,cat,train\n", "one of the two has none"),
        ('path,label\nphotos/1.jpg,"cat\n', "line 2: not a line of a CSV file"),
        ("path,label\nphotos/1.jpg,cat\nphotos/1.jpg,dog\n", "line 3: '1.jpg' is 'dog', but line 2 says 'cat'"),
        ("path,label,split\nphotos/1.jpg,a,test\nphotos/1.jpg,a,train\n", "is 'a' train, but line 2 says 'a' test"),
        ("path,label\nphotos/1.jpg,cat\nphotos/2.jpg,Cat\n", "'Cat' and 'cat' differ only"),
        ("path,label\ngone.jpg,cat\nnull\0byte.jpg,cat\n", "it names 2 photos, and none exists"),
        (f"path,label\n{'x' * 5000}.jpg,cat\n{'../' * 2000}.jpg,cat\n", "it names 2 photos, and none exists"),
        ("x" * 200_000, "expected a header"),
    ],
)
def test_faults_are_named_with_their_line(write, content, message):
    with pytest.raises(DataError, match=message):
        photo_list(write(content))


def test_case_may_be_allowed_to_matter(write):
    path = write("path,label\nphotos/1.jpg,cat\nphotos/2.jpg,Cat\n")
    assert len(listed_photos(path, case_sensitive=True).photos) == 2


def test_other_encodings_and_missing_files_are_errors(write, tmp_path):
    with pytest.raises(DataError, match="line 2: not UTF-8"):
        listed_photos(write("path,label\nphotos/1.jpg,Löwe\n", "latin1"))
    with pytest.raises(DataError, match="cannot be read"):
        listed_photos(tmp_path / "gone.csv")
    with pytest.raises(DataError, match="split=test"):
        listed_photos(write("path,label,split\nphotos/1.jpg,cat,train\n"), "test")
