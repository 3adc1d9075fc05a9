"""Runs that Ray does: the same records as in this process, whatever happens to its workers."""

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest
from tests.bench.test_runner import RANPAC, small, timeless
from typer.testing import CliRunner

from gddsg.bench import read_records, run_experiment
from gddsg.bench.datasets import locate
from gddsg.bench.on_ray import _done_there, _require_same_data, _threads, ray_executor
from gddsg.cli import app
from gddsg.errors import DataError, InputError, MissingExtraError

pytestmark = pytest.mark.xdist_group("ray")  # one of them at a time: each starts a Ray of its own

ODD = """
import os, sys
from pathlib import Path
import torch
from gddsg import SimpleCIL


class Interrupts(SimpleCIL):
    def predict(self, inputs):
        raise KeyboardInterrupt


class DiesOnce(SimpleCIL):
    def predict(self, inputs):
        mark = Path(__file__).with_name("died")
        if not mark.exists():
            mark.touch()
            os._exit(9)
        return super().predict(inputs)


class Dies(SimpleCIL):
    def predict(self, inputs):
        os._exit(9)


class Threads(SimpleCIL):
    def state_bytes(self):
        return 10**6 * torch.get_num_threads()
"""


@pytest.fixture
def odd_learners(tmp_path, monkeypatch):
    (tmp_path / "odd_on_ray.py").write_text(ODD)
    monkeypatch.syspath_prepend(tmp_path)


def _require_ray():
    """Skip without it; not by importing it, which is done in a certain way."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")


@pytest.fixture(scope="module")
def on_ray():
    _require_ray()
    with ray_executor(workers=2) as executor:
        yield executor


def test_records_are_those_of_this_process_in_the_same_order(root, tmp_path, on_ray):
    experiment = small(datasets=["circles", "squares"], learners=["simplecil", RANPAC])
    run_experiment(experiment, tmp_path / "here", root, workers=0)
    run_experiment(experiment, tmp_path / "ray", root, executor=on_ray)
    here, there = (list(map(timeless, read_records(tmp_path / name))) for name in ("here", "ray"))
    assert len(here) == 8
    assert here == there


def test_a_stop_goes_on_where_it_was(root, tmp_path, on_ray):
    out = tmp_path / "records.jsonl"

    def stop(done, _):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(small(orders=4), out, root, executor=on_ray, progress=stop)
    before = read_records(out)
    assert len(before) == 2
    report = run_experiment(small(orders=4), out, root, executor=on_ray)
    assert (report.runs, report.done_before, report.failed) == (4, 2, 0)
    after = {record.head.run: record for record in read_records(out)}
    assert len(after) == 4
    assert all(after[record.head.run] == record for record in before)


def test_workers_that_die_are_retried_and_stop_nobody_else(root, tmp_path, odd_learners, on_ray):
    out = tmp_path / "records.jsonl"
    learners = [*(f"odd_on_ray:{name}" for name in ("DiesOnce", "Dies", "Interrupts", "Threads")), "simplecil"]
    report = run_experiment(small(learners=learners, orders=1), out, root, executor=on_ray)
    once, always, interrupted, threads, fine = read_records(out)
    assert report.failed == 2
    assert (tmp_path / "died").exists()
    assert once.found.metrics["A_N"] == fine.found.metrics["A_N"]
    assert "died" in always.error
    assert interrupted.error == "KeyboardInterrupt: "
    assert threads.found.metrics["state_MB"] == 1.0  # two at a time on two cores, or one core


def test_ray_stays_on_this_machine_and_reports_to_nobody(on_ray):
    import ray

    assert ray.get_runtime_context().gcs_address.startswith("127.0.0.1:")
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert ray.cluster_resources()["CPU"] == len(os.sched_getaffinity(0))


def test_a_ray_that_was_there_is_used_and_left(on_ray):
    import ray

    before = ray.get_runtime_context().gcs_address
    with ray_executor("127.0.0.1:1"):
        pass
    assert ray.is_initialized()
    assert ray.get_runtime_context().gcs_address == before


CALL = """
import sys
from pathlib import Path
import ray
from gddsg.bench.on_ray import ray_executor

if __name__ == "__main__":
    with ray_executor():
        assert ray.is_initialized()
    assert not ray.is_initialized()
"""


@pytest.mark.slow
def test_what_was_started_is_ended_and_leaves_nothing(tmp_path, monkeypatch):
    _require_ray()
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    script = tmp_path / "call.py"
    script.write_text(CALL)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("cores", "at_once", "threads"),
    [([2], 2, 1), ([8], 2, 4), ([8, 8], 1, 8), ([16, 2], 3, 2), ([4], 100, 1), ([], 3, 1)],
)
def test_threads_are_a_share_of_the_cores_on_every_machine(cores, at_once, threads):
    assert _threads(cores, at_once) == threads


def test_other_data_or_none_where_a_job_runs_are_said_so(root, tmp_path):
    source = locate("circles", "efficientnet-lite0", root, tmp_path)
    _require_same_data(source)
    with pytest.raises(DataError, match=r"has the fingerprint [0-9a-f]{16}; expected 00, .* the same folder"):
        _require_same_data(replace(source, fingerprint="00"))
    with pytest.raises(DataError, match="the same folder"):
        _require_same_data(replace(source, path=tmp_path / "nothing.npz"))


def test_a_job_without_its_data_is_a_failed_record(root, tmp_path):
    def without_data(jobs):
        for job in jobs:
            yield _done_there(replace(job, source=replace(job.source, path=tmp_path / "nothing.npz")), 1, [])

    report = run_experiment(small(orders=1), tmp_path / "out", root, executor=without_data)
    (record,) = read_records(tmp_path / "out")
    assert report.failed == 1
    assert "the same folder" in record.error


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_an_address_where_nobody_is_is_said_at_once(address):
    _require_ray()
    with pytest.raises(InputError, match=rf"no Ray cluster at {address} \(Connection refused\)"), _unused(address):
        pass


@pytest.mark.parametrize("address", ["nowhere", "host:port", "host:0", ":1", "http://host:1/x", "1:99999"])
def test_what_is_no_address_is_said_so(address):
    _require_ray()
    with pytest.raises(InputError, match=r"expected host:port, ray://host:port or auto"), _unused(address):
        pass


def _unused(address):
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()  # whatever another test has left: one that is there would be used
    return ray_executor(address)


def test_without_ray_it_is_said_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"gddsg\[ray\]"), ray_executor():
        pass


def test_the_command_line_takes_an_engine(root, tmp_path, monkeypatch):
    def ran(*arguments):
        features, out = str(root / "circles_efficientnet-lite0.npz"), tmp_path / "out"
        command = ["bench", "run", "--features", features, "--learner", "simplecil", "--out", str(out)]
        return CliRunner().invoke(app, [*command, "--engine", "ray", *arguments])

    monkeypatch.setitem(sys.modules, "ray", None)
    missing, none = ran(), ran("--workers", "0")
    assert (missing.exit_code, none.exit_code) == (1, 2)
    assert "gddsg[ray]" in missing.output
    assert "--workers 0 does all runs" in none.output
    assert not (tmp_path / "out").exists()
