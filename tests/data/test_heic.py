"""HEIC photos, where the package that decodes them is installed."""

import io

import numpy as np
import pytest
from PIL import Image

from gddsg.data.decoding import decode, decoded_bytes
from gddsg.data.image_folder import read_photos, unlabelled_photos
from gddsg.errors import PhotoError

pillow_heif = pytest.importorskip("pillow_heif")


@pytest.fixture(autouse=True)
def writable():
    pillow_heif.register_heif_opener(thumbnails=False, decode_threads=1)


def picture(width=60, height=40):
    """Red on the left, blue on the right, and above, green."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = pixels[:, width // 2 :, 2] = pixels[: height // 2, :, 1] = 200
    return Image.fromarray(pixels)


def encoded(image, **options):
    buffer = io.BytesIO()
    image.save(buffer, "HEIF", quality=95, **options)
    return buffer.getvalue()


def test_pixels_are_those_that_were_saved():
    found = decode(encoded(picture()))
    assert (found.mode, found.size) == ("RGB", (60, 40))
    gap = np.abs(np.asarray(found, float) - np.asarray(picture(), float))
    assert np.median(gap) < 5


def test_it_is_turned_once():
    image, turned = picture(), Image.Exif()
    turned[0x0112] = 6
    image.info["exif"] = turned.tobytes()  # then the file says so as well, which is what counts in HEIC
    found = decode(encoded(image))
    assert found.size == (40, 60)
    red, _, blue = np.asarray(found, float)[:, :15].mean((0, 1))  # what was below, without green, is left now
    assert red > 50 < blue


def test_the_main_image_is_taken_and_no_thumbnail():
    buffer = io.BytesIO()
    others = [Image.new("RGB", (60, 40), colour) for colour in ("white", "black")]
    others[0].save(buffer, "HEIF", save_all=True, append_images=[picture(), others[1]], primary_index=1)
    found = np.asarray(decode(buffer.getvalue(), at_least=1), float)
    assert found.shape == (40, 60, 3)
    assert found[30, 5, 0] > 150 > found[30, 55, 0]


def test_transparent_parts_become_white():
    image = Image.new("RGBA", (32, 32), (200, 0, 0, 0))
    assert np.asarray(decode(encoded(image))).min() > 240


def test_memory_is_estimated_and_damage_told():
    content = encoded(picture(600, 400))
    assert decoded_bytes(content) > 600 * 400 * 4
    for damaged in (content[: len(content) // 2], content[:20], content[:200] + bytes(200) + content[400:]):
        with pytest.raises(PhotoError):
            decode(damaged)


def test_folders_list_them(tmp_path):
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "1.HEIC").write_bytes(encoded(picture()))
    assert [photo.label for photo in read_photos(tmp_path / "photos").photos] == ["cat"]
    assert len(unlabelled_photos(tmp_path / "photos").photos) == 1
