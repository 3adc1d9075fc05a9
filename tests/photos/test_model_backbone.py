"""A model file names its backbone, and the file may come from a stranger."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gddsg.backbones import FeatureCache
from gddsg.core.model import Model, Settings
from gddsg.errors import BackboneError
from gddsg.photos import PhotoClassifier
from gddsg.photos import model_backbone as module
from gddsg.photos.model_backbone import ModelBackbone

if os.name == "posix":
    import pty

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.ViTConfig(**sizes, image_size=32, patch_size=8)
    transformers.ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    settings = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return f"hf:{folder}"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for label in ("a", "b"):
        (folder / label).mkdir()
        for i in range(4):
            pixels = rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def stranger(network, photos, tmp_path_factory):
    """A model file as it comes from somebody else: nothing here has agreed to its backbone."""
    folder = tmp_path_factory.mktemp("stranger")
    with pytest.MonkeyPatch.context() as patch, FeatureCache(folder / "cache") as cache:
        patch.setenv("GDDSG_CACHE", str(folder / "cache"))
        PhotoClassifier(folder / "m.gddsg", network, "cpu", cache, {"projection_dim": 32}).learn(photos)
    return folder / "m.gddsg"


@pytest.fixture(autouse=True)
def new_user(tmp_path, monkeypatch):
    monkeypatch.setenv("GDDSG_CACHE", str(tmp_path / "cache"))


def classifier(path, **options):
    return PhotoClassifier(path, device="cpu", **options)


def test_what_only_the_file_names_is_refused_before_anything_is_opened(stranger, network, photos, monkeypatch):
    monkeypatch.setattr(module, "load_backbone", lambda *args: pytest.fail("the backbone was loaded"))
    with pytest.raises(BackboneError) as caught:
        classifier(stranger).predict(photos)
    assert f"--backbone {network}, or in Python PhotoClassifier(" in str(caught.value)
    with pytest.raises(BackboneError, match="name it once yourself"):
        _ = classifier(stranger).backbone
    with pytest.raises(BackboneError, match="name it once yourself"):
        classifier(stranger, ask=lambda name: False).learn(photos)


def test_who_names_it_agrees_to_it_from_then_on(stranger, network, photos):
    predictions = classifier(stranger, backbone=network).predict(photos)
    again = classifier(stranger).predict(photos)
    assert again == predictions
    assert len(predictions) == 8


def test_a_yes_is_remembered_and_asked_for_once(stranger, network, photos):
    asked = []
    first = classifier(stranger, ask=lambda name: not asked.append(name))
    first.predict(photos)
    first.predict(photos)
    classifier(stranger).predict(photos)
    assert asked == [network]


def test_where_nothing_can_be_remembered_it_is_asked_for_once_a_classifier(stranger, network, photos, tmp_path):
    (tmp_path / "cache").write_text("in the way")
    asked = []
    classifier(stranger, ask=lambda name: not asked.append(name)).predict(photos)
    assert asked == [network]


def test_a_name_that_does_not_load_is_not_remembered(tmp_path, photos):
    missing = f"hf:{tmp_path / 'missing'}"
    with pytest.raises(BackboneError, match="could not be loaded"):
        classifier(tmp_path / "m.gddsg", backbone=missing).learn(photos)
    assert not (tmp_path / "cache" / "trusted-backbones.json").exists()


@pytest.mark.parametrize(
    "name", ["hf:nowhere/x", "timm:resnet18", "vit-b16", "vit-b16/layers6", r"hf:\\host\share", "hf:" + "x" * 5000]
)
def test_names_of_every_source_need_agreement(name, monkeypatch):
    monkeypatch.setattr(module, "load_backbone", lambda *args: pytest.fail("the backbone was loaded"))
    model = Model(Settings(backbone=f"{name}@0123456789abcdef"))
    with pytest.raises(BackboneError, match=r"name it once yourself|names a backbone that cannot be") as caught:
        ModelBackbone(Path("m.gddsg"), None, "cpu").load(model)
    assert len(str(caught.value)) < 2000


def test_a_name_with_control_characters_is_shown_without_them():
    model = Model(Settings(backbone="hf:a\x1b[2Jb@0123456789abcdef"))
    with pytest.raises(BackboneError, match="names a backbone that cannot be") as caught:
        ModelBackbone(Path("m.gddsg"), None, "cpu").load(model)
    assert str(caught.value).isprintable()


def test_a_device_that_is_not_there_is_refused_at_once(tmp_path):
    with pytest.raises(BackboneError, match="'nonsense' was asked for"):
        PhotoClassifier(tmp_path / "m.gddsg", device="nonsense")


def test_features_of_another_width_in_the_cache_are_computed_anew(network, stranger, photos, tmp_path):
    expected = classifier(stranger, backbone=network).predict(photos)
    with FeatureCache(tmp_path / "forged") as cache:
        fingerprint = PhotoClassifier(stranger).model.settings.backbone.rpartition("@")[2]
        keys = [hashlib.sha256(path.read_bytes()).digest() for path in sorted(photos.rglob("*.png"))]
        cache.put([(keys[0], np.ones(7, dtype=np.float32))], fingerprint)
        found = classifier(stranger, cache=cache).predict(photos)
    assert found == expected


# As typed.


def test_a_command_that_can_ask_nobody_refuses_the_file_and_says_how_to_allow_it(stranger, network, photos):
    command = [sys.executable, "-m", "gddsg", "predict", str(stranger), str(photos), "--json"]
    refused = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert f"--backbone {network}" in refused.stderr
    assert "Traceback" not in refused.stderr
    allowed = subprocess.run([*command, "--backbone", network], capture_output=True, text=True)
    assert allowed.returncode == 0, allowed.stderr
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.stdout == allowed.stdout


@pytest.mark.skipif(os.name != "posix", reason="a terminal is made as POSIX has it")
@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_on_a_terminal_the_user_is_asked_by_name(stranger, network, photos, answer, code):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "gddsg", "evaluate", str(stranger), str(photos)])
    shown = b""
    with open(terminal, "rb+", buffering=0) as screen:  # noqa: PTH123  # a descriptor
        while b"Use this backbone?" not in shown:
            shown += screen.read(1000)
        screen.write(f"{answer}\n".encode())
        with contextlib.suppress(OSError):  # that is how a terminal ends
            while more := screen.read(1000):
                shown += more
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code
    text = "".join(shown.decode().split())
    assert f"asksforthebackbone{network}" in text
    assert ("Accuracy" in text) == (answer == "y")
