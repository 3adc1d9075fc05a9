"""The runner: records, resumption after kills, and failures that stop nobody else."""

import errno
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gddsg import SimpleCIL
from gddsg.bench import experiment_from, read_records, run_experiment
from gddsg.bench.datasets import FeatureSource, locate
from gddsg.bench.execution import run_id
from gddsg.bench.experiment import part_of, planned_runs
from gddsg.bench.findings import StreamFindings
from gddsg.data import feature_file, write_feature_file
from gddsg.errors import DataError
from gddsg.evaluation import average_accuracy, forgetting
from gddsg.evaluation.protocol import ORACLE_GROUP, RELEASED

TIMES = ("seconds_learning", "seconds_predicting", "state_MB")


RANPAC = {"name": "ranpac", "parameters": {"projection_dim": 32}}


def timeless(record):
    """All of a record that two runs have in common."""
    if not isinstance(record.found, StreamFindings):
        return record
    metrics = {key: value for key, value in record.found.metrics.items() if key not in TIMES}
    return replace(record, found=replace(record.found, metrics=metrics, seconds_per_task=(), state_megabytes=()))


def small(**changes):
    table = {"datasets": ["circles"], "learners": ["simplecil"], "tasks": 3, "orders": 2, **changes}
    return experiment_from("small", table)


def test_a_record_says_what_was_run_and_what_came_out(root, tmp_path):
    out = tmp_path / "records.jsonl"
    report = run_experiment(small(), out, root, workers=0)
    assert (report.runs, report.done_before, report.failed) == (2, 0, 0)
    first, second = read_records(out)
    assert (first.head.learner, first.head.dataset) == ("simplecil", "circles")
    assert first.head.backbone == "efficientnet-lite0"
    assert (first.head.order, second.head.order) == ("seed 1993", "seed 2024")
    assert (first.head.protocol, first.head.leaks, first.head.exemplar_free, first.head.incremental) == (
        "honest",
        "",
        True,
        True,
    )
    assert first.found.sizes == (4, 4, 4)
    assert first.found.class_order == tuple(f"c{c:02d}" for c in np.random.RandomState(1993).permutation(12))
    assert {"python", "gddsg", "torch", "numpy"} <= set(first.head.versions)
    assert first.head.data_fingerprint == second.head.data_fingerprint
    assert first.head.run != second.head.run

    data = feature_file(root / "circles_efficientnet-lite0.npz")
    learner = SimpleCIL().fit(data.train_features, data.train_labels)
    expected = 100 * average_accuracy(data.test_labels, learner.predict(data.test_features))
    assert first.found.metrics["A_N"] == pytest.approx(expected, abs=1e-3) == second.found.metrics["A_N"]
    table = np.full((3, 12), np.nan)
    for row, accuracies in zip(table, first.found.class_accuracies, strict=True):
        row[: len(accuracies)] = np.array(accuracies) / 100
    assert [len(row) for row in first.found.class_accuracies] == [4, 8, 12]
    assert first.found.metrics["F_N"] == pytest.approx(100 * forgetting(table), abs=0.01)
    assert first.found.metrics["AIA"] == pytest.approx(100 * np.mean([np.nanmean(row) for row in table]), abs=0.01)
    assert all(0 <= first.found.metrics[name] <= 100 for name in ("A_N", "AIA"))
    assert "ECE" not in first.found.metrics  # a cosine is no probability
    assert len(first.found.seconds_per_task) == len(first.found.state_megabytes) == 3


def test_what_is_done_is_not_done_again(root, tmp_path):
    out = tmp_path / "records.jsonl"
    run_experiment(small(orders=1), out, root, workers=0)
    before = read_records(out)
    report = run_experiment(small(orders=2), out, root, workers=0)
    assert (report.runs, report.done_before) == (2, 1)
    assert read_records(out)[0] == before[0]
    assert run_experiment(small(orders=2), out, root, workers=0, fresh=True).done_before == 0


