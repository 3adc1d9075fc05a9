"""Nothing leaves the machine, and nothing is left in the user's home but our own cache."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gddsg.core.model import Model, Settings
from gddsg.data.glyphs import write_glyphs
from gddsg.onnx_runtime import open_session
from gddsg.store import write_model

SOURCE = Path(__file__).parents[1] / "src"
# An audit hook sees what Python does, and nothing can take it away again: hence a process of its own.
WATCHED = """
import sys
def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg"):
        if not str(args[-1] if event == "socket.connect" else args[0]).startswith("/"):
            print("WATCHED", event, args[1:], file=sys.stderr)
sys.addaudithook(watch)
sys.argv[0] = "gddsg"
from gddsg.cli import app
app()
"""
TRACED = "trace=connect,sendto,sendmsg,sendmmsg,openat"
COMMANDS = {
    "learn": ["learn", "m.gddsg", "photos/train"],
    "predict": ["predict", "m.gddsg", "photos/test", "--json"],
    "export": ["export", "m.gddsg", "--onnx", "m.onnx"],
    "inspect": ["inspect", "m.gddsg"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory, shared_cache):
    """A user who has nothing yet: an empty home, some photos."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "home").mkdir()
    write_glyphs(folder / "photos", n_train=3, n_test=1, classes=["digit 1", "digit 2"])
    return folder


def environment(place):
    """As a user has it: no variable of ours, of the tests or of a telemetry."""
    dropped = re.compile(r"XDG_|GDDSG_|ORT_|HF_|MPL|DO_NOT_TRACK|DISABLE_TELEMETRY")
    kept = {key: value for key, value in os.environ.items() if not dropped.match(key)}
    return {**kept, "HOME": str(place / "home"), "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}


def run(place, *command):
    done = subprocess.run(command, cwd=place, env=environment(place), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def runs(place):
    """Every command in its turn, watched by an audit hook, and by strace where there is one."""
    strace = shutil.which("strace")
    found = {}
    for name, arguments in COMMANDS.items():
        trace = place / f"{name}.trace"
        calls = (
            [strace, "-f", "--seccomp-bpf", "-o", str(trace), "-e", "trace=connect,sendto,sendmsg,sendmmsg"]
            if strace
            else []
        )
        done = run(place, *calls, sys.executable, "-c", WATCHED, *arguments)
        found[name] = (done.stderr, trace.read_text() if strace else None)
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_python_connects_to_nothing(runs, name):
    assert "WATCHED" not in runs[name][0]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_library_connects_to_the_internet(runs, name):
    trace = runs[name][1]
    if trace is None:
        pytest.skip("strace is not installed; install it to see what compiled libraries do")
    assert "exited with" in trace  # it has watched something
    assert "resolv.conf" not in trace  # which is read to look a name up
    addresses = [line for line in trace.splitlines() if "AF_INET" in line]
    assert [line for line in addresses if "127.0.0.1" not in line and '"::1"' not in line] == []


def test_only_our_cache_appears_in_the_home_folder(runs, place):
    home = place / "home"
    files = {path.relative_to(home) for path in home.rglob("*") if path.is_file()}
    ours = Path("Library/Caches/gddsg" if sys.platform == "darwin" else ".cache/gddsg")
    assert {path for path in files if ours not in path.parents} == set()
    assert {path.name for path in files} >= {"features-2.sqlite"}


def test_the_watching_sees_connections(place):
    script = WATCHED.replace("from gddsg.cli import app\napp()", "import socket; socket.getaddrinfo('localhost', 1)")
    assert "WATCHED socket.getaddrinfo" in run(place, sys.executable, "-c", script).stderr


def test_a_model_of_a_stranger_makes_no_request(place):
    """Its backbone is named by the file alone: it is refused, and nobody is asked for it."""
    model = Model(Settings(projection_dim=16, backbone="hf:nowhere/x@0123456789abcdef"))
    rows = torch.rand(8, 12, generator=torch.Generator().manual_seed(0))
    write_model(place / "stranger.gddsg", model.plus(model.make_cards(rows, ["a"] * 4 + ["b"] * 4)))
    command = [sys.executable, "-c", WATCHED, "predict", "stranger.gddsg", "photos/test"]
    done = subprocess.run(command, cwd=place, env=environment(place), capture_output=True, text=True)
    assert done.returncode not in (0, None)
    assert "hf:nowhere/x" in done.stderr
    assert "Traceback" not in done.stderr
    assert "WATCHED" not in done.stderr


def test_onnx_runtime_is_imported_in_one_place():
    """Which is where its telemetry is switched off."""
    importing = re.compile(r"^\s*(import|from) onnxruntime\b", re.MULTILINE)
    assert [path.name for path in SOURCE.rglob("*.py") if importing.search(path.read_text())] == ["onnx_runtime.py"]


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("", "1"), ("0", "0"), ("1", "1")])
def test_who_has_decided_about_telemetry_himself_is_obeyed(monkeypatch, before, after):
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", before or "")
    if before is None:
        monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    with pytest.raises(ValueError, match="cannot run this network"):
        open_session(b"no network")
    assert os.environ["ORT_DISABLE_TELEMETRY"] == after
