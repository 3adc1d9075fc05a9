import importlib.util

import pytest
from tests.scale.samples import features, npz
from typer.testing import CliRunner

from gddsg.cli import app


def run(*words):
    return CliRunner().invoke(app, ["learn", *map(str, words)])


def test_options_of_ray_go_with_ray(tmp_path):
    found = run(tmp_path / "m.gddsg", tmp_path, "--workers", 2, "--column", "x")
    assert found.exit_code == 2
    assert "--workers, --column goes with --engine ray alone" in " ".join(found.output.replace("│", " ").split())


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = run(tmp_path / "m.gddsg", tmp_path, "--engine", "ray")
    assert found.exit_code == 1
    assert "pip install 'gddsg[ray]'" in found.output


@pytest.mark.usefixtures("running_ray")
def test_learns_features_and_says_what_it_did(tmp_path):
    found = run(tmp_path / "m.gddsg", npz(tmp_path / "f.npz", *features(60)), "--engine", "ray", "--projection-dim", 50)
    assert found.exit_code == 0, found.output
    assert "of 3 classes, 3 of them new" in found.output
