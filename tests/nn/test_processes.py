"""Two processes that train together end where one ends alone, and both in the same place; none waits for ever."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.nn.toy_training import near, trained

from gddsg.errors import MissingExtraError
from gddsg.nn.processes import Processes, processes

ROOT = Path(__file__).parents[2]
INSTALLED = importlib.util.find_spec("accelerate") is not None
TOGETHER = pytest.mark.skipif(not INSTALLED, reason="accelerate, by which processes find each other, is not installed")

TRAIN = """
import json, sys
import torch
from tests.nn.toy_training import trained
from gddsg.errors import TrainingError
from gddsg.nn.checkpoint import Checkpoint
from gddsg.nn.processes import processes
from gddsg.nn.training import watching

how, folder = json.loads(sys.argv[1]), sys.argv[2]
place, told = processes().place, []
stopped, astray = how.pop("stopped", None), how.pop("astray", False)

def watch(progress):
    told.append((progress.epoch, progress.loss))
    if progress.step == stopped:
        raise KeyboardInterrupt

def loss(toy, batch):
    found = toy.loss(batch)
    return found * float("nan") if astray and 0 in batch.rows else found

end = ""
try:
    with watching(watch):
        toy = trained(checkpoint=Checkpoint(folder + "/kept"), loss=loss, **how)
    torch.save({"parameters": toy.values(), "rows": toy.rows, "told": told}, f"{folder}/{place}")
except (KeyboardInterrupt, TrainingError) as error:
    end = type(error).__name__
print(end)
torch.distributed.destroy_process_group()
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def together(folder, count=2, **how):
    """How each of so many processes ends."""
    shared = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "OMP_NUM_THREADS": "1",
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TRAIN, json.dumps(how), str(folder)],
            env={**shared, "RANK": str(place), "LOCAL_RANK": str(place)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for place in range(count)
    ]
    ends = []
    try:
        for process in started:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            ends.append(out.strip())
    finally:
        for process in started:
            process.kill()
    return ends


def ends_of(folder, count=2):
    return [torch.load(folder / str(place), weights_only=True) for place in range(count)]


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


class Ended:
    def __init__(self, found):
        self.values = lambda: found["parameters"]


@pytest.mark.slow
@TOGETHER
@pytest.mark.parametrize("how", [{}, {"augment": True, "accumulate": 2, "optimiser": "adam", "rate": 0.01}])
def test_two_processes_end_where_one_does(tmp_path, how):
    assert together(tmp_path, **how) == ["", ""]
    one, other = ends_of(tmp_path)
    assert equal(one["parameters"], other["parameters"])
    assert near(Ended(one), trained(**how), within=1e-4)
    assert one["told"] == other["told"]
    seen = [sorted(row for part in found["rows"] for row in part) for found in (one, other)]
    assert sorted(seen[0] + seen[1]) == sorted(list(range(21)) * 4)  # each sample by one of them, once an epoch


@pytest.mark.slow
@TOGETHER
def test_a_batch_of_fewer_samples_than_processes_is_trained_on(tmp_path):
    assert together(tmp_path, batch_size=20) == ["", ""]  # the last batch of 21 is one sample
    one, other = ends_of(tmp_path)
    assert equal(one["parameters"], other["parameters"])
    assert near(Ended(one), trained(batch_size=20), within=1e-4)


@pytest.mark.slow
@TOGETHER
def test_what_goes_astray_in_one_ends_all(tmp_path):
    assert together(tmp_path, astray=True) == ["TrainingError"] * 2


@pytest.mark.slow
@TOGETHER
def test_both_go_on_from_what_the_first_has_written(tmp_path):
    assert together(tmp_path, stopped=8) == ["KeyboardInterrupt"] * 2
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert together(tmp_path) == ["", ""]
    one, other = ends_of(tmp_path)
    assert [epoch for epoch, _ in one["told"]] == [3, 3, 3, 4, 4, 4]
    assert equal(one["parameters"], other["parameters"])
    assert near(Ended(one), trained(), within=1e-4)


def test_shares_are_all_of_a_batch_and_each_sample_is_in_one():
    team = Processes()
    for count in (1, 2, 3, 7):
        for n in (1, 2, 5, 16):
            shares = []
            for place in range(count):
                team.count, team.place = count, place
                shares.append(list(range(n))[team.share(n)])
            assert sum(map(len, shares)) == n
            assert [row for share in shares for row in share] == list(range(n))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.skipif(INSTALLED, reason="accelerate is installed")
def test_several_processes_without_accelerate_are_told_what_to_install(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(MissingExtraError, match=r"WORLD_SIZE=2 .* pip install accelerate"):
        processes()


@pytest.mark.parametrize("size", [None, "", "0", "1"])
def test_one_process_needs_nobody(monkeypatch, size):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if size is not None:
        monkeypatch.setenv("WORLD_SIZE", size)
    assert type(processes()) is Processes
