"""Features of several layers: ``efficientnet-lite0/layers4``."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from gddsg.backbones import load_backbone, resolve_name
from gddsg.backbones.efficientnet_lite import features_module, read_weights
from gddsg.backbones.efficientnet_lite_network import EfficientNetLiteNetwork
from gddsg.backbones.efficientnet_lite_shape import SCALES, layer_widths
from gddsg.backbones.names import split_name
from gddsg.backbones.self_test import require_right_features
from gddsg.backbones.trust import is_trusted, trust
from gddsg.errors import BackboneError

NAME = "efficientnet-lite0"
WIDTHS = (16, 24, 40, 80, 112, 192, 320, 1280)


def picture(seed, size=(80, 60)):
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    return small.resize(size, Image.Resampling.BICUBIC)


def embedded(backbone, *images):
    return backbone.embed(np.stack([backbone.preprocess(image) for image in images]))


# Names.


@pytest.mark.parametrize(
    ("name", "full", "parts"),
    [
        ("efficientnet-lite0/layers4", "efficientnet-lite0/layers4", ("efficientnet-lite0", 4)),
        ("efficientnet-lite0/layers1", "efficientnet-lite0", ("efficientnet-lite0", 1)),
        ("efficientnet-lite1/layers08", "efficientnet-lite1/layers8", ("efficientnet-lite1", 8)),
        ("vit-b16/layers6", "hf:google/vit-base-patch16-224-in21k/layers6", None),
        ("hf:a/b/layers12", "hf:a/b/layers12", ("hf:a/b", 12)),
        ("hf:a/layers4/", "hf:a/layers4/", ("hf:a/layers4/", 1)),
        ("hf:a/layers-of-paint", "hf:a/layers-of-paint", ("hf:a/layers-of-paint", 1)),
        ("hf:a/layers", "hf:a/layers", ("hf:a/layers", 1)),
    ],
)
def test_names(name, full, parts):
    assert resolve_name(name) == full
    assert resolve_name(full) == full
    (part,) = split_name(full)
    assert parts is None or (part.network, part.layers) == parts


@pytest.mark.parametrize("count", ["0", "-1", "+2", "1.5", "00000000000000000004", "--", "9" * 500])
@pytest.mark.parametrize("network", ["efficientnet-lite0", "hf:a/b", "vit-b16", "resnet9000"])
def test_a_number_of_layers_that_is_none(network, count):
    with pytest.raises(BackboneError, match=r"expected a whole number from 1, such as /layers4") as caught:
        load_backbone(f"{network}/layers{count}", device="cpu")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", ["efficientnet-lite0/layersfour", "efficientnet-lite0/layers", "resnet9000/layers4"])
def test_other_slips_are_shown_how_to_ask_for_layers(name):
    with pytest.raises(BackboneError, match=r"There is no backbone.*put /layers4 behind its name"):
        load_backbone(name, device="cpu")


def test_layers_are_asked_for_once():
    with pytest.raises(BackboneError, match="twice"):
        load_backbone("efficientnet-lite0/layers2/layers2", device="cpu")


def test_models_of_timm_give_their_last_layer_alone():
    with pytest.raises(BackboneError, match=r"timm:resnet18 gives its last layer alone"):
        load_backbone("timm:resnet18/layers2", device="cpu")


def test_who_trusts_a_network_trusts_it_whichever_layers_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("GDDSG_CACHE", str(tmp_path / "cache"))
    assert is_trusted("efficientnet-lite0/layers4")
    assert not is_trusted("hf:a/b/layers4")
    trust("hf:a/b/layers4")
    assert is_trusted("hf:a/b")
    assert is_trusted("hf:a/b/layers2")
    assert not is_trusted("hf:a/c/layers4")


# EfficientNet-Lite.


@pytest.fixture(scope="module")
def plain():
    return load_backbone(NAME, device="cpu")


@pytest.fixture(scope="module")
def layered():
    return load_backbone(f"{NAME}/layers4", device="cpu")


def test_the_usual_features_come_last_and_those_of_earlier_layers_before(plain, layered):
    images = [picture(0), picture(1)]
    found = embedded(layered, *images)
    assert found.dtype == np.float32
    assert found.shape == (2, layered.feature_dim) == (2, sum(WIDTHS[-4:]))
    np.testing.assert_allclose(found[:, -1280:], embedded(plain, *images), atol=1e-5)
    np.testing.assert_array_equal(embedded(layered, picture(1))[0], found[1])


def test_each_layer_is_the_mean_of_the_map_that_its_stage_ends_with(layered):
    network = features_module(NAME, read_weights(NAME))
    images = np.stack([layered.preprocess(picture(seed)) for seed in range(2)])
    maps = []
    for last_block in (10, 14, 15):  # the fifth, sixth and seventh stage of 1, 2, 2, 3, 3, 4 and 1 blocks
        network._blocks[last_block].register_forward_hook(lambda module, given, found: maps.append(found))
    with torch.inference_mode():
        last = network(torch.from_numpy(images))
    expected = torch.cat([*(each.mean((2, 3)) for each in maps), last], dim=1)
    np.testing.assert_allclose(layered.embed(images), expected.numpy(), atol=1e-4)


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("layers", range(1, 9))
def test_widths_of_layers(name, layers):
    widths = layer_widths(name)
    network = EfficientNetLiteNetwork(name, layers).eval()
    with torch.inference_mode():
        assert network(torch.zeros(1, 3, 32, 32)).shape == (1, sum(widths[-layers:]))
    assert widths == WIDTHS or name == "efficientnet-lite2"


def test_another_choice_of_layers_is_another_backbone(plain, layered, tmp_path):
    assert plain.identity == "efficientnet-lite0@e04fc7bdd63a0015"
    others = [load_backbone(f"{NAME}/layers{n}", device="cpu:0", folder=tmp_path) for n in (1, 2, 4)]
    assert [other.name for other in others] == [NAME, f"{NAME}/layers2", f"{NAME}/layers4"]
    assert others[0].identity == plain.identity
    assert others[2].identity == layered.identity
    assert len({other.fingerprint for other in others}) == 3
    np.testing.assert_allclose(embedded(others[2], picture(0)), embedded(layered, picture(0)), atol=1e-4)


def test_the_exported_network_is_kept_beside_the_usual_one(layered, monkeypatch):
    monkeypatch.setattr("gddsg.backbones.efficientnet_lite.onnx_bytes", lambda *a, **k: pytest.fail("exported again"))
    again = load_backbone(f"{NAME}/layers4", device="cpu")
    np.testing.assert_array_equal(embedded(again, picture(2)), embedded(layered, picture(2)))


def test_more_layers_than_there_are(monkeypatch):
    monkeypatch.setattr("gddsg.backbones.efficientnet_lite.read_weights", lambda name: pytest.fail("worked"))
    with pytest.raises(
        BackboneError, match=r"last 9 layers of efficientnet-lite0.*has 8 to give.*efficientnet-lite0/layers8"
    ):
        load_backbone(f"{NAME}/layers9", device="cpu")


@pytest.mark.parametrize("wrong", ["earlier layer", "shape"])
def test_a_network_that_computes_something_else_is_refused(wrong, tmp_path):
    backbone = load_backbone(f"{NAME}/layers4", device="cpu:0", folder=tmp_path)
    require_right_features(backbone, backbone._expected)
    module = backbone._module
    if wrong == "shape":
        backbone._module = lambda images: module(images)[:, 1:]
    else:
        module._blocks[3]._project_conv.weight.data.view(-1)[7] *= -(2.0**20)
    with pytest.raises(BackboneError, match=r"efficientnet-lite0/layers4 does not work on this machine"):
        require_right_features(backbone, backbone._expected)


# Hugging Face.

SETTINGS = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3}


def tiny(kind):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    images = {"image_size": 32, "patch_size": 8}
    if kind == "vit":
        return transformers.ViTModel(transformers.ViTConfig(**sizes, **images), add_pooling_layer=False)
    if kind == "dinov2":
        return transformers.Dinov2Model(transformers.Dinov2Config(**sizes, **images))
    if kind == "resnet":
        widths = {"embedding_size": 8, "hidden_sizes": [8, 12, 16], "depths": [1, 1, 1], "layer_type": "basic"}
        return transformers.ResNetModel(transformers.ResNetConfig(**widths))
    text = {**sizes, "vocab_size": 50, "max_position_embeddings": 8, "bos_token_id": 0, "eos_token_id": 1}
    config = transformers.CLIPConfig(text_config=text, vision_config={**sizes, **images}, projection_dim=12)
    return transformers.CLIPModel(config)


@pytest.fixture
def folder(tmp_path, request):
    torch.manual_seed(0)
    tiny(request.param).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(SETTINGS))
    return tmp_path


LAYERS_OF_TINY = [("vit", 16, 16), ("dinov2", 16, 16), ("resnet", 12, 16), ("clip", 16, 12)]


@pytest.mark.parametrize(("folder", "before", "last"), LAYERS_OF_TINY, indirect=["folder"])
def test_models_of_hugging_face_give_several_layers(folder, before, last):
    plain = load_backbone(f"hf:{folder}", device="cpu")
    layered = load_backbone(f"hf:{folder}/layers2", device="cpu")
    found = embedded(layered, picture(0), picture(1))
    assert found.shape == (2, layered.feature_dim) == (2, before + last)
    np.testing.assert_array_equal(found[:, before:], embedded(plain, picture(0), picture(1)))
    assert not np.allclose(found[0, :before], found[1, :before])
    assert layered.identity == f"hf:{folder}/layers2@{layered.fingerprint}"
    assert layered.fingerprint != plain.fingerprint
    assert load_backbone(f"hf:{folder}/layers1", device="cpu").identity == plain.identity
    assert load_backbone(f"hf:{folder}/layers3", device="cpu").feature_dim > layered.feature_dim
    with pytest.raises(BackboneError, match=rf"last 4 layers of hf:{folder} were asked for, and it has 3 to give"):
        load_backbone(f"hf:{folder}/layers4", device="cpu")


@pytest.mark.parametrize("folder", ["vit"], indirect=True)
def test_a_vision_transformer_gives_the_class_token_after_each_of_its_last_blocks(folder):
    transformers = pytest.importorskip("transformers")
    backbone = load_backbone(f"hf:{folder}/layers3", device="cpu")
    model = transformers.ViTModel.from_pretrained(folder, add_pooling_layer=False).eval()
    tokens = []
    for layer in (module for name, module in model.named_modules() if type(module).__name__ == "ViTLayer"):
        layer.register_forward_hook(
            lambda module, given, found: tokens.append((found[0] if isinstance(found, tuple) else found)[:, 0])
        )
    image = backbone.preprocess(picture(3))[None]
    with torch.inference_mode():
        last = model(torch.from_numpy(image)).last_hidden_state[:, 0]
    assert len(tokens) == 3
    np.testing.assert_allclose(backbone.embed(image), torch.cat([*tokens[:2], last], dim=1).numpy(), atol=1e-6)