def test_other_data_or_other_parameters_are_another_run(root, tmp_path):
    out = tmp_path / "records.jsonl"
    run_experiment(small(datasets=["circles", "squares"], orders=1), out, root, workers=0)
    run_experiment(small(orders=1, tasks=4), out, root, workers=0)
    run_experiment(small(orders=1, learners=[RANPAC]), out, root, workers=0)
    assert len({record.head.run for record in read_records(out)}) == 4


def test_ids_of_runs_that_were_recorded_hold():
    """Whoever adds a key to experiments must not make everything run again; this id is one of a stored record."""
    experiment = experiment_from("ablation", {"datasets": ["cifar100"], "learners": ["gddsg"], "orders": [1993]})
    source = FeatureSource("cifar100", "efficientnet-lite0", Path(), "53e17cbb98be85d9")
    assert [run_id(run, source) for run in planned_runs(experiment)] == ["72becdc71f98ce42"]


def test_plans_do_not_change_ids(root, tmp_path):
    """Runs that other seeds or orders are added to, or taken from, are the same runs."""
    source = FeatureSource("circles", "efficientnet-lite0", Path(), "0")
    ids = [
        {run_id(run, source) for run in planned_runs(small(learners=[{**RANPAC, **more}]))}
        for more in ({}, {"seeds": 3}, {"orders_once": True}, {"seeds": [0, 9], "orders_once": True})
    ]
    assert [len(found) for found in ids] == [2, 4, 1, 2]
    assert ids[0] < ids[1]
    assert ids[2] == ids[0] & ids[3]


def test_seeds_are_those_of_the_learner(root, tmp_path):
    out = tmp_path / "records.jsonl"
    run_experiment(small(learners=[RANPAC, "simplecil"], seeds=3), out, root, workers=0)
    heads = [(record.head.learner, record.head.order, record.head.seed) for record in read_records(out)]
    orders = ("seed 1993", "seed 2024")
    assert heads == [
        *(("ranpac", order, 0) for order in orders),
        *(("ranpac", "seed 1993", seed) for seed in (1, 2)),
        *(("simplecil", order, 0) for order in orders),
    ]
    finals = [record.found.class_accuracies[-1] for record in read_records(out) if record.head.order == "seed 1993"]
    assert len(set(finals[:3])) > 1


def test_one_order_is_noted_in_the_record_and_needs_no_run_to_be_noted(root, tmp_path):
    out = tmp_path / "records.jsonl"
    run_experiment(small(), out, root, workers=0)
    assert not any(record.head.order_invariant for record in read_records(out))
    report = run_experiment(small(learners=[{"name": "simplecil", "orders_once": True}]), out, root, workers=0)
    assert (report.runs, report.done_before) == (1, 1)
    assert {record.head.order: record.head.order_invariant for record in read_records(out)} == {
        "seed 2024": False,
        "seed 1993": True,
    }
    run_experiment(small(), out, root, workers=0)
    assert not any(record.head.order_invariant for record in read_records(out))


def test_parts_give_the_lines_of_the_whole_in_any_order(root, tmp_path):
    experiment = small(datasets=["circles", "squares"], learners=["simplecil", RANPAC], seeds=2)
    run_experiment(experiment, tmp_path / "whole", root, workers=0)
    out = tmp_path / "parts"
    other = experiment_from("other", {"datasets": ["circles"], "learners": ["simplecil"], "tasks": 3})
    run_experiment(other, out, root, workers=0)
    for datasets, learners, runs in ((["squares"], ["ranpac"], 3), ([], ["simplecil"], 4), (["circles"], [], 5)):
        part = part_of(experiment, datasets, learners)
        report = run_experiment(experiment, out, root, workers=0, part=part)
        assert report.runs == runs
    again = run_experiment(experiment, out, root, workers=0, part=part_of(experiment, ["squares"]))
    assert again.runs == again.done_before == 5
    first, *others = read_records(out)
    assert first.head.experiment == "other"
    assert list(map(timeless, others)) == list(map(timeless, read_records(tmp_path / "whole")))


