"""Backbones at another size than their own: ``efficientnet-lite0@288``."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from gddsg.backbones import efficientnet_lite as module
from gddsg.backbones import load_backbone
from gddsg.backbones.base import Preprocess, images_at_once
from gddsg.backbones.efficientnet_lite import expected_features, features_module, read_weights
from gddsg.backbones.self_test import reference_features, require_right_features
from gddsg.errors import BackboneError

NAME = "efficientnet-lite0"
SMALL = f"{NAME}@64"  # quicker than the sizes that people use


def picture(seed, size=(80, 60)):
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    return small.resize(size, Image.Resampling.BICUBIC)


def embedded(backbone, *images):
    return backbone.embed(np.stack([backbone.preprocess(image) for image in images]))


# EfficientNet-Lite.


@pytest.fixture(scope="module")
def small():
    return load_backbone(SMALL, device="cpu")


def test_the_same_network_sees_images_of_another_size(small):
    assert small.name == SMALL
    assert small.preprocess == replace(load_backbone(NAME, device="cpu").preprocess, size=(64, 64), whole_below=224)
    images = np.stack([small.preprocess(picture(seed)) for seed in range(2)])
    with torch.inference_mode():
        expected = features_module(NAME, read_weights(NAME))(torch.from_numpy(images))
    np.testing.assert_allclose(small.embed(images), expected.numpy(), atol=1e-4)
    np.testing.assert_array_equal(embedded(small, picture(1))[0], small.embed(images)[1])


def test_another_size_is_another_backbone_and_its_own_size_is_not(small, tmp_path):
    own = load_backbone(f"{NAME}@224", device="cpu")
    assert own.identity == load_backbone(NAME, device="cpu").identity == "efficientnet-lite0@e04fc7bdd63a0015"
    assert small.identity == f"{SMALL}@{small.fingerprint}"
    assert small.fingerprint != own.fingerprint
    on_torch = load_backbone(f"{SMALL}/layers2", device="cpu:0", folder=tmp_path)
    assert on_torch.name == f"{SMALL}/layers2"
    assert on_torch.fingerprint not in (small.fingerprint, own.fingerprint)
    assert not list(tmp_path.iterdir())
    np.testing.assert_allclose(embedded(on_torch, picture(0))[:, -1280:], embedded(small, picture(0)), atol=1e-4)


def test_each_size_is_exported_once(small, monkeypatch):
    monkeypatch.setattr(module, "onnx_bytes", lambda *a, **k: pytest.fail("exported again"))
    np.testing.assert_array_equal(embedded(load_backbone(SMALL, device="cpu"), picture(2)), embedded(small, picture(2)))


def test_what_most_people_use_needs_no_torch_to_be_tested(monkeypatch):
    monkeypatch.setattr(module, "features_module", lambda *a: pytest.fail("torch was asked"))
    for size in (224, 288):
        np.testing.assert_array_equal(expected_features(NAME, b"", size), reference_features(NAME, size))


def test_the_package_says_what_torch_computes(monkeypatch):
    weights, known = read_weights(NAME), reference_features(NAME, 288)
    own = {224: reference_features(NAME, 224)}
    monkeypatch.setattr(module, "reference_features", lambda name, size: own.get(size))
    np.testing.assert_allclose(expected_features(NAME, weights, 288), known, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [96, 224])
def test_a_torch_that_computes_something_else_is_not_believed(monkeypatch, size):
    right = features_module(NAME, read_weights(NAME))
    right._blocks[3]._project_conv.weight.data.view(-1)[7] *= -(2.0**20)
    monkeypatch.setattr(module, "features_module", lambda *a: right)
    if size == 224:  # there is nothing to be asked of torch
        assert expected_features(NAME, b"", size) is not None
        return
    with pytest.raises(BackboneError, match="efficientnet-lite0 does not work on this machine"):
        expected_features(NAME, b"", size)


def test_a_network_that_computes_something_else_at_another_size_is_refused(tmp_path):
    backbone = load_backbone(SMALL, device="cpu:0", folder=tmp_path)
    require_right_features(backbone, backbone._expected)
    backbone._module._blocks[3]._project_conv.weight.data.view(-1)[7] *= -(2.0**20)
    with pytest.raises(BackboneError, match="efficientnet-lite0@64 does not work on this machine"):
        require_right_features(backbone, backbone._expected)


def test_large_images_come_in_smaller_batches():
    assert [images_at_once(Preprocess((side, side))) for side in (32, 224, 384, 1024, 4096)] == [64, 64, 64, 15, 1]


# Hugging Face.

SETTINGS = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3}


def tiny(kind):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    images = {"image_size": 32, "patch_size": 8}
    if kind == "vit":
        return transformers.ViTModel(transformers.ViTConfig(**sizes, **images), add_pooling_layer=False)
    if kind == "dinov2":
        return transformers.Dinov2Model(transformers.Dinov2Config(**sizes, **images))
    if kind == "resnet":
        widths = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
        return transformers.ResNetModel(transformers.ResNetConfig(**widths))
    if kind == "pvt":
        ones = [1] * 4
        widths = {"hidden_sizes": [8] * 4, "num_attention_heads": ones, "depths": ones}
        return transformers.PvtModel(transformers.PvtConfig(image_size=32, **widths))
    text = {**sizes, "vocab_size": 50, "max_position_embeddings": 8, "bos_token_id": 0, "eos_token_id": 1}
    config = transformers.CLIPConfig(text_config=text, vision_config={**sizes, **images}, projection_dim=12)
    return transformers.CLIPModel(config)


@pytest.fixture
def folder(tmp_path, request):
    torch.manual_seed(0)
    tiny(request.param).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(SETTINGS))
    return tmp_path


@pytest.mark.parametrize("folder", ["vit", "dinov2", "resnet", "clip"], indirect=True)
def test_models_of_hugging_face_take_another_size(folder):
    own, larger = (load_backbone(f"hf:{folder}{size}", device="cpu") for size in ("", "@48"))
    assert larger.name == f"hf:{folder}@48"
    assert larger.preprocess == replace(own.preprocess, size=(48, 48), whole_below=32)
    assert larger.fingerprint != own.fingerprint
    assert larger.feature_dim == own.feature_dim
    found = embedded(larger, picture(0), picture(1))
    assert found.shape == (2, own.feature_dim)
    assert not np.allclose(found[0], found[1])
    assert not np.allclose(found, embedded(own, picture(0), picture(1)))
    layered = load_backbone(f"hf:{folder}@48/layers2", device="cpu")
    assert layered.name == f"hf:{folder}@48/layers2"
    np.testing.assert_array_equal(embedded(layered, picture(1))[0, -own.feature_dim :], found[1])
    with pytest.raises(BackboneError, match=rf"hf:{folder}@48 were asked for, and it has 2 .*hf:{folder}@48/layers2"):
        load_backbone(f"hf:{folder}@48/layers3", device="cpu")


@pytest.mark.parametrize("folder", ["vit"], indirect=True)
def test_a_vision_transformer_is_told_where_its_patches_are(folder):
    transformers = pytest.importorskip("transformers")
    backbone = load_backbone(f"hf:{folder}@48", device="cpu")
    model = transformers.ViTModel.from_pretrained(folder, add_pooling_layer=False).eval()
    image = backbone.preprocess(picture(3))[None]
    with torch.inference_mode():
        found = model(torch.from_numpy(image), interpolate_pos_encoding=True)
    np.testing.assert_allclose(backbone.embed(image), found.last_hidden_state[:, 0].numpy(), atol=1e-6)


@pytest.mark.parametrize("folder", ["pvt"], indirect=True)
def test_a_model_that_takes_its_own_size_alone_says_so(folder):
    assert load_backbone(f"hf:{folder}", device="cpu").feature_dim == 8
    with pytest.raises(BackboneError, match=rf"hf:{folder} cannot take images of 48 pixels \(.*\)\. Leave @48 out"):
        load_backbone(f"hf:{folder}@48", device="cpu")


@pytest.mark.parametrize("folder", ["resnet"], indirect=True)
def test_one_backbone_has_one_name(folder):
    with pytest.raises(BackboneError, match=r"takes images of 32 pixels by itself\. Leave @32 out"):
        load_backbone(f"hf:{folder}@32", device="cpu")


def test_models_of_timm_take_their_own_size_alone():
    with pytest.raises(BackboneError, match="timm:resnet18 gives its last layer alone, at its own size"):
        load_backbone("timm:resnet18@288", device="cpu")
