"""Paths, images of Pillow and arrays of pixels, in any mixture."""

import numpy as np
import pytest
from PIL import Image
from tiny_backbone import Means

from gddsg.backbones.feature_cache import FeatureCache
from gddsg.data.dataset import PhotoListing, Skipped
from gddsg.data.photo import Photo
from gddsg.errors import DataError, InputError
from gddsg.photos import PhotoClassifier, PhotoPrediction, PhotoPredictions
from gddsg.photos import model_backbone as module
from gddsg.photos.inputs import list_images

COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40)}


def pixels(colour, seed):
    noise = np.random.default_rng(seed).integers(-30, 31, (24, 30, 3))
    return (np.array(COLOURS[colour]) + noise).clip(0, 255).astype(np.uint8)


@pytest.fixture
def classifier(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "load_backbone", lambda name, device=None: Means())
    with FeatureCache(tmp_path / "cache") as cache:
        classifier = PhotoClassifier(tmp_path / "m.gddsg", cache=cache, settings={"projection_dim": 64})
        photos = [Photo.of_pixels(pixels(colour, i), colour, f"{colour} {i}") for colour in COLOURS for i in range(6)]
        classifier.learn_photos(PhotoListing(tuple(photos)))
        yield classifier


def test_paths_images_and_arrays_in_the_order_given(classifier, tmp_path):
    path = tmp_path / "red.png"
    Image.fromarray(pixels("red", 50)).save(path)
    green = Image.fromarray(pixels("green", 51))
    found = classifier.predict(green, path, pixels("green", 52), str(path), Image.open(path), top=2)
    assert found.labels == ("green", "red", "green", "red", "red")
    assert [one.name for one in found] == ["image 1", str(path), "image 3", str(path), str(path)]
    assert found[1].top == found[3].top == found[4].top  # the very same pixels
    assert found[1].top[0] == (found[1].label, found[1].probability)
    assert len(found) == 5
    assert found.skipped == ()


def test_grey_arrays_and_images_are_alike(classifier):
    grey = pixels("red", 3)[:, :, 0]
    found = classifier.predict(grey, Image.fromarray(grey), np.stack([grey] * 3, axis=2))
    assert found[0].top == found[1].top == found[2].top


def test_an_image_of_pillow_is_seen_as_its_file_is(classifier, tmp_path):
    """Turned by its camera, transparent, with a palette, with 16 bits."""
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(pixels("red", 7)).save(tmp_path / "turned.png", exif=turned)
    Image.fromarray(np.dstack([pixels("red", 8), pixels("green", 9)[:, :, :1]])).save(tmp_path / "transparent.png")
    Image.fromarray(pixels("green", 9)).quantize(8).save(tmp_path / "palette.png")
    Image.fromarray(pixels("green", 9)[:, :, 0].astype(np.uint16) * 257).save(tmp_path / "deep.png")
    for path in tmp_path.glob("*.png"):
        with Image.open(path) as image:
            before = image.mode, image.size
            from_file, from_memory = classifier.predict(path, image)
            assert (image.mode, image.size) == before
        assert from_memory.top == from_file.top, path


def test_what_cannot_be_decoded_is_skipped_with_its_reason(classifier, tmp_path):
    Image.fromarray(pixels("red", 1)).save(tmp_path / "cut.png")
    content = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(content[: len(content) // 2])
    floats = Image.fromarray(np.zeros((4, 4), dtype=np.float32))
    with Image.open(tmp_path / "cut.png") as cut:
        found = classifier.predict(cut, floats, Image.new("RGB", (0, 4)), pixels("red", 2))
    assert found.labels == ("red",)
    reasons = {one.name: one.reason for one in found.skipped}
    assert "damaged image" in reasons[str(tmp_path / "cut.png")]
    assert "floating-point" in reasons["image 2"]
    assert "nothing on it" in reasons["image 3"]
    with pytest.raises(DataError, match="3 files cannot be used"):
        classifier.predict(tmp_path / "cut.png", floats, Image.new("RGB", (0, 4)), strict=True)
    assert list(classifier.predict(floats)) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((4, 4, 3)), r"shape \(4, 4, 3\) and type float64"),
        (np.zeros((2, 4, 4, 3), np.uint8), r"predict\(\*images\)"),
        (np.zeros((3, 4, 4), np.uint8), r"shape \(3, 4, 4\)"),
        (np.zeros((4, 4, 4), np.uint8), "red, green and blue"),
        (np.zeros((0, 4, 3), np.uint8), r"shape \(0, 4, 3\)"),
        (np.zeros(4, np.uint8), r"shape \(4,\)"),
        (["a.jpg"], r"of type list.*predict\(\*images\)"),
        (b"a.jpg", "of type bytes; expected paths"),
        (None, "of type NoneType"),
    ],
)
def test_what_is_no_image_is_refused(wrong, message):
    with pytest.raises(InputError, match=f"Image 2 is .*{message}"):
        list_images([pixels("red", 0), wrong])


def test_no_image_at_all(classifier, tmp_path):
    with pytest.raises(InputError, match="No image was given"):
        classifier.predict()
    with pytest.raises(DataError, match="cannot be found"):
        classifier.predict(pixels("red", 0), tmp_path / "missing.jpg")


def test_predictions_print_as_a_table_of_bounded_length():
    one = PhotoPrediction("a.jpg", "fox", 0.9, (("fox", 0.9), ("wolf", 0.1)), 1.0)
    other = PhotoPrediction("folder/" * 9 + "b\n\x1b.jpg", "unknown", 0.5, (("grey wolf", 0.5),), 9.0)
    first, second, third, last = str(PhotoPredictions((one, other), (Skipped("c\nd", "it is empty"),))).split("\n")
    assert first.split("  ")[-1] == "(wolf 10.0 %)"
    assert "…" in second
    assert second.endswith("b\\n\\x1b.jpg  unknown          (grey wolf 50.0 %)")
    assert first.index("fox") == second.index("unknown")
    assert (third, last) == ("1 file was left out:", "  c\\nd: it is empty")
    lines = str(PhotoPredictions((one,) * 50)).split("\n")
    assert len(lines) == 21
    assert lines[-1] == "… and 30 more"
    assert str(PhotoPredictions()) == "no photo"
