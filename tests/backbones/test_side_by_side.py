"""Several backbones as one: ``efficientnet-lite0@288+efficientnet-lite2``."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_backbone import Means

from gddsg.backbones import load_backbone
from gddsg.backbones.base import Preprocess
from gddsg.backbones.side_by_side import SideBySide
from gddsg.data.photo import Photo
from gddsg.errors import BackboneError
from gddsg.photos import embed_photos


def picture(seed, size=(80, 60)):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8))


def embedded(backbone, *images):
    return backbone.embed(np.stack([backbone.preprocess(image) for image in images]))


class Corners(Means):
    """Another tiny one, of larger images that are used in part."""

    name, fingerprint, feature_dim = "corners", "fedcba9876543210", 12
    preprocess = Preprocess((20, 10), crop=0.5)

    def embed(self, images):
        self.seen += len(images)
        return np.ascontiguousarray(images[:, :, ::19, ::9]).reshape(len(images), 12)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_parts_side_by_side(batch_size):
    parts = [Means(batch_size), Corners(16)]
    both = SideBySide(parts)
    images = [picture(seed, (30 + seed, 50)) for seed in range(5)]
    expected = np.concatenate([embedded(part, *images) for part in parts], axis=1)
    found = embedded(both, *images)
    assert (both.name, both.feature_dim, both.batch_size) == ("means+corners", 36, batch_size)
    assert both.preprocess.useful_side == Corners.preprocess.useful_side == 80
    assert both.preprocess(images[0]).shape == both.preprocess.shape == (3 * 16 * 16 + 3 * 20 * 10,)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


def test_the_fingerprint_is_that_of_the_parts_in_their_order():
    one, other = SideBySide([Means(), Corners()]), SideBySide([Corners(), Means()])
    changed = Corners()
    changed.fingerprint = "0000000000000000"
    prints = {one.fingerprint, other.fingerprint, SideBySide([Means(), changed]).fingerprint}
    assert len(prints) == 3
    assert {len(text) for text in prints} == {16}
    assert one.fingerprint == "dc1ba9f9c4e6124f"  # in model files: not to be changed


@pytest.mark.parametrize("batch_size", [1, 3])
def test_photos_are_embedded_by_all_parts(tmp_path, batch_size):
    for seed in range(7):
        picture(seed).save(tmp_path / f"{seed}.png")
    (tmp_path / "7.png").write_bytes(b"nonsense")
    photos = [Photo.of_file(path) for path in sorted(tmp_path.iterdir())]
    both = SideBySide([Means(batch_size), Corners(batch_size)])
    found = embed_photos(photos, both)
    assert [one.name for one in found.skipped] == [str(tmp_path / "7.png")]
    expected = [embed_photos(photos, part).features for part in (Means(), Corners())]
    np.testing.assert_array_equal(found.features, np.concatenate(expected, axis=1))


# By name.


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two networks, one of them in a folder with a plus in its name."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    made = []
    for name, side, widths in (("a+b", 32, [8, 16]), ("net", 40, [8, 12])):
        folder = tmp_path_factory.mktemp("models") / name
        config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=widths, depths=[1, 1], layer_type="basic")
        transformers.ResNetModel(config).save_pretrained(folder)
        settings = {"size": {"height": side, "width": side}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
        (folder / "preprocessor_config.json").write_text(json.dumps(settings))
        made.append(folder)
    return made


def test_any_names_can_be_joined(folders):
    names = [f"hf:{folders[0]}", f"hf:{folders[1]}@64/layers2", "efficientnet-lite0@64"]
    joined = load_backbone("+".join(names), device="cpu")
    parts = [load_backbone(name, device="cpu") for name in names]
    assert joined.name == "+".join(names)
    assert joined.feature_dim == 16 + (8 + 12) + 1280
    assert joined.identity.rpartition("@")[0] == joined.name
    assert joined.fingerprint == SideBySide(parts).fingerprint
    images = [picture(seed) for seed in range(3)]
    np.testing.assert_array_equal(
        embedded(joined, *images), np.concatenate([embedded(part, *images) for part in parts], axis=1)
    )
    np.testing.assert_array_equal(embedded(joined, images[2])[0], embedded(joined, *images)[2])


def test_a_part_that_cannot_be_loaded_is_named(folders, tmp_path):
    with pytest.raises(BackboneError, match=f"hf:{tmp_path / 'missing'} could not be loaded"):
        load_backbone(f"hf:{folders[0]}+hf:{tmp_path / 'missing'}", device="cpu")
