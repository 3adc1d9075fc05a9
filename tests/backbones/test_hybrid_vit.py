"""The hybrid ViT: its stem is the embedded network, and its weights are the right ones or none."""

import json
import shutil

import numpy as np
import pytest
import torch

from gddsg.backbones import hybrid_vit, load_backbone
from gddsg.backbones.base import Preprocess
from gddsg.backbones.hybrid_vit import HybridViT, class_token, is_hybrid, write_hybrid
from gddsg.backbones.self_test import built_in_picture
from gddsg.backbones.stem import Stem
from gddsg.backbones.trust import is_trusted
from gddsg.errors import BackboneError
from gddsg.nn.distillation import new_vit
from gddsg.nn.networks import Transformer, load_network

LITE = "efficientnet-lite0"


@pytest.fixture(scope="module")
def stem(shared_cache):
    return Stem("cpu", shared_cache)


@pytest.fixture(scope="module")
def inputs(stem):
    picture = built_in_picture()
    parts = [picture.crop((20 * i, 10 * i, 320, 300)) for i in range(3)]
    return np.stack([stem.preprocess(part) for part in parts])


@pytest.fixture(scope="module")
def folder(shared_cache, tmp_path_factory):
    """A hybrid of two small blocks, with weights drawn by lot."""
    return written(tmp_path_factory.mktemp("hybrids") / "small", 0, shared_cache)


def written(path, seed, cache):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        vit = new_vit(blocks=2, width=64)
    path.mkdir()
    write_hybrid(path, vit, "# A test\n", cache)
    return path


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


# ---------------------------------------------------------------- the stem


def test_the_map_leads_to_the_usual_features(stem, inputs):
    maps = stem(torch.from_numpy(inputs))
    assert maps.shape == (3, 320, 7, 7)
    assert maps.dtype == torch.float32
    with torch.inference_mode():
        ours = stem.network.pooled(maps).numpy()
    usual = load_backbone(LITE, "cpu").embed(inputs)
    np.testing.assert_allclose(ours, usual, atol=1e-4)
    assert not np.allclose(usual[0], usual[1], atol=1e-2)


def test_onnx_runtime_gives_what_torch_gives(stem, inputs):
    with torch.inference_mode():
        by_torch = stem.network.last_map(torch.from_numpy(inputs))
    torch.testing.assert_close(stem(torch.from_numpy(inputs)), by_torch, atol=1e-4, rtol=1e-4)


def test_logits_are_those_of_the_published_classifier(stem):
    features = torch.rand(2, 1280)
    weights = stem.network.state_dict()
    expected = features @ weights["_fc.weight"].T + weights["_fc.bias"]
    with torch.inference_mode():
        torch.testing.assert_close(stem.network.logits(features), expected)


def test_a_map_does_not_depend_on_its_neighbours(stem, inputs):
    together = stem(torch.from_numpy(inputs))
    for i in range(3):
        assert torch.equal(stem(torch.from_numpy(inputs[i : i + 1]))[0], together[i])
    assert stem(torch.from_numpy(inputs[:0])).shape == (0, 320, 7, 7)


def test_the_stem_in_torch_as_on_a_gpu(stem, inputs, shared_cache):
    other = Stem("cpu:0", shared_cache)  # anything but "cpu" goes through torch
    torch.testing.assert_close(other(torch.from_numpy(inputs)), stem(torch.from_numpy(inputs)), atol=1e-4, rtol=1e-4)


# ---------------------------------------------------------------- the backbone


def test_features_are_the_class_token_of_the_map(folder, stem, inputs):
    backbone = load_backbone(f"hf:{folder}", "cpu")
    assert isinstance(backbone, HybridViT)
    assert backbone.name == f"hf:{folder}"
    features = backbone.embed(inputs)
    assert features.shape == (3, backbone.feature_dim) == (3, 64)
    assert features.dtype == np.float32
    model = backbone.trainable().module
    with torch.inference_mode():
        tokens = model(stem(torch.from_numpy(inputs))).last_hidden_state
    np.testing.assert_allclose(features, tokens[:, 0].numpy(), atol=1e-5)
    assert np.ptp(features, axis=0).max() > 1e-3
    for i in range(3):
        assert np.array_equal(backbone.embed(inputs[i : i + 1])[0], features[i])


def test_weights_are_halves_on_disk_and_singles_in_use(folder):
    from safetensors.torch import load_file

    stored = load_file(folder / "model.safetensors")
    assert {one.dtype for one in stored.values()} == {torch.float16}
    model = load_backbone(f"hf:{folder}", "cpu").trainable().module
    used = list(model.parameters())
    assert {one.dtype for one in used} == {torch.float32}
    assert sum(one.numel() for one in used) == sum(one.numel() for one in stored.values())


def test_a_network_for_learners_has_a_stem(folder, stem, inputs):
    network = load_network(f"hf:{folder}", "cpu")
    assert isinstance(network, Transformer)
    assert (network.blocks, network.width, network.feature_dim) == (2, 64, 64)
    found = network.features(stem(torch.from_numpy(inputs))).numpy()
    np.testing.assert_allclose(found, load_backbone(f"hf:{folder}", "cpu").embed(inputs), atol=1e-5)