def test_a_part_leaves_data_and_failures_of_other_parts_alone(root, tmp_path, monkeypatch):
    broken = {"name": "broken", "method": "gddsg", "parameters": {"rank": -1}}
    experiment = small(datasets=["triangles", "circles"], learners=[broken, "simplecil"], orders=1)
    out = tmp_path / "records.jsonl"
    assert run_experiment(experiment, out, root, workers=0).failed == 3
    before = read_records(out)
    assert [(record.head.dataset, bool(record.error)) for record in before] == [
        *[("triangles", True)] * 2,
        ("circles", True),
        ("circles", False),
    ]
    part = part_of(experiment, ["circles"], ["simplecil"])
    asked = []
    monkeypatch.setattr(
        "gddsg.bench.runner.locate", lambda dataset, *rest: asked.append(dataset) or locate(dataset, *rest)
    )
    report = run_experiment(experiment, out, root, workers=0, part=part, fresh=True)
    assert (report.runs, report.done_before, report.failed) == (1, 0, 0)
    assert asked == ["circles"]
    assert list(map(timeless, read_records(out))) == list(map(timeless, before))


def test_more_orders_of_one_learner_leave_the_others_done(root, tmp_path):
    out = tmp_path / "records.jsonl"
    run_experiment(small(learners=[{"name": "simplecil", "orders": 1}]), out, root, workers=0)
    report = run_experiment(small(learners=[{"name": "simplecil", "orders": 3, "tasks": 3}]), out, root, workers=0)
    assert (report.runs, report.done_before) == (3, 1)


def test_several_processes_give_the_same_records_in_the_same_order(root, tmp_path):
    experiment = small(datasets=["circles", "squares"], learners=["simplecil", RANPAC], orders=2)
    for name, workers in (("one", 0), ("two", 2)):
        run_experiment(experiment, tmp_path / name, root, workers=workers)
    one, two = (list(map(timeless, read_records(tmp_path / name))) for name in ("one", "two"))
    assert one == two
    assert len(one) == 8


def test_whoever_stops_early_has_every_learner_in_its_first_order(root, tmp_path):
    experiment = small(datasets=["circles", "squares"], learners=["simplecil", RANPAC], orders=3, seeds=2)
    out, done = tmp_path / "records.jsonl", []

    def stop(runs, _):
        done.append(runs)
        if runs == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, out, root, workers=0, progress=stop)
    heads = [record.head for record in read_records(out)]
    assert [(head.dataset, head.learner) for head in heads] == [
        (dataset, learner) for dataset in ("circles", "squares") for learner in ("simplecil", "ranpac")
    ]
    assert {head.order for head in heads} == {"seed 1993"}
    run_experiment(experiment, out, root, workers=0)
    lines = [(record.head.dataset, record.head.learner) for record in read_records(out)]
    assert lines == sorted(lines, key=lambda line: (line[0], line[1] != "simplecil"))  # as the experiment has them


def test_a_line_cut_off_by_a_kill_is_run_again(root, tmp_path):
    out = tmp_path / "records.jsonl"
    run_experiment(small(), out, root, workers=0)
    whole = list(map(timeless, read_records(out)))
    out.write_bytes(out.read_bytes()[:-100])
    assert len(read_records(out)) == 1
    assert run_experiment(small(), out, root, workers=0).done_before == 1
    assert list(map(timeless, read_records(out))) == whole


def test_foreign_files_are_refused_and_left_alone(root, tmp_path):
    out = tmp_path / "notes.txt"
    for content in ("my thesis\nchapter 1\n", '{"a": 1}\n', "[1, 2]\n"):
        out.write_text(content)
        for fresh in (False, True):
            with pytest.raises(DataError, match="Line 1"):
                run_experiment(small(), out, root, workers=0, fresh=fresh)
        assert out.read_text() == content


def test_a_fresh_run_leaves_the_records_of_other_experiments(root, tmp_path):
    out = tmp_path / "records.jsonl"
    run_experiment(small(orders=1, tasks=4), out, root, workers=0)
    (other,) = read_records(out)
    run_experiment(small(orders=1), out, root, workers=0)
    assert run_experiment(small(orders=1), out, root, workers=0, fresh=True).done_before == 0
    assert read_records(out)[0] == other
    assert len(read_records(out)) == 2


