"""ONNX files of models."""

import json

import numpy as np
import onnxruntime
import pytest
import torch

from gddsg.core.model import Model, Settings
from gddsg.errors import InputError, ModelFileError
from gddsg.export import export_onnx, prediction_network


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
