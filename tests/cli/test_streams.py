"""Output that cannot be written: no failure of a command whose work is done, one line of error for the others."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.photos.tiny_backbone import Means
from typer.main import get_command

from gddsg import GDDSG
from gddsg.cli import app
from gddsg.store import read_model

COMMAND = (sys.executable, "-m", "gddsg")
STRANGE = "naïve 日本"


@pytest.fixture
def model(tmp_path):
    features = np.random.default_rng(0).random((30, 8)).astype(np.float32)
    path = tmp_path / "m.gddsg"
    GDDSG(projection_dim=16).fit(features, np.repeat(["a", "b", "c"], 10)).save(path)
    return path


# As typed.


def typed(*arguments, redirect="", **options):
    """The command, run by a shell that has closed or redirected streams."""
    script = ("sh", "-c", f'exec "$@" {redirect}', "sh")
    return subprocess.run(
        [*script, *COMMAND, *map(str, arguments)], **{"stderr": subprocess.PIPE, "text": True, "check": False} | options
    )


@contextmanager
def pipe_without_reader():
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def test_a_change_that_is_made_is_no_failure_on_a_full_device(model):
    done = typed("rename", model, "a", STRANGE, redirect=">/dev/full")
    assert done.returncode == 0
    assert done.stderr == "Done, but standard output cannot be written to (No space left on device).\n"
    assert STRANGE in read_model(model).labels
    assert typed("rename", model, STRANGE, "a", redirect=">/dev/full 2>/dev/full").returncode == 0


@pytest.mark.parametrize("redirect", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(model, redirect):
    done = typed("forget", model, "b", redirect=redirect)
    assert done.returncode == 0, done.stderr
    assert done.stderr == (
        "" if "2" in redirect else "Done, but standard output cannot be written to (it is closed).\n"
    )
    assert list(read_model(model).labels) == ["a", "c"]


def test_no_reader(model):
    with pipe_without_reader() as writer:
        changed = typed("forget", model, "b", stdout=writer)
        assert (changed.returncode, changed.stderr) == (0, "")
        answer = typed("inspect", model, stdout=writer)
        assert (answer.returncode, answer.stderr) == (1, "")
        assert typed("inspect", model, stdout=writer, stderr=writer).returncode == 1


def test_an_encoding_that_cannot_show_a_name(model):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = typed("rename", model, "a", STRANGE, stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "a is now called na\\xefve \\u65e5\\u672c.\n"
    found = typed("inspect", model, "--json", stdout=subprocess.PIPE, env=environment)
    assert found.stdout.isascii()
    assert STRANGE in [row["label"] for row in json.loads(found.stdout)["class_table"]]


@pytest.mark.parametrize("redirect", [">/dev/full", ">&-"])
def test_an_answer_that_cannot_be_written_is_one_line_of_error(redirect):
    done = typed("--version", redirect=redirect)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: Standard output cannot be written to (")
    assert done.stderr.count("\n") == 1
    assert typed("--help", redirect=redirect).returncode == 1


def test_a_descriptor_that_was_closed_is_not_given_to_a_file(tmp_path):
    """Else what a library prints would be written into a model."""
    script = (
        "import os, sys; from gddsg.cli.streams import steady_streams\n"
        f"with steady_streams(): file = open({str(tmp_path / 'file')!r}, 'w'); sys.exit(file.fileno() < 3)"
    )
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", script]
    assert subprocess.run(command, check=False).returncode == 0


# All commands, within this process.


@pytest.fixture
def photos(tmp_path, monkeypatch, own_cache):
    backbone = Means()
    monkeypatch.setattr("gddsg.photos.model_backbone.load_backbone", lambda *_, **__: backbone)
    for seed, name in enumerate(("red", "green")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(2):
            pixels = np.random.default_rng([seed, number]).integers(100 * seed, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def code(*arguments):
    """Exit code of a command whose output goes to a full device."""
    with Path("/dev/full").open("w") as full, redirect_stdout(full), pytest.raises(SystemExit) as end:
        get_command(app).main([str(argument) for argument in arguments], prog_name="gddsg")
    return end.value.code or 0


def test_work_that_is_done_stays_done(capsys, photos, model, tmp_path, monkeypatch):
    first, second, merged, network = (tmp_path / name for name in ("1.gddsg", "2.gddsg", "merged.gddsg", "m.onnx"))
    assert code("learn", first, photos / "red", "--projection-dim", 16) == 0
    assert code("learn", second, photos / "green", "--projection-dim", 16, "--json") == 0
    assert code("merge", first, second, "--into", merged) == 0
    assert code("rename", merged, "red", "rouge") == 0
    assert code("forget", merged, "green") == 0
    assert list(read_model(merged).labels) == ["rouge"]
    assert code("export", model, "--onnx", network) == 0
    assert network.exists()
    monkeypatch.setattr("gddsg.demo.run", lambda folder, console: console.print("What the demonstration says"))
    assert code("demo") == 0
    assert code("cache", "--clear") == 0
    assert capsys.readouterr().err.count("Done, but standard output cannot be written to (No space left") == 8


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_answer_that_is_lost_is_an_error(capsys, photos, tmp_path, form):
    model = tmp_path / "new.gddsg"
    code("learn", model, photos, "--projection-dim", 16)
    capsys.readouterr()
    for arguments in (("predict", model, photos), ("evaluate", model, photos), ("inspect", model), ("cache",)):
        assert code(*arguments, *form) == 1
        error = capsys.readouterr().err
        *warnings, last = error.splitlines()
        assert last.startswith("Error: Standard output cannot be written to (No space left on device).")
        assert len(warnings) == (arguments[0] == "evaluate" and not form)  # that all of these photos were learnt
    assert code("predict", model, photos, "--csv") == 1


def test_other_failures_keep_their_exit_codes(capsys, model):
    assert code("forget", model, "nobody") == 1
    assert code("inspect", model, "--nothing") == 2
    assert "standard output" not in capsys.readouterr().err
