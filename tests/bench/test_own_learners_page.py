"""The page on learners of one's own: its learner runs through the benchmark, the report and the laws."""

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gddsg import checks, learners
from gddsg.bench import learner_class, read_records
from gddsg.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "own-learners.md"

pytestmark = pytest.mark.skipif(not hasattr(learners, "FeatureLearner"), reason="the base class is still to come")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (code, *_) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "nearest_mean.py").write_text(code)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("nearest_mean", None)


def test_the_commands_of_the_page(folder, root):
    (folder / "birds.npz").write_bytes((root / "circles_efficientnet-lite0.npz").read_bytes())
    commands = re.findall(r"^gddsg (bench .*)$", PAGE.read_text(), re.MULTILINE)
    assert [command.split()[1] for command in commands] == ["run", "report"]
    for command in commands:
        done = CliRunner().invoke(app, [*command.replace("--orders 10", "--orders 1 --workers 0").split()])
        assert done.exit_code == 0, done.output
    assert {record.head.learner for record in read_records(folder / "records.jsonl")} == {
        "gddsg",
        "nearest_mean:NearestMean",
    }
    assert "NearestMean" in (folder / "report" / "report.md").read_text()


def test_it_obeys_the_laws(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    checks.check_learner(learner_class("nearest_mean:NearestMean")())
