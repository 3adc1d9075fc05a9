"""Kills at any moment of all that writes: up to three processes at once, which come to one model by different links.

Every process says before each change what it is about to do, and afterwards that it is done. What was done when a kill
came must be there, once; what was under way may be there whole or not at all. In the end every interrupted command is
given once more, and nothing but its result may be left in the folder.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.attack.counts import Counts
from tests.photos.tiny_backbone import Means

WORKERS = 3
_LONGEST_LIFE = 0.6
_RUNS = 4


def attack_by_kills(n: int, seed: int, folder: Path) -> Counts:
    """Kill processes ``n`` times, one in ten of them a command as it is typed.

    It happens in a fresh process, which prepares all that is slow to start and then forks.
    """
    (folder / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "GDDSG_CACHE": str(folder / "cache")}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    code = "import sys; from tests.attack.kills import main; main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])"
    command = [sys.executable, "-c", code, str(n), str(seed), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    counts = Counts()
    if done.returncode:
        counts.failures.append(f"kills: {done.stderr[-2000:]}")
    else:
        found = json.loads(done.stdout.splitlines()[-1])
        counts.tried, counts.failures = found["tried"], found["failures"]
        counts.outcomes.update(found["outcomes"])
    return counts


def main(n: int, seed: int, folder: str) -> None:
    """Attack, and print the counts as JSON."""
    attack = _Attack(Path(folder), random.Random(seed))
    attack.run(n)
    found = {"tried": attack.kills, "outcomes": attack.outcomes, "failures": attack.failures}
    sys.stdout.write(json.dumps(found) + "\n")


@dataclass
class _Attack:
    folder: Path
    draw: random.Random
    kills: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    states: dict[int, dict[str, int]] = field(default_factory=lambda: {worker: {} for worker in range(WORKERS)})
    repeated: list[Callable[[], object]] = field(default_factory=list)

    def run(self, n: int) -> None:
        _prepare(self.folder)
        living: dict[int, tuple[int, int]] = {}
        typed = max(n // 10, 1)
        while self.kills < n - typed:
            for worker in range(self.draw.randint(1, WORKERS)):
                if worker not in living:
                    living[worker] = self._start(worker)
            time.sleep(self.draw.uniform(0, _LONGEST_LIFE))
            worker = self.draw.choice(sorted(living))
            self._kill(worker, *living.pop(worker))
        for worker, process in living.items():
            self._kill(worker, *process)
        for _ in range(typed):
            self._kill_typed_command()
        self._end_in_order()

    def _start(self, worker: int) -> tuple[int, int]:
        reading, writing = os.pipe()
        state, seed = dict(self.states[worker]), self.draw.randrange(2**32)
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            try:
                _work(worker, state, seed, self.folder, writing)
            except BaseException as error:
                os.write(writing, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
            finally:
                os._exit(1)
        os.close(writing)
        return pid, reading

    def _kill(self, worker: int, pid: int, reading: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with os.fdopen(reading) as log:
            lines = [json.loads(line) for line in log.read().split("\n")[:-1]]
        self.kills += 1
        under_way = None
        for line in lines:
            if "error" in line:
                self.failures.append(f"worker {worker}: {line['error']}")
            elif "begin" in line:
                under_way = line
            else:
                self.states[worker], under_way = line["done"], None
        command = under_way["begin"] if under_way else "between"
        self.outcomes[f"killed in {command}"] = self.outcomes.get(f"killed in {command}", 0) + 1
        self._check(worker, None if under_way is None else under_way["then"])
        self._check_files(worker, under_way)

    def _check(self, worker: int, then: dict[str, int] | None) -> None:
        """The classes of a killed worker: as confirmed, or as they would have been a moment later."""
        from gddsg.store import read_model

        found = {}
        for label, card in read_model(self.folder / "real" / "m.gddsg").cards.items():
            if str(label).startswith(f"{worker}."):
                found[str(label)] = card.count
                if len(card.sample_ids) != card.count:
                    self.failures.append(f"{label}: {card.count} samples, of which {len(card.sample_ids)} differ")
        if found not in (self.states[worker], then):
            self.failures.append(f"worker {worker}: {found} in place of {self.states[worker]} or {then}")
        self.states[worker] = found

    def _check_files(self, worker: int, under_way: dict[str, Any] | None) -> None:
        """What was merged, exported and recorded is whole or not there."""
        from gddsg.bench import read_records
        from gddsg.store import read_model

        for path in self.folder.glob(f"merged-{worker}-*.gddsg"):
            if len(read_model(path).labels) != 4:
                self.failures.append(f"{path.name} has {read_model(path).labels}")
        for path in self.folder.glob(f"records-{worker}.jsonl"):
            runs = [record.head.run for record in read_records(path)]
            if len(set(runs)) != len(runs):
                self.failures.append(f"{path.name} has a run twice")
        for path in self.folder.glob(f"export-{worker}.onnx"):
            _check_network(path)
        if under_way is not None and under_way.get("again"):
            self.repeated.append(lambda: _COMMANDS[under_way["begin"]](self.folder, under_way["again"]))

    def _kill_typed_command(self) -> None:
        folder, number = self.folder, self.kills
        model, draw = folder / "typed.gddsg", self.draw
        bench = ["--features", folder / "data.npz", "--learner", "simplecil", "--tasks", "3", "--workers", "0"]
        commands = [
            ["rename", model, "a", "b"],
            ["rename", model, "b", "a"],
            ["merge", folder / "one.gddsg", folder / "two.gddsg", "--into", folder / f"merged-typed-{number}.gddsg"],
            ["forget", folder / "typed-link.gddsg", "c"],
            ["bench", "run", *bench, "--out", folder / "records-typed.jsonl"],
        ]
        command = [sys.executable, "-m", "gddsg", *map(str, draw.choice(commands))]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(draw.uniform(1.0, 6.0))
        process.kill()
        process.wait()
        self.kills += 1
        self.outcomes["typed"] = self.outcomes.get("typed", 0) + 1
        self.repeated.append(lambda: subprocess.run(command, capture_output=True))

    def _end_in_order(self) -> None:
        """Give every interrupted command once more; then nothing is left that no command has made."""
        from gddsg.store import read_model

        for again in self.repeated:
            again()
        for link in ("link.gddsg", "typed-link.gddsg"):
            _touch(self.folder / link)
        typed = set(read_model(self.folder / "typed.gddsg").labels) - {"c"}
        if typed not in ({"a", "d", "e", "f"}, {"b", "d", "e", "f"}):
            self.failures.append(f"typed.gddsg has {typed}")
        allowed = {"real", "folder", "tmp", "cache", "link.gddsg", "typed.gddsg", "typed-link.gddsg", "data.npz"}
        allowed |= {"one.gddsg", "two.gddsg"}
        for path in (*self.folder.iterdir(), *(self.folder / "real").iterdir(), *(self.folder / "tmp").iterdir()):
            made = path.name.startswith(("merged-", "export-", "records-")) and path.suffix != ".tmp"
            made |= path.name.startswith("torchinductor_")  # a cache of torch's, which it keeps for all programs
            if path.name not in allowed and not made and path.name != "m.gddsg":
                self.failures.append(f"left behind: {path.name}")


# What the processes do.


def _prepare(folder: Path) -> None:
    """Import and make all that is slow, before anybody forks."""
    from gddsg.data import write_feature_file
    from gddsg.evaluation.leak_check import overlapping_classes

    for name in ("gddsg.bench", "gddsg.export", "gddsg.photos", "sklearn.linear_model"):
        __import__(name)
    (folder / "real").mkdir()
    (folder / "folder").symlink_to(folder / "real")
    (folder / "link.gddsg").symlink_to(folder / "real" / "m.gddsg")
    (folder / "typed-link.gddsg").symlink_to(folder / "typed.gddsg")
    write_feature_file(overlapping_classes(seed=0), folder / "data.npz")
    _learn(folder / "real" / "m.gddsg", "first", [0, 1])
    for number, (path, labels) in enumerate({"one": "ab", "two": "cd", "typed": "acdef"}.items()):
        for place, label in enumerate(labels):
            _learn(folder / f"{path}.gddsg", label, [1000 * number + 10 * place + i for i in range(3)])


def _work(worker: int, state: dict[str, int], seed: int, folder: Path, log: int) -> None:
    draw = random.Random(seed)
    paths = [folder / "real" / "m.gddsg", folder / "link.gddsg", folder / "folder" / "m.gddsg"]
    while True:
        command, then, action, again = _choose(worker, state, draw, draw.choice(paths), folder)
        _say(log, {"begin": command, "then": then, "again": again})
        action()
        state = then
        _say(log, {"done": state})


def _choose(
    worker: int, state: dict[str, int], draw: random.Random, path: Path, folder: Path
) -> tuple[str, dict[str, int], Callable[[], object], str]:
    """A command, what the worker's classes are after it, how to do it, and what it takes to give it once more."""
    kind, photos = draw.random(), [draw.randrange(2**40) for _ in range(draw.randint(1, 3))]
    if kind < 0.015:  # takes long, hence is met by many kills even if it is rare
        return "export", state, lambda: _export(folder, str(worker)), str(worker)
    if kind < 0.04:
        return "bench", state, lambda: _bench(folder, str(worker)), str(worker)
    if kind < 0.35:
        name = f"{worker}-{draw.randrange(2**40)}"
        return "merge", state, lambda: _merge(folder, name), name
    if kind < 0.6 or not state:
        label = f"{worker}.{draw.randrange(2**40)}"
        return "learn", {**state, label: len(photos)}, lambda: _learn(path, label, photos), ""
    label = draw.choice(sorted(state))
    if kind < 0.7:
        return "learn", {**state, label: state[label] + len(photos)}, lambda: _learn(path, label, photos), ""
    rest = {name: count for name, count in state.items() if name != label}
    if kind < 0.85:
        new = f"{worker}.{draw.randrange(2**40)}"
        return "rename", {**rest, new: state[label]}, lambda: _classifier(path).rename(label, new), ""
    return "forget", rest, lambda: _classifier(path).forget(label), ""


