"""A photo is read from its file, within limits, or comes from pixels in memory."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gddsg.data import photo as module
from gddsg.data.photo import MAX_FILE_BYTES, Photo, content_key, identify_sample, start_of_key
from gddsg.errors import PhotoError


def gradient(width=40, height=30):
    rows, columns = np.mgrid[0:height, 0:width]
    return np.stack([columns, rows, rows], axis=2).astype(np.uint8)


def encoded(image):
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def test_a_photo_of_a_file(tmp_path):
    path = tmp_path / "ünïcode and blanks.png"
    path.write_bytes(encoded(Image.fromarray(gradient())))
    photo = Photo.of_file(path, "cat")
    assert photo.name == str(path)
    np.testing.assert_array_equal(np.asarray(photo.image(photo.read(), 0)), gradient())
    path.write_bytes(b"nonsense")
    with pytest.raises(PhotoError, match=r"ünïcode and blanks\.png: not an image"):
        photo.image(photo.read(), 0)
    path.unlink()
    with pytest.raises(PhotoError, match=r"ünïcode and blanks\.png: cannot be read"):
        photo.read()


def test_a_photo_of_pixels():
    photo = Photo.of_pixels(gradient(), "cat", "glyph/1")
    np.testing.assert_array_equal(np.asarray(photo.image(photo.read(), 0)), gradient())
    tall = Photo.of_pixels(gradient().reshape(40, 30, 3), "cat", "glyph/2")
    assert photo.read() == Photo.of_pixels(gradient(), "dog", "other").read()
    assert photo.read() != tall.read()  # the same numbers in another shape are another photo


def test_the_shorter_side_is_in_the_header(tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(encoded(Image.fromarray(gradient()))[:60])  # the pixels are cut off
    assert Photo.of_file(path).shorter_side() == 30
    assert Photo.of_pixels(gradient(30, 50), "cat", "glyph/1").shorter_side() == 30
    path.write_bytes(b"nonsense")
    with pytest.raises(PhotoError, match=r"photo\.png: not an image"):
        Photo.of_file(path).shorter_side()
    path.unlink()
    with pytest.raises(PhotoError, match=r"photo\.png: cannot be read"):
        Photo.of_file(path).shorter_side()


def test_content_key_is_of_the_content_alone():
    assert content_key(b"a") == content_key(b"a") != content_key(b"b")
    assert len(content_key(b"")) == 32


def test_a_file_above_the_limit_is_not_read(tmp_path):
    path = tmp_path / "sparse.png"
    with path.open("wb") as file:
        file.truncate(30_000_000_000)  # takes no room on the disk, and more memory than most machines have
    for ask in (Photo.of_file(path).read, Photo.of_file(path).size, Photo.of_file(path).shorter_side):
        with pytest.raises(PhotoError, match=f"30,000,000,000 bytes, and at most {MAX_FILE_BYTES:,} .* smaller copy"):
            ask()


def test_the_limit_itself_is_read(tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(b"12345")
    photo = Photo.of_file(path)
    assert photo.size() == 5
    assert photo.read(at_most=5) == b"12345"
    with pytest.raises(PhotoError, match="5 bytes, and at most 4"):
        photo.read(at_most=4)


@pytest.mark.parametrize("first", [0, 1, 255])
def test_a_sample_id_says_what_the_key_begins_with(first):
    key = bytes([first]) + bytes(range(31))
    assert start_of_key(identify_sample(key)) == key[:8]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipes_and_devices_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    for path in (tmp_path / "pipe.png", Path("/dev/zero")):
        for ask in (Photo.of_file(path).read, Photo.of_file(path).size, Photo.of_file(path).shorter_side):
            with pytest.raises(PhotoError, match="not a plain file"):
                ask()
    with pytest.raises(PhotoError, match="directory"):
        Photo.of_file(tmp_path).read()


def test_no_memory_left_is_a_fault_of_the_photo(tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(module, "read_plain", fail)
    with pytest.raises(PhotoError, match="not enough memory"):
        Photo.of_file(tmp_path / "photo.png").read()
