"""ONNX files of models."""

import json
import re

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from tiny_backbone import Means

from gddsg.backbones import load_backbone
from gddsg.core.model import Model, Settings
from gddsg.errors import InputError, ModelFileError
from gddsg.export import export_onnx, export_photo_onnx, prediction_network


def learnt(**settings):
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(5, 8)).repeat(20, 0) * 2 + rng.normal(size=(100, 8)))
    empty = Model(Settings(projection_dim=40, **settings))
    return empty.plus(empty.make_cards(torch.from_numpy(X).float(), [label for label in "abcdé" for _ in range(20)]))


@pytest.fixture(scope="module")
def model():
    return learnt()


def test_onnx_runtime_gives_the_same_probabilities(model, tmp_path):
    gap = export_onnx(model, tmp_path / "m.onnx")
    assert gap <= 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    for n in (1, 7, 300):
        X = np.abs(np.random.default_rng(n).normal(size=(n, 8)) * 3).astype(np.float32)
        (found,) = session.run(None, {"features": X})
        np.testing.assert_allclose(found, np.exp(model.predictor.predict_log_proba(X)), atol=1e-5)
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == list("abcdé")


class Other(Means):
    """Not one that can be exported, whatever it is called."""

    name = "efficientnet-lite0+means"


@pytest.mark.parametrize("backbone", [Means(), Other()])
def test_backbones_that_are_no_network_of_ours_are_refused(backbone, model, tmp_path):
    with pytest.raises(
        InputError, match=rf"{re.escape(backbone.name)} cannot be exported.*only one of efficientnet-lite0"
    ):
        export_photo_onnx(model, backbone, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_backbone_must_be_that_of_the_model(model, tmp_path):
    with pytest.raises(InputError, match="was learnt with None, and efficientnet-lite0@"):
        export_photo_onnx(model, load_backbone(device="cpu"), tmp_path / "m.onnx")


def test_photos_to_probabilities_of_several_layers_and_any_number(tmp_path):
    backbone = load_backbone("efficientnet-lite0/layers2", device="cpu")
    images = np.random.default_rng(0).integers(0, 256, (10, 7, 7, 3), dtype=np.uint8)
    images = np.stack([np.asarray(Image.fromarray(image).resize((224, 224))) for image in images])
    # as the backbone's preprocessing normalises, without its cutting
    pixels = ((images / 255 - 127 / 255) / (128 / 255)).transpose(0, 3, 1, 2).astype(np.float32)
    features = backbone.embed(pixels)
    empty = Model(Settings(projection_dim=40, backbone=backbone.identity))
    model = empty.plus(empty.make_cards(torch.from_numpy(features), ["a", "b"] * 5))
    assert export_photo_onnx(model, backbone, tmp_path / "m.onnx") < 1e-4
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == ["a", "b"]
    assert float(about["bleed"]) == 0.0625
    assert about["backbone"] == backbone.identity
    for n in (1, 10):
        (found,) = session.run(None, {"images": images[:n]})
        np.testing.assert_allclose(found, np.exp(model.predictor.predict_log_proba(features[:n])), atol=1e-4)


def test_a_difference_is_never_written(model, tmp_path, monkeypatch):
    monkeypatch.setattr("gddsg.export._largest_gap", lambda content, model: 1e-3)
    with pytest.raises(InputError, match="nothing was written"):
        export_onnx(model, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to(model, tmp_path):
    with pytest.raises(ModelFileError, match="Choose a folder"):
        export_onnx(model, tmp_path / "none" / "m.onnx")


@pytest.mark.parametrize("identification", ["vote", "tree"])
def test_a_vote_is_no_network(identification):
    with pytest.raises(InputError, match="only 'evidence'"):
        prediction_network(learnt(identification=identification))


def test_nothing_learnt_is_nothing_to_export(tmp_path):
    with pytest.raises(InputError, match="has learnt no class"):
        export_onnx(Model(Settings()), tmp_path / "m.onnx")