def _classifier(path: Path) -> Any:
    from gddsg.photos import PhotoClassifier, model_backbone

    model_backbone.load_backbone = lambda name, device=None: Means()  # type: ignore[assignment]
    return PhotoClassifier(path, settings={"projection_dim": 32})


def _learn(path: Path, label: str, photos: list[int]) -> None:
    from gddsg.data.dataset import PhotoListing
    from gddsg.data.photo import Photo

    listing = []
    for seed in photos:
        pixels = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        listing.append(Photo.of_pixels(pixels, label, f"photo {seed}"))
    _classifier(path).learn_photos(PhotoListing(tuple(listing)))


def _merge(folder: Path, name: str) -> None:
    from gddsg.errors import DataError
    from gddsg.photos import merge_models

    try:
        merge_models([folder / "one.gddsg", folder / "two.gddsg"], folder / f"merged-{name}.gddsg")
    except DataError:  # given once more after it was done
        if not (folder / f"merged-{name}.gddsg").exists():
            raise


def _export(folder: Path, worker: str) -> None:
    from gddsg.export import export_onnx
    from gddsg.store import read_model

    export_onnx(read_model(folder / "one.gddsg"), folder / f"export-{worker}.onnx")


def _bench(folder: Path, worker: str) -> None:
    from gddsg.bench import experiment_from, run_experiment

    table = {
        "datasets": [str(folder / "data.npz")],
        "learners": ["simplecil", {"name": "ranpac", "parameters": {"projection_dim": 64}}],
        "tasks": 3,
        "orders": _RUNS // 2,
    }
    report = run_experiment(experiment_from("kills", table), folder / f"records-{worker}.jsonl", folder, workers=0)
    assert (report.runs, report.failed) == (_RUNS, 0)


_COMMANDS = {"export": _export, "bench": _bench, "merge": _merge}


def _check_network(path: Path) -> None:
    from gddsg.onnx_runtime import open_session

    session = open_session(path.read_bytes(), threads=1)
    session.run(None, {"features": np.zeros((1, Means.feature_dim), dtype=np.float32)})


def _touch(path: Path) -> None:
    """An orderly change that changes nothing in the end."""
    from gddsg.store import SharedModel

    file = SharedModel(path)
    model = file.read()
    assert model is not None
    label = model.labels[0]
    file.change(lambda now: now and now.renamed(label, "for a moment"))
    file.change(lambda now: now and now.renamed("for a moment", label))


def _say(log: int, what: dict[str, Any]) -> None:
    os.write(log, json.dumps(what).encode() + b"\n")
