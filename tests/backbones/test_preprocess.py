"""What a network sees of an image."""

import numpy as np
import pytest
from PIL import Image

from gddsg.backbones import Preprocess
from gddsg.backbones.base import fingerprint
from gddsg.backbones.huggingface import preprocess_of


def stripes(width, height):
    """Brightness is the column's place from left (0) to right (250)."""
    row = np.linspace(0, 250, width).astype(np.uint8)
    return Image.fromarray(np.repeat(np.tile(row, (height, 1))[:, :, None], 3, axis=2))


def test_shape_and_kind():
    out = Preprocess((24, 20))(stripes(60, 40))
    assert out.shape == (3, 24, 20)
    assert out.dtype == np.float32
    assert out.flags["C_CONTIGUOUS"]


def test_values_are_normalised_channel_by_channel():
    image = Image.new("RGB", (30, 30), (255, 0, 51))
    out = Preprocess((8, 8), mean=(0.5, 0.0, 0.2), deviation=(0.5, 2.0, 0.1))(image)
    np.testing.assert_allclose(out[:, 4, 4], [1.0, 0.0, 0.0], atol=1e-6)


def test_the_middle_is_used():
    out = Preprocess((10, 10))(stripes(300, 100))[0] * 255
    assert out[:, 0].mean() == pytest.approx(250 / 3, abs=5)
    assert out[:, -1].mean() == pytest.approx(500 / 3, abs=5)


def test_cropping_takes_a_share_of_the_shorter_side():
    out = Preprocess((10, 10), crop=0.5)(stripes(100, 100))[0] * 255
    assert out[:, 0].mean() == pytest.approx(0.25 * 250, abs=8)
    assert out[:, -1].mean() == pytest.approx(0.75 * 250, abs=8)


def test_a_small_image_is_used_whole():
    cropped, whole = (Preprocess((64, 64), crop=crop)(stripes(32, 32)) for crop in (0.5, 1.0))
    np.testing.assert_array_equal(cropped, whole)


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("side", [224, 260, 288])
def test_an_image_of_any_size_has_a_part_that_lies_inside(side, squash):
    preprocess = Preprocess((side, side), crop=0.875, squash=squash)
    for width in range(1, 400):
        for height in (width, width + 1, 3 * width):
            left, top, right, bottom = preprocess._box((width, height))
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height


@pytest.mark.parametrize("side", [30, 60, 90])
def test_another_size_sees_the_same_part_of_every_image(side):
    own = Preprocess((60, 60), crop=0.5)
    for width in (50, 60, 80, 200):
        image = stripes(width, width)
        assert own.at(side)._box(image.size) == own._box(image.size)
        assert own.at(side)(image).shape == (3, side, side)
    assert own.at(60) is own
    assert own.at(side).useful_side == 4 * side
    assert (fingerprint(own.at(side), []) == fingerprint(own, [])) == (side == 60)
    assert fingerprint(own.at(30), []) != fingerprint(Preprocess((30, 30), crop=0.5), [])


def test_squashing_uses_the_whole_image():
    out = Preprocess((10, 10), squash=True)(stripes(300, 100))[0] * 255
    assert out[:, 0].mean() < 20
    assert out[:, -1].mean() > 230


@pytest.mark.parametrize("size", [(1, 5000), (5000, 1), (1, 1), (2, 3)])
def test_extreme_shapes_cost_nothing(size):
    assert np.isfinite(Preprocess((224, 224), crop=0.875)(stripes(*size))).all()


def test_fingerprint_tells_weights_and_preprocessing_apart():
    plain = Preprocess((8, 8))
    prints = {
        fingerprint(plain, [b"ab"]),
        fingerprint(plain, [b"ac"]),
        fingerprint(Preprocess((8, 8), crop=0.9), [b"ab"]),
        fingerprint(Preprocess((8, 9)), [b"ab"]),
    }
    assert len(prints) == 4
    assert fingerprint(plain, [b"a", b"b"]) == fingerprint(Preprocess((8, 8)), [b"ab"])


@pytest.mark.parametrize(
    ("settings", "size", "crop", "squash"),
    [
        ({"size": {"height": 224, "width": 200}}, (224, 200), 1.0, True),  # ViT
        ({"size": 224}, (224, 224), 1.0, True),
        (  # DINOv2
            {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}, "do_center_crop": True},
            (224, 224),
            0.875,
            False,
        ),
        ({"size": {"shortest_edge": 224}, "crop_size": 224, "do_center_crop": True}, (224, 224), 1.0, False),  # CLIP
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875}, (224, 224), 0.875, False),  # ResNet
        ({"size": {"shortest_edge": 384}, "crop_pct": 1.0}, (384, 384), 1.0, True),  # ConvNeXt
    ],
)
def test_preprocessor_files_are_understood(settings, size, crop, squash):
    found = preprocess_of({**settings, "image_mean": [0.1, 0.2, 0.3], "image_std": 0.5, "resample": 2})
    assert (found.size, found.crop, found.squash) == (size, crop, squash)
    assert found.mean == (0.1, 0.2, 0.3)
    assert found.deviation == (0.5, 0.5, 0.5)
    assert found.resample == Image.Resampling.BILINEAR
