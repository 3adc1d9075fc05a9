"""``gddsg bench`` as people type it."""

import json

import pytest
from typer.testing import CliRunner

from gddsg import LEARNERS
from gddsg.bench import read_records
from gddsg.cli import app


def call(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "shapes.toml"
    path.write_text('title = "Shapes"\ndatasets = ["circles"]\nlearners = ["simplecil"]\ntasks = 3\norders = 2\n')
    return path


def test_an_experiment_from_file_to_page(root, experiment, tmp_path):
    done = call("run", experiment, "--data", root, "--workers", 0)
    assert done.exit_code == 0, done.output
    records = tmp_path / "records" / "shapes.jsonl"
    assert f"shapes: 2 runs; records in {records}" in done.output
    (row,) = (line for line in done.output.splitlines() if line.startswith("circles"))
    mean = sum(record.found.metrics["A_N"] for record in read_records(records)) / 2
    assert row.split()[:4] == ["circles", "simplecil", "2", f"{mean:.2f}"]
    assert "2 of them before" in call("run", experiment, "--data", root, "--workers", 0).output

    written = call("report", records, "--html", tmp_path / "page")
    assert written.exit_code == 0, written.output
    assert f"{mean:.2f}" in (tmp_path / "page" / "report.md").read_text(encoding="utf-8")
    assert f"{mean:.2f}" in (tmp_path / "page" / "report.html").read_text(encoding="utf-8")


def test_features_without_an_experiment_file(root, tmp_path):
    file, out = root / "circles_efficientnet-lite0.npz", tmp_path / "records.jsonl"
    options = ("--learner", "simplecil,slda", "--tasks", 4, "--orders", 2, "--out", out, "--workers", 0)
    done = call("run", "--features", file, *options)
    assert done.exit_code == 0, done.output
    records = read_records(out)
    assert [(record.head.learner, record.head.order) for record in records] == [
        ("simplecil", "seed 1993"),
        ("simplecil", "seed 2024"),
        ("slda", "seed 1993"),
        ("slda", "seed 2024"),
    ]
    assert {(record.head.dataset, record.head.backbone) for record in records} == {("circles", "efficientnet-lite0")}


def test_failures_are_told_and_end_in_an_exit_code(root, experiment):
    experiment.write_text('datasets = ["circles", "triangles"]\nlearners = ["simplecil"]\ntasks = 3\n')
    done = call("run", experiment, "--data", root, "--workers", 0)
    assert done.exit_code == 1
    assert "1 failed: DataError" in done.output
    assert "1 run failed" in done.stderr


def test_bad_calls(root, experiment, tmp_path):
    assert call("run").exit_code == 2
    assert call("run", experiment, "--features", "x.npz").exit_code == 2
    experiment.write_text("datasets = 3")
    wrong = call("run", experiment)
    assert wrong.exit_code == 1
    assert "datasets = 3 was given" in wrong.stderr
    missing = call("report", tmp_path / "none.jsonl", "--html", tmp_path)
    assert missing.exit_code == 1
    assert "gddsg bench run" in missing.stderr
    unknown = call("run", "--features", root / "circles_efficientnet-lite0.npz", "--learner", "magic")
    assert "There is no learner 'magic'" in unknown.stderr


def test_the_list(experiment, tmp_path):
    shown = call("list", tmp_path)
    assert "Shapes" in shown.output
    assert all(name in shown.output for name in LEARNERS)
    listed = json.loads(call("list", tmp_path, "--json").output)
    assert listed["experiments"][0]["runs"] == 2
    assert listed["learners"] == list(LEARNERS)