def test_failures_of_other_experiments_stay_and_own_ones_are_tried_again(root, tmp_path):
    out = tmp_path / "records.jsonl"
    broken = {"name": "broken", "method": "gddsg", "parameters": {"rank": -1}}
    table = {"datasets": ["circles", "triangles"], "learners": [broken], "tasks": 3}
    assert run_experiment(experiment_from("other", table), out, root, workers=0).failed == 2
    others = read_records(out)
    assert all(record.error for record in others)

    mixed = small(learners=[broken, "simplecil"], orders=1)
    assert run_experiment(mixed, out, root, workers=0).failed == 1
    assert read_records(out)[:2] == others
    again = run_experiment(mixed, out, root, workers=0)
    assert (again.runs, again.done_before, again.failed) == (2, 1, 1)
    assert read_records(out)[:2] == others
    assert [bool(record.error) for record in read_records(out)] == [True, True, True, False]

    mended = {"datasets": ["circles", "squares"], "learners": ["simplecil"], "tasks": 3}
    assert run_experiment(experiment_from("other", mended), out, root, workers=0).failed == 0
    assert [record.head.experiment for record in read_records(out) if record.error] == ["small"]


def test_a_disk_that_is_full_is_said_so(root, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out = tmp_path / "records.jsonl"
    run_experiment(small(orders=1), out, root, workers=0)
    before = out.read_bytes()
    monkeypatch.setattr("gddsg.files.os.fsync", full)
    with pytest.raises(DataError, match="No space left"):
        run_experiment(small(orders=2), out, root, workers=0)
    assert out.read_bytes().startswith(before)


def test_a_metric_that_is_not_defined_is_left_out(root, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "gddsg.bench.execution.closing_metrics", lambda *_: {"accuracy_in_group": float("nan"), "ECE": 0.1}
    )
    out = tmp_path / "records.jsonl"
    assert run_experiment(small(orders=1), out, root, workers=0).failed == 0
    (record,) = read_records(out)
    assert "accuracy_in_group" not in record.found.metrics
    assert record.found.metrics["ECE"] == 10.0


def test_a_metric_that_no_record_can_hold_is_a_failure(root, tmp_path, monkeypatch):
    monkeypatch.setattr("gddsg.bench.execution.closing_metrics", lambda *_: {"mine": float("inf")})
    out = tmp_path / "records.jsonl"
    assert run_experiment(small(orders=1), out, root, workers=0).failed == 1
    (record,) = read_records(out)
    assert record.error.startswith("ValueError")


def test_a_learner_that_raises_stops_nobody_else(root, tmp_path):
    learners = [{"name": "broken", "method": "gddsg", "parameters": {"rank": -1}}, "simplecil"]
    out = tmp_path / "records.jsonl"
    report = run_experiment(small(learners=learners, orders=1), out, root, workers=0)
    assert (report.runs, report.failed) == (2, 1)
    broken, fine = read_records(out)
    assert broken.error.startswith("InputError: rank=-1")
    assert broken.found is None
    assert fine.found.metrics["A_N"] > 50
    assert run_experiment(small(learners=learners, orders=1), out, root, workers=0).failed == 1  # tried again


ODD = """
import os, sys
import numpy as np
from gddsg import SimpleCIL


class Odd(SimpleCIL):
    def predict(self, inputs):
        return getattr(self, self.answer)(super().predict(inputs))


def odd(name, answer):
    globals()[name] = type(name, (Odd,), {"answer": "own", "own": lambda self, labels: answer(labels)})


def exits(labels):
    sys.exit("enough")


def interrupts(labels):
    raise KeyboardInterrupt


class Mute(BaseException):
    def __str__(self):
        raise ValueError


def mute(labels):
    raise Mute


def halves(labels):
    raise ValueError(chr(0xD800))


def prints(labels):
    os.write(1, b"\\xff\\0{]" * 1000)
    return labels


odd("Exits", exits)
odd("Interrupts", interrupts)
odd("MuteError", mute)
odd("Halves", halves)
odd("Prints", prints)
odd("Column", lambda labels: labels[:, None])
odd("Short", lambda labels: labels[1:])
odd("Nothing", lambda labels: None)
odd("Strangers", lambda labels: labels - 5)


class Heavy(SimpleCIL):
    def state_bytes(self):
        return 10**30
"""


@pytest.fixture
def odd_learners(tmp_path, monkeypatch):
    (tmp_path / "odd_learners.py").write_text(ODD)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Exits", "SystemExit: enough"),
        ("MuteError", "Mute"),
        ("Halves", r"ValueError: \ud800"),
        ("Column", "InputError: Labels"),
        ("Short", "InputError: Labels"),
        ("Nothing", "InputError: Labels"),
        ("Heavy", "InputError: metrics: state_MB is 1e+24"),
    ],
)
def test_a_learner_that_misbehaves_stops_nobody_else(root, tmp_path, odd_learners, name, reason):
    out = tmp_path / "records.jsonl"
    learners = [f"odd_learners:{name}", "simplecil"]
    assert run_experiment(small(learners=learners, orders=1), out, root, workers=0).failed == 1
    odd, fine = read_records(out)
    assert odd.error.startswith(reason)
    assert fine.found.metrics["A_N"] > 50


