"""Small parts: names, uploads, bodies of features, advice."""

import io

import numpy as np
import pytest
from PIL import Image
from tests.serve.samples import photo_bytes, photos

from gddsg.data.photo import Photo, content_key
from gddsg.errors import DataError, InputError, PhotoError
from gddsg.serve.advice import find_unlike
from gddsg.serve.feature_bodies import features_of_json, features_of_npy
from gddsg.serve.names import checked_name
from gddsg.serve.uploads import digest_request, digest_uploads, thumbnail, uploaded


def test_names_are_brought_to_one_spelling():
    assert checked_name(" wölf ") == "wölf"
    assert checked_name("wo\u0308lf") == "w\u00f6lf"


@pytest.mark.parametrize("name", ["", "  ", "a/b", "..", "a\0b", "a\nb", "\ud800", "Unknown", "x" * 201, "a\u202eb"])
def test_names_that_no_class_gets(name):
    with pytest.raises(DataError, match="Choose a name"):
        checked_name(name)


def test_an_uploaded_photo_is_the_photo_in_the_file(tmp_path):
    content = photo_bytes("red", 1)
    (tmp_path / "a.png").write_bytes(content)
    here, there = uploaded("a.png", content), Photo.of_file(tmp_path / "a.png")
    assert content_key(here.read()) == content_key(there.read())
    assert (here.size(), here.shorter_side()) == (there.size(), there.shorter_side())
    with pytest.raises(PhotoError):
        here.read(at_most=10)
    with pytest.raises(PhotoError, match=r"^b\.png: "):
        uploaded("b.png", b"words").shorter_side()


def test_digests_tell_requests_apart_whatever_their_parts_are_called():
    a, b = photos("red", 2)
    assert digest_uploads("x", [a, b]) == digest_uploads("x", [b, uploaded("other", a.content)])
    assert digest_uploads("x", [a, b]) != digest_uploads("y", [a, b])
    assert digest_uploads("x", [a, b]) != digest_uploads("x", [a])
    assert digest_request("a", "bc") != digest_request("ab", "c")


def test_thumbnails_say_nothing_about_where_a_photo_was_taken():
    image, exif = Image.new("RGB", (400, 300), "red"), Image.Exif()
    exif[0x010F] = "a camera"
    out = io.BytesIO()
    image.save(out, "JPEG", exif=exif)
    small = thumbnail(uploaded("a.jpg", out.getvalue()))
    assert b"a camera" in out.getvalue()
    assert b"a camera" not in small
    assert Image.open(io.BytesIO(small)).size == (160, 160)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float64", ">f4", "int16"])
def test_features_as_a_file_of_numpy(order, dtype):
    rows = np.asarray(np.arange(12).reshape(3, 4), dtype=dtype, order=order)
    out = io.BytesIO()
    np.save(out, rows)
    found = features_of_npy(out.getvalue())
    assert found.dtype == np.float32
    assert np.array_equal(found, np.arange(12).reshape(3, 4))
    for cut in range(0, len(out.getvalue()) - 1, 7):
        with pytest.raises(InputError):
            features_of_npy(out.getvalue()[:cut])


def test_objects_in_a_file_of_numpy_are_refused():
    out = io.BytesIO()
    np.save(out, np.array([[print]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError):
        features_of_npy(out.getvalue())


def test_features_as_json():
    assert features_of_json(b'{"features": [[1, 2.5]]}').tolist() == [[1.0, 2.5]]
    for body in (
        b"[]",
        b'{"features": [1]}',
        b'{"features": [[true]]}',
        b'{"features": [["a"]]}',
        b'{"x": 1}',
        b"\xff",
    ):
        with pytest.raises(InputError):
            features_of_json(body)


def test_one_photo_that_stands_out_of_a_new_class_is_found():
    rng = np.random.default_rng(0)
    rows = (rng.random((9, 30)) + 3).astype(np.float32)
    rows[4] = 5 * rng.random(30)
    names = [str(i) for i in range(9)]
    assert [(one.name, one.probability) for one in find_unlike(None, "new", names, rows)] == [("4", None)]
    assert find_unlike(None, "new", names[:4], rows[:4]) == []
    assert find_unlike(None, "new", [], rows[:0]) == []
