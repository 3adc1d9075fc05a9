"""Every kind of image file has a defined outcome: the right pixels, or an error that says what is wrong."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from gddsg.data.photo import MAX_PIXELS, Photo, content_key, decode
from gddsg.errors import PhotoError


def gradient(width=40, height=30):
    """Red grows to the right, green downwards, blue is constant."""
    rows, columns = np.mgrid[0:height, 0:width]
    blue = np.full_like(rows, 90)
    return np.stack([columns * 255 // (width - 1), rows * 255 // (height - 1), blue], axis=2).astype(np.uint8)


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def pixels(content, at_least=0):
    image = decode(content, at_least)
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "TGA"])
def test_lossless_formats_give_the_pixels_back(kind):
    np.testing.assert_array_equal(pixels(encoded(Image.fromarray(gradient()), kind)), gradient())


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_lossy_formats_come_close(kind):
    assert np.abs(pixels(encoded(Image.fromarray(gradient()), kind, quality=95)) - gradient()).mean() < 4


def test_a_photo_is_turned_upright():
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    lying = Image.fromarray(np.rot90(gradient(), 1).copy())
    turned = pixels(encoded(lying, "JPEG", quality=95, exif=exif))
    assert turned.shape == (30, 40, 3)
    assert np.abs(turned - gradient()).mean() < 4


def test_sixteen_bits_are_scaled_and_not_clipped():
    deep = (np.arange(40 * 30, dtype=np.uint16).reshape(30, 40) * 50).astype(np.uint16)
    found = pixels(encoded(Image.fromarray(deep)))
    np.testing.assert_array_equal(found[:, :, 0], deep >> 8)
    assert len(np.unique(found)) > 200


def test_sixteen_bits_that_use_eight_stay_as_they_are():
    flat = np.full((5, 5), 200, dtype=np.uint16)
    assert set(pixels(encoded(Image.fromarray(flat))).ravel()) == {200}


@pytest.mark.parametrize("mode", ["L", "1", "P", "CMYK", "YCbCr", "LAB"])
def test_other_colour_spaces_become_rgb(mode):
    image = Image.fromarray(gradient()).convert(mode) if mode != "LAB" else Image.new("LAB", (40, 30), (50, 0, 0))
    kind = {"CMYK": "JPEG", "YCbCr": "JPEG", "LAB": "TIFF"}.get(mode, "PNG")
    assert pixels(encoded(image, kind)).shape == (30, 40, 3)


def test_cmyk_keeps_its_colours():
    found = pixels(encoded(Image.new("CMYK", (20, 20), (0, 255, 255, 0)), "JPEG", quality=95))  # red
    assert found[10, 10, 0] > 200
    assert found[10, 10, 1:].max() < 60


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_parts_are_white(mode):
    clear = Image.new(mode, (8, 8), (10, 20, 30, 0) if mode == "RGBA" else (10, 0))
    assert set(pixels(encoded(clear)).ravel()) == {255}


def test_a_transparent_palette_colour_is_white():
    image = Image.new("P", (8, 8), 0)
    image.putpalette([10, 20, 30, 200, 0, 0])
    image.putpixel((3, 4), 1)
    found = pixels(encoded(image, transparency=0))
    assert tuple(found[0, 0]) == (255, 255, 255)
    assert tuple(found[4, 3]) == (200, 0, 0)


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_of_an_animation_the_first_frame_counts(kind):
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    found = pixels(encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=10))
    assert found[8, 8, 0] > 200
    assert found[8, 8, 2] < 60


def test_a_large_jpeg_is_decoded_small_but_not_too_small():
    large = encoded(Image.new("RGB", (1600, 1200), "green"), "JPEG")
    assert decode(large, 300).size == (400, 300)
    assert decode(large, 0).size == (1600, 1200)


def bomb(width, height):
    """A PNG of a few bytes that claims to be huge."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"hello, this is text", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image"),
        (encoded(Image.fromarray(gradient()))[:60], "damaged"),
        (encoded(Image.fromarray(gradient()), "JPEG")[:400], "damaged"),
        (bomb(60_000, 60_000), "pixels"),
        (bomb(1, MAX_PIXELS + 1), "pixels"),
        (encoded(Image.fromarray(np.ones((4, 4), dtype=np.float32)), "TIFF"), "floating-point"),
    ],
)
def test_what_is_no_photo_is_refused_with_the_reason(content, message):
    with pytest.raises(PhotoError, match=message):
        decode(content)


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


def test_content_key_is_of_the_content_alone():
    assert content_key(b"a") == content_key(b"a") != content_key(b"b")
    assert len(content_key(b"")) == 32