def test_what_would_end_a_process_ends_only_its_run(root, tmp_path, odd_learners):
    out = tmp_path / "records.jsonl"
    learners = [*(f"odd_learners:{name}" for name in ("Exits", "Interrupts", "Prints")), "simplecil"]
    assert run_experiment(small(learners=learners, orders=1), out, root, workers=2).failed == 2
    errors = [record.error for record in read_records(out)]
    assert errors == ["SystemExit: enough", "KeyboardInterrupt: ", "", ""]


def test_a_label_that_is_no_class_is_wrong_under_its_own_name(root, tmp_path, odd_learners):
    out = tmp_path / "records.jsonl"
    assert run_experiment(small(learners=["odd_learners:Strangers"], orders=1), out, root, workers=0).failed == 0
    (record,) = read_records(out)
    taken = {name for _, name, _ in record.found.confusions}
    assert taken & {"-1", "-2", "-3", "-4", "-5"}


def test_parameters_that_ask_for_too_much_are_failures(root, tmp_path):
    out = tmp_path / "records.jsonl"
    learners = [
        {"name": f"{method} {value}", "method": method, "parameters": {"projection_dim": value}}
        for method in ("gddsg", "ranpac")
        for value in (10**12, 2**62, "x", [1], -1, True, 1.5)
    ]
    assert run_experiment(small(learners=learners, orders=1), out, root, workers=0).failed == len(learners)


def test_a_data_set_of_an_impossible_name_stops_nobody_else(root, tmp_path):
    out = tmp_path / "records.jsonl"
    long = ["x" * 300, "x" * 300 + ".npz"]
    report = run_experiment(small(datasets=["circles", *long], orders=1), out, root, workers=0)
    assert (report.runs, report.failed) == (3, 2)


