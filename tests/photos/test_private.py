"""A model under differential privacy, from a feature file to a model file."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from gddsg.cli import app
from gddsg.data import write_feature_file
from gddsg.errors import DataError
from gddsg.evaluation.leak_check import overlapping_classes
from gddsg.photos import merge_models
from gddsg.photos.private import learn_privately
from gddsg.store import read_model

pytest.importorskip("dp_accounting")
SPENT = {"epsilon": 8.0, "delta": 1e-5, "clip": 5.0}


@pytest.fixture
def site(tmp_path):
    path = tmp_path / "site.npz"
    write_feature_file(overlapping_classes(seed=0), path)
    return path


def test_models_of_two_places_merge(site, tmp_path):
    for name in ("a", "b"):
        report = learn_privately(site, tmp_path / name, **SPENT)
    assert (report.classes, report.epsilon) == (12, 8.0)
    assert 0 <= report.clipped <= 1
    one, both = read_model(tmp_path / "a"), merge_models([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    assert both.labels == one.labels
    assert (one.settings.projection_dim, one.settings.feature_transform) == (0, "none")
    assert not one.label_samples()


def test_a_model_that_is_there_is_left_alone(site, tmp_path):
    learn_privately(site, tmp_path / "a", **SPENT)
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(DataError, match="Name a new file"):
        learn_privately(site, tmp_path / "a", **SPENT)
    assert (tmp_path / "a").read_bytes() == before


def test_infinite_epsilon_is_no_noise(site, tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        generator = np.random.default_rng(seed)
        learn_privately(site, tmp_path / name, **{**SPENT, "epsilon": float("inf")}, generator=generator)
    assert read_model(tmp_path / "a").cards == read_model(tmp_path / "b").cards


def test_the_command_says_what_was_spent_and_what_is_not_protected(site, tmp_path):
    def ran(*more):
        given = ["private", str(site), "--epsilon", "8", "--delta", "1e-5", "--clip", "5", "--out"]
        return CliRunner().invoke(app, [*given, *more])

    done = ran(str(tmp_path / "a"))
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    assert "epsilon 8 at delta 1e-05" in shown
    assert "Not protected: the names of the classes" in shown
    assert "adds to what is spent" in shown
    assert json.loads(ran(str(tmp_path / "b"), "--json").output)["epsilon"] == 8
    assert ran(str(tmp_path / "a")).exit_code == 1
