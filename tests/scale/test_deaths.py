"""Whatever dies, no sample is lost and none counts twice."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.scale import drive
from tests.scale.conftest import ROOT
from tests.scale.samples import local_model, photo_folder

from gddsg.store import SharedModel


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return photo_folder(tmp_path_factory.mktemp("photos") / "p")


@pytest.fixture(scope="module")
def expected(folder, tmp_path_factory):
    model, _ = local_model(tmp_path_factory.mktemp("local") / "m.gddsg", folder)
    return {label: card.to_bytes() for label, card in model.cards.items()}


def cards(path):
    return {label: card.to_bytes() for label, card in SharedModel(path).read().cards.items()}


def started(module, *arguments):
    command = [sys.executable, "-m", f"tests.scale.{module}", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def processes_with(text):
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


def session_of(pid):
    """The folder that the Ray of a process is in."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode().split("\0")
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        inside = [word for word in words if "/session_" in word]
        if parent == str(pid) and inside:
            return inside[0].partition("=")[2].partition("/session_")[0] or inside[0].partition("/session_")[0]
    raise AssertionError("no Ray was started")


@pytest.mark.posix
def test_a_killed_run_goes_on_where_it_was(folder, expected, tmp_path, running_ray):
    path = tmp_path / "m.gddsg"
    with started("drive", path, folder) as run:
        assert any(int(line) >= 8 for line in run.stdout)
        session, end = session_of(run.pid), time.monotonic() + 60
        while not list(tmp_path.glob(".m.gddsg.checkpoints/*.part")) and time.monotonic() < end:
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)
    assert not path.exists()
    report = drive.main(path, folder)
    assert 0 < report.computed <= 27 - 8  # two units of four were stored
    assert report.learnt == {"blue": 9, "green": 9, "red": 9}
    assert cards(path) == expected
    assert [one.name for one in tmp_path.iterdir()] == ["m.gddsg"]
    end = time.monotonic() + 30
    while processes_with(session) and time.monotonic() < end:
        time.sleep(0.5)
    assert processes_with(session) == []  # of the killed one


@pytest.mark.slow
def test_a_node_that_goes_takes_nothing_along(folder, expected, tmp_path, worker_paths):
    path = tmp_path / "m.gddsg"
    with started("lose_node", path, folder) as run:
        said = run.communicate(timeout=180)[0].splitlines()  # Ray has its say, too, about the node
    assert run.returncode == 0
    assert said[-1] == "lost 1, learnt 27"
    assert cards(path) == expected
