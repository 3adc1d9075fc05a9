"""Learners of other people: by entry point, by module:Class, on the command line and in TOML, as far as the report."""

import importlib.metadata
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from gddsg import LEARNERS, SimpleCIL
from gddsg.bench import experiment_from, learner_class, learner_names, read_records, run_experiment
from gddsg.bench.methods import METHODS, check_parameters, new_learner
from gddsg.cli import app
from gddsg.errors import DataError

NEAREST = '''
import numpy as np


class Nearest:
    """Nearest mean; it has neither a projection nor a seed."""

    exemplar_free = True

    def __init__(self, scale=1.0):
        self.scale = scale
        self.means = {}

    def get_params(self, deep=True):
        return {"scale": self.scale}

    def partial_fit(self, X, y):
        self.means = {**self.means, **{c: self.scale * X[y == c].mean(0) for c in np.unique(y).tolist()}}
        return self

    def predict(self, X):
        classes, means = list(self.means), np.stack(list(self.means.values()))
        return np.array(classes)[((X[:, None] - means) ** 2).sum(-1).argmin(1)]


class Seeded(Nearest):
    def __init__(self, seed):
        super().__init__()
        self.seed = seed


class NoLearner:
    pass


number = 3
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in a folder that only this test can import from."""
    name = f"nearest_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(NEAREST)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def importable(module, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return module


@pytest.mark.parametrize("workers", [0, 2])
def test_from_the_command_line_to_the_report(module, workers, root, tmp_path):
    learner, out = f"{module}:Nearest", tmp_path / "records.jsonl"
    features = root / "circles_efficientnet-lite0.npz"
    options = ["--learner", f"simplecil,{learner}", "--tasks", "3", "--out", str(out), "--workers", str(workers)]
    done = CliRunner().invoke(app, ["bench", "run", "--features", str(features), *options])
    assert done.exit_code == 0, done.output
    theirs = next(record for record in read_records(out) if record.head.learner == learner)
    assert (theirs.head.method, theirs.head.exemplar_free, theirs.head.incremental) == (learner, True, True)
    assert theirs.found.metrics["A_N"] > 50
    made = CliRunner().invoke(app, ["bench", "report", str(out), "--html", str(tmp_path / "page")])
    assert made.exit_code == 0, made.output
    shown = (tmp_path / "page" / "report.md").read_text().replace("\\", "")
    assert f"{theirs.found.metrics['A_N']:.2f}" in shown
    assert learner in shown


def test_the_installed_command_finds_the_current_folder(module, root, tmp_path):
    code = "import sys; from gddsg.cli import app; app()"  # as an entry-point script, whose folder is not this one
    features = str(root / "circles_efficientnet-lite0.npz")
    options = ["--learner", f"{module}:Nearest", "--tasks", "2", "--out", "records.jsonl", "--workers", "0"]
    script = tmp_path / "elsewhere" / "command.py"
    script.parent.mkdir()
    script.write_text(code)
    command = [sys.executable, str(script), "bench", "run", "--features", features, *options]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not read_records(tmp_path / "records.jsonl")[0].error


def test_in_toml_a_name_may_stand_for_it(importable, root, tmp_path):
    mine = {"name": "mine", "method": f"{importable}:Nearest", "parameters": {"scale": 1.5}}
    table = {"datasets": ["circles"], "learners": [mine, f"{importable}:Nearest"], "tasks": 3}
    out = tmp_path / "records.jsonl"
    assert run_experiment(experiment_from("own", table), out, root, workers=0).failed == 0
    assert [
        (record.head.learner, record.head.method, dict(record.head.parameters)) for record in read_records(out)
    ] == [
        ("mine", f"{importable}:Nearest", {"scale": 1.5}),
        (f"{importable}:Nearest", f"{importable}:Nearest", {}),
    ]


def test_a_seed_is_given_only_where_one_is_taken(importable):
    assert new_learner(f"{importable}:Seeded", {}, 7).seed == 7
    assert new_learner(f"{importable}:Seeded", {"seed": 8}, 7).seed == 8
    assert not hasattr(new_learner(f"{importable}:Nearest", {}, 7), "seed")
    assert new_learner("ranpac", {}, 7).seed == 7


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("no_such_module_here:Nearest", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("{module}:Farthest", "no 'Farthest' in {module}; expected one of its classes: Nearest, Seeded, NoLearner"),
        ("{module}:Nearest.Inner", "no 'Inner'"),
        ("{module}:number", "is of type int; expected a class"),
        ("{module}:NoLearner", "has no partial_fit"),
        ("gddsg.learners:Learner", "has no _"),
        (":Nearest", "cannot be imported"),
        ("magic", "There is no learner 'magic'"),
    ],
)
def test_what_is_no_learner_is_refused(method, message, importable):
    with pytest.raises(DataError) as caught:
        experiment_from("wrong", {"datasets": ["a"], "learners": [method.format(module=importable)]})
    assert message.format(module=importable) in str(caught.value)


def test_a_module_that_fails_while_it_is_imported_is_named_with_its_error(importable, tmp_path):
    (tmp_path / f"{importable}_broken.py").write_text("1 / 0")
    with pytest.raises(DataError, match="ZeroDivisionError: division by zero"):
        learner_class(f"{importable}_broken:Nearest")


def test_parameters_are_those_of_the_constructor(importable):
    check_parameters(f"{importable}:Nearest", {"scale": 2.0})
    check_parameters(f"{importable}:Seeded", {})  # a seed is given anyway
    with pytest.raises(DataError, match="no parameter 'colour'; those are scale"):
        check_parameters(f"{importable}:Nearest", {"colour": 1})


def test_a_parameter_without_a_default_is_asked_for(importable, tmp_path):
    (tmp_path / f"{importable}.py").write_text(NEAREST.replace("scale=1.0", "scale"))
    with pytest.raises(DataError, match="was given no 'scale'"):
        check_parameters(f"{importable}:Nearest", {})


@pytest.fixture
def installed(monkeypatch):
    """Pretends that packages name learners of theirs."""

    def install(**values):
        group = "gddsg.learners"
        points = [importlib.metadata.EntryPoint(name, value, group) for name, value in values.items()]
        monkeypatch.setattr("gddsg.bench.methods.entry_points", lambda *, group: points)

    return install


def test_installed_packages_name_learners_of_theirs(installed, importable, root, tmp_path):
    installed(nearest=f"{importable}:Nearest", gddsg="somewhere:Else", broken="no_such_module_here:X")
    assert learner_names() == [*LEARNERS, "broken", "nearest"]
    assert learner_class("gddsg") is LEARNERS["gddsg"]  # nobody replaces a learner of this package
    with pytest.raises(DataError, match="'broken', which an installed package names as no_such_module_here:X"):
        learner_class("broken")
    assert "nearest" in CliRunner().invoke(app, ["bench", "list", str(tmp_path)]).output
    table = {"datasets": ["circles"], "learners": ["nearest"], "tasks": 3}
    assert run_experiment(experiment_from("own", table), tmp_path / "r.jsonl", root, workers=0).failed == 0
    assert read_records(tmp_path / "r.jsonl")[0].head.method == "nearest"


def test_all_methods_are_learners_or_known_to_one_protocol_alone():
    assert set(METHODS) - set(LEARNERS) == {"released-recipe", "task-probe"}
    assert learner_class("simplecil") is SimpleCIL