def test_the_fingerprint_tells_weights_and_preprocessing_apart(folder, tmp_path, shared_cache, monkeypatch):
    first = load_backbone(f"hf:{folder}", "cpu").fingerprint
    moved = shutil.copytree(folder, tmp_path / "moved")
    assert load_backbone(f"hf:{moved}", "cpu").fingerprint == first
    other = written(tmp_path / "other", 1, shared_cache)
    assert load_backbone(f"hf:{other}", "cpu").fingerprint != first
    monkeypatch.setattr(
        "gddsg.backbones.stem.preprocess_for",
        lambda *_: Preprocess((224, 224), 0.875, False, (127 / 255,) * 3, (128.000001 / 255,) * 3),
    )
    assert load_backbone(f"hf:{folder}", "cpu").fingerprint != first


@pytest.mark.parametrize("end", ["@288", "/layers2"])
def test_no_other_size_and_no_other_layers(folder, end):
    with pytest.raises(BackboneError, match="last layer alone, at its own size"):
        load_backbone(f"hf:{folder}{end}", "cpu")


# ---------------------------------------------------------------- weights that are missing or damaged


def test_without_weights_the_command_that_makes_them_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(hybrid_vit, "_published", lambda: tmp_path / "nothing")
    with pytest.raises(BackboneError, match="gddsg pretrain-vit PHOTOS --out FOLDER"):
        load_backbone("hybrid-vit", "cpu")


def test_weights_of_the_package_have_a_name_of_their_own(folder, inputs, monkeypatch):
    monkeypatch.setattr(hybrid_vit, "_published", lambda: folder)
    backbone = load_backbone("hybrid-vit@224", "cpu")
    assert backbone.name == "hybrid-vit"
    assert is_trusted("hybrid-vit")
    assert not is_trusted(f"hf:{folder}")
    assert np.array_equal(backbone.embed(inputs), load_backbone(f"hf:{folder}", "cpu").embed(inputs))
    both = load_backbone(f"hybrid-vit+{LITE}", "cpu")
    assert both.feature_dim == 64 + 1280


def damaged(copy, file, change):
    path = copy / file
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(BackboneError, match=r"damaged or incomplete.*gddsg pretrain-vit") as caught:
        load_backbone(f"hf:{copy}", "cpu")
    return str(caught.value)


def one_bit(content):
    return content[:-1] + bytes([content[-1] ^ 1])


def with_entry(key, value):
    return lambda content: json.dumps(json.loads(content) | {key: value}).encode()


def test_one_bit_of_the_weights(copy):
    assert "SHA-256" in damaged(copy, "model.safetensors", one_bit)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("model.safetensors", lambda content: content[:1000]),
        ("config.json", lambda content: content[:40]),
        ("config.json", with_entry("num_channels", 3)),
        ("config.json", with_entry("num_hidden_layers", 3)),
        ("config.json", with_entry("intermediate_size", 64)),
        ("stem.json", lambda content: b""),
        ("stem.json", lambda content: b"[]"),
        ("stem.json", with_entry("picture", [1.0])),
        ("stem.json", with_entry("picture", "no")),
        ("stem.json", with_entry("weights", 3)),
    ],
)
def test_damaged_files(copy, file, change):
    damaged(copy, file, change)


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_a_file_is_missing(copy, file):
    (copy / file).unlink()
    with pytest.raises(BackboneError, match="damaged or incomplete"):
        load_backbone(f"hf:{copy}", "cpu")


def test_another_stem_is_refused(copy):
    path = copy / "stem.json"
    path.write_bytes(with_entry("stem", "resnet18")(path.read_bytes()))
    with pytest.raises(BackboneError, match=r"has the stem 'resnet18'; expected efficientnet-lite0"):
        load_backbone(f"hf:{copy}", "cpu")


def test_a_transformer_that_computes_something_else_is_refused(copy):
    path = copy / "config.json"
    path.write_bytes(with_entry("hidden_act", "relu")(path.read_bytes()))
    with pytest.raises(BackboneError, match="does not work on this machine"):
        load_backbone(f"hf:{copy}", "cpu")


@pytest.mark.parametrize("name", ["google/vit", "nul\0byte", "x" * 900, ""])
def test_what_is_no_folder_is_no_hybrid(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not is_hybrid(name)


def test_the_weights_of_the_package(inputs):
    if not hybrid_vit._published().joinpath("stem.json").is_file():
        pytest.skip("no weights have been published with the package yet")
    network = load_network("hybrid-vit", "cpu")
    assert network.blocks >= 6
    assert network.feature_dim == 192
    sizes = [one.stat().st_size for one in hybrid_vit._published().iterdir()]
    assert sum(sizes) < 10_000_000
    with torch.inference_mode():
        tokens = class_token(network.module, network._stem(torch.from_numpy(inputs)))
    assert np.allclose(load_backbone("hybrid-vit", "cpu").embed(inputs), tokens.numpy(), atol=1e-4)
