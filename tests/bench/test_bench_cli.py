"""``gddsg bench`` as people type it."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from gddsg import LEARNERS
from gddsg.bench import read_records
from gddsg.cli import app

if os.name == "posix":
    import pty


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
    assert list(records.parent.iterdir()) == [records]  # no lock file is left

    written = call("report", records, "--html", tmp_path / "page")
    assert written.exit_code == 0, written.output
    assert f"{mean:.2f}" in (tmp_path / "page" / "report.md").read_text(encoding="utf-8")
    assert f"{mean:.2f}" in (tmp_path / "page" / "report.html").read_text(encoding="utf-8")


def test_backbones_have_rows_of_their_own(root, experiment, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for name in ("lite0", "lite1"):
        shutil.copy(root / "circles_efficientnet-lite0.npz", data / f"circles_efficientnet-{name}.npz")
    experiment.write_text(experiment.read_text() + 'backbones = ["efficientnet-lite0", "efficientnet-lite1"]\n')
    done = call("run", experiment, "--data", data, "--workers", 0)
    rows = [line for line in done.output.splitlines() if line.startswith("circles")]
    assert [row.split()[:4] for row in rows] == [
        ["circles,", f"efficientnet-{name}", "simplecil", "2"] for name in ("lite0", "lite1")
    ]


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


def test_a_part_of_an_experiment(root, experiment, tmp_path):
    experiment.write_text(
        'datasets = ["circles", "squares"]\nlearners = ["simplecil", { name = "slda, by name", method = "slda" }]\n'
        "tasks = 3\n"
    )
    common = ("run", experiment, "--data", root, "--workers", 0)
    done = call(*common, "--datasets", "squares", "--learners", "simplecil,slda, by name")
    assert done.exit_code == 0, done.output
    assert "shapes: 2 runs;" in done.output
    assert "1 run;" in call(*common, "--datasets", "circles", "--learners", "slda, by name").output
    assert "shapes: 4 runs, 3 of them before;" in call(*common).output
    unknown = call(*common, "--learners", "magic")
    assert unknown.exit_code == 1
    assert "There is no learner 'magic' in shapes; those are 'simplecil', 'slda, by name'" in unknown.stderr
    assert call("run", "--features", "x.npz", "--datasets", "squares").exit_code == 2


def test_means_are_over_orders_and_not_over_seeds(root, experiment, tmp_path):
    experiment.write_text(
        'datasets = ["circles"]\ntasks = 3\norders = 2\nseeds = 3\n'
        'learners = [{ name = "ranpac", parameters = { projection_dim = 32 } }]\n'
    )
    done = call("run", experiment, "--data", root, "--workers", 0)
    (row,) = (line for line in done.output.splitlines() if line.startswith("circles"))
    records = read_records(tmp_path / "records" / "shapes.jsonl")
    finals = [record.found.metrics["A_N"] for record in records if record.head.seed == 0]
    assert (len(records), len(finals)) == (4, 2)
    assert row.split()[2:4] == ["2", f"{sum(finals) / 2:.2f}"]


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


def test_what_cannot_be_printed_fails_no_run(root, experiment, tmp_path, capsys):
    records = tmp_path / "records" / "shapes.jsonl"
    for arguments, code in [
        (("run", experiment, "--data", root, "--workers", 0), 0),
        (("report", records, "--html", tmp_path / "page"), 0),
        (("list", tmp_path), 1),
        (("list", tmp_path, "--json"), 1),
    ]:
        with Path("/dev/full").open("w") as full, redirect_stdout(full), pytest.raises(SystemExit) as end:
            get_command(app).main(["bench", *map(str, arguments)], prog_name="gddsg")
        assert (end.value.code or 0) == code
        error = capsys.readouterr().err
        assert error.startswith("Error: Standard output" if code else "Done, but standard output")
        assert error.count("\n") == 1
    assert len(read_records(records)) == 2
    assert (tmp_path / "page" / "report.html").exists()


def test_trouble_with_files_is_one_message(root, experiment, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for arguments in (
        ("run", experiment, "--data", root, "--out", tmp_path / "file" / "records.jsonl", "--workers", 0),
        ("run", tmp_path, "--data", root),
        ("run", tmp_path / "none\x1b[2J.toml"),
        ("report", experiment, "--html", tmp_path / "file" / "page"),
    ):
        done = call(*arguments)
        assert done.exit_code == 1
        assert done.stderr.startswith("Error: "), done.exception
        assert "\x1b" not in done.output


@pytest.mark.posix
def test_names_of_experiments_are_data(root, tmp_path):
    """On a terminal, where they stand in the progress bar as well."""
    name = "w\\[∕b][red]\x1b]0;t\x07:smile:"
    experiment = tmp_path / f"{name}.toml"
    title = json.dumps("[/b]\u202e\x9b2J")
    experiment.write_text(f'title = {title}\ndatasets = ["circles"]\nlearners = ["simplecil"]\ntasks = 3\n')
    shown = call("list", tmp_path)
    assert shown.exit_code == 0, shown.output
    assert "[/b]\\u202e\\x9b2J" in shown.output
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "gddsg", "bench", "run", experiment, "--data", root, "--workers", "0"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(command, stdout=follower, stderr=follower, stdin=follower, env=environment) as process:
        os.close(follower)
        output = _everything(leader)
    assert process.returncode == 0, output
    assert "Running w\\[∕b][red]\\x1b]0;t\\x07:smile:" in output
    assert "w\\[∕b][red]\\x1b]0;t\\x07:smile:: 1 run" in output
    assert "\x1b]0;t" not in output


def _everything(terminal):
    """What was printed on a terminal until the last program that holds it has ended."""
    parts = []
    try:
        while part := os.read(terminal, 4096):
            parts.append(part)
    except OSError:  # this is how a terminal says that it is over
        pass
    finally:
        os.close(terminal)
    return b"".join(parts).decode()