def test_records_that_cannot_be_anywhere_are_an_error_that_helps(root, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (
        tmp_path / "file" / "records.jsonl",
        tmp_path / "file" / "below" / "records.jsonl",
        tmp_path,
        Path("/proc/records.jsonl"),
        Path("/proc/below/records.jsonl"),
        tmp_path / ("x" * 300),
        tmp_path / "a\0b",
        Path(),
        Path("/"),
        Path("/dev/full"),
    ):
        with pytest.raises(DataError, match="cannot be written"):
            run_experiment(small(orders=1), out, root, workers=0)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_data_set_that_is_missing_stops_nobody_else(root, tmp_path):
    out = tmp_path / "records.jsonl"
    report = run_experiment(small(datasets=["circles", "triangles"], orders=1), out, root, workers=0)
    assert (report.runs, report.failed) == (2, 1)
    fine, lost = read_records(out)
    assert fine.found.metrics
    assert "triangles" in lost.error
    assert "--data" in lost.error


def test_a_process_that_dies_is_a_failure_of_its_own_run_alone(root, tmp_path):
    script = tmp_path / "deadly.py"
    script.write_text(DEADLY)
    out = tmp_path / "records.jsonl"
    subprocess.run([sys.executable, script, root, out], check=True, timeout=300)
    records = {record.head.learner: record for record in read_records(out)}
    assert "died" in records["deadly"].error
    assert records["simplecil"].found.metrics["A_N"] > 50


DEADLY = """
import os, sys
from pathlib import Path

from gddsg import SimpleCIL
from gddsg.bench import experiment_from, run_experiment
from gddsg.bench.methods import METHODS


class Deadly(SimpleCIL):
    def _next_state(self, state, inputs, labels):
        os._exit(9)


METHODS["deadly"] = Deadly  # spawned processes import this file too

if __name__ == "__main__":
    table = {"datasets": ["circles"], "learners": ["deadly", "simplecil"], "tasks": 3, "orders": 2}
    report = run_experiment(experiment_from("small", table), Path(sys.argv[2]), Path(sys.argv[1]), workers=2)
    assert report.failed == 2, report
"""

CALL = """
import sys
from pathlib import Path
from gddsg.bench import experiment_from, run_experiment

if __name__ == "__main__":
    narrow = {"name": "ranpac", "parameters": {"projection_dim": 64}}
    table = {"datasets": ["circles", "squares"], "learners": ["simplecil", narrow], "tasks": 4, "orders": 3}
    run_experiment(experiment_from("small", table), Path(sys.argv[2]), Path(sys.argv[1]), workers=2)
"""


@pytest.mark.posix
def test_kills_change_nothing_in_the_end_and_leave_nothing_behind(root, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    script, out = tmp_path / "call.py", tmp_path / "killed.jsonl"
    script.write_text(CALL)
    subprocess.run([sys.executable, script, root, tmp_path / "whole.jsonl"], check=True, timeout=300)
    killed = 0
    for records in (0, 1, 4, 7):  # of twelve; the first kill hits the start
        process = subprocess.Popen([sys.executable, script, root, out], start_new_session=True)
        while process.poll() is None and (not out.exists() or out.read_bytes().count(b"\n") < records):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)  # the runner alone: its processes have to notice by themselves
        killed += process.wait() == -signal.SIGKILL
    subprocess.run([sys.executable, script, root, out], check=True, timeout=300)
    assert killed
    assert not list(temporary.iterdir())
    assert list(map(timeless, read_records(out))) == list(map(timeless, read_records(tmp_path / "whole.jsonl")))


@pytest.mark.posix
def test_processes_end_with_a_killed_runner(root, tmp_path):
    script = tmp_path / "call.py"
    script.write_text(CALL)
    process = subprocess.Popen([sys.executable, script, root, tmp_path / "out.jsonl"], start_new_session=True)
    deadline = time.time() + 120
    while not (members := _members(process.pid)) and time.time() < deadline:
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert members
    while _members(process.pid) and time.time() < deadline:
        time.sleep(0.2)
    assert not _members(process.pid)


def _members(session):
    """Living processes of a session that do the runs."""
    found = subprocess.run(["ps", "-ww", "-o", "pid=,stat=,args=", "-s", str(session)], capture_output=True, text=True)
    rows = [line.split(None, 2) for line in found.stdout.splitlines()]
    return [row for row in rows if not row[1].startswith("Z") and "spawn_main" in row[2]]


def test_two_runners_on_one_file(root, tmp_path):
    from filelock import FileLock

    out = tmp_path / "records.jsonl"
    with FileLock(tmp_path / ".records.jsonl.lock"), pytest.raises(DataError, match="Another process"):
        run_experiment(small(), out, root, workers=0)


@pytest.mark.parametrize("order", ["hardest", "easiest", "similar together", "similar apart", "searched"])
def test_named_orders(root, tmp_path, order):
    out = tmp_path / "records.jsonl"
    run_experiment(small(orders=[order], search_steps=2), out, root, workers=0)
    (record,) = read_records(out)
    assert record.head.order == order
    assert sorted(record.found.class_order) == [f"c{c:02d}" for c in range(12)]
    assert record.found.metrics


def test_fixed_tasks_keep_their_classes(root, tmp_path):
    out, free = tmp_path / "records.jsonl", tmp_path / "free.jsonl"
    assert run_experiment(small(orders=4, fixed_tasks=True), out, root, workers=0).failed == 0
    run_experiment(small(orders=1), free, root, workers=0)
    (cut,), runs = read_records(free), read_records(out)
    tasks = [[frozenset(run.found.class_order[k : k + 4]) for k in (0, 4, 8)] for run in runs]
    assert len({frozenset(one) for one in tasks}) == 1
    assert len({tuple(one) for one in tasks}) > 1
    assert runs[0].found.class_order == cut.found.class_order  # the first seed is the order that was cut
    assert [run.head.order for run in runs[:2]] == ["seed 1993 of tasks 1993", "seed 2024 of tasks 1993"]
    assert len({run.head.run for run in (*runs, cut)}) == 5


def test_fixed_tasks_of_unequal_sizes_are_refused(root, tmp_path):
    out = tmp_path / "records.jsonl"
    assert run_experiment(small(tasks=5, fixed_tasks=True), out, root, workers=0).failed == 1
    assert "divides the 12 classes" in read_records(out)[1].error


def test_the_released_recipe_and_the_oracle_are_labelled(root, tmp_path):
    learners = [
        {
            "name": "released",
            "method": "released-recipe",
            "protocol": "released",
            "only_last": True,
            "parameters": {"projection_dim": 32, "trials": 3},
        },
        {"name": "oracle", "method": "gddsg", "protocol": "oracle-group", "parameters": {"projection_dim": 32}},
    ]
    out = tmp_path / "records.jsonl"
    assert run_experiment(small(learners=learners, orders=1), out, root, workers=0).failed == 0
    released, oracle = read_records(out)
    assert released.head.leaks == RELEASED.leaks
    assert oracle.head.leaks == ORACLE_GROUP.leaks
    assert not released.head.exemplar_free
    assert len(released.found.class_accuracies) == 1
    assert "F_N" not in released.found.metrics
    assert released.found.groups


@pytest.mark.parametrize("kind", ["t-SNE", "graph"])
def test_pictures(root, tmp_path, kind):
    out = tmp_path / "records.jsonl"
    gddsg = {"name": "gddsg", "parameters": {"projection_dim": 32}}
    assert run_experiment(small(learners=[gddsg], kinds=[kind], orders=1), out, root, workers=0).failed == 0
    (record,) = read_records(out)
    if kind == "graph":
        assert len(record.found.classes) == len(record.found.group_of_class) == 12
        groups = record.found.group_of_class
        assert all(groups[i] != groups[j] for i, j in record.found.edges)
    else:
        assert record.head.kind == kind
        assert len(record.found.points) == len(record.found.groups) == len(record.found.labels) == 480


def test_photos_are_embedded_on_the_way(tmp_path, monkeypatch):
    from gddsg.data import write_glyphs

    monkeypatch.setenv("GDDSG_CACHE", str(tmp_path / "cache"))
    write_glyphs(tmp_path / "data" / "letters", 4, 2, classes=["capital A", "capital B", "capital C"])
    out = tmp_path / "records.jsonl"
    report = run_experiment(small(datasets=["letters"], orders=1), out, tmp_path / "data", workers=0)
    assert report.failed == 0, read_records(out)
    (record,) = read_records(out)
    assert (record.head.dataset, record.head.backbone) == ("letters", "efficientnet-lite0")
    assert str(tmp_path) not in out.read_text()


def test_features_of_several_layers_are_in_files_without_a_slash_in_their_name(root, tmp_path):
    data = feature_file(root / "circles_efficientnet-lite0.npz")
    write_feature_file(data, tmp_path / "circles_efficientnet-lite0-layers4.npz")
    out = tmp_path / "records.jsonl"
    layered = small(backbones=["efficientnet-lite0/layers4"], learners=["layup"], orders=1)
    assert run_experiment(layered, out, tmp_path, workers=0).failed == 0
    (record,) = read_records(out)
    assert (record.head.dataset, record.head.backbone) == ("circles", "efficientnet-lite0/layers4")
