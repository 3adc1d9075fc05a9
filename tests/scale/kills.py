"""Kills of a run on two machines at random moments: of workers, of a machine and of the driver.

``python -m tests.scale.kills FOLDER FEATURES.npz`` learns a folder of photos and a feature file on a cluster of two
nodes on this machine, several times each, and kills something every few seconds until a driver comes through. Counts on
the cards are compared with the source, and the cards with those of a run that nobody disturbed. What was found is
printed as JSON and written to ``benchmarks/records/scale-kills.json``; the exit code is 1 if anything was lost or
doubled.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.scale.machines import Machines, two_machines

from gddsg.bench.revision import code_revision
from gddsg.files import replace_file
from gddsg.store import read_model

RECORD = Path(__file__).parents[2] / "benchmarks" / "records" / "scale-kills.json"
KINDS = ("worker", "node", "driver")
_MOST_DRIVERS, _PATIENCE = 12, 900
_DRIVER = """
import sys
from gddsg import scale
scale.learn(sys.argv[1], sys.argv[2], address=sys.argv[3], workers=2, device="cpu",
            progress=lambda done, total: print(done, flush=True))
"""


def learn(model: Path, source: Path, address: str) -> subprocess.Popen[str]:
    """A driver."""
    command = [sys.executable, "-c", _DRIVER, str(model), str(source), address]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def disturbed(model: Path, source: Path, machines: Machines, draw: random.Random, pause: float) -> Counter[str]:
    """Learn until a driver comes through, killing something at random moments; says what was killed how often."""
    killed: Counter[str] = Counter()
    for number in range(_MOST_DRIVERS):
        driver = learn(model, source, machines.address)
        until = time.monotonic() + _PATIENCE
        while driver.poll() is None and time.monotonic() < until:
            try:
                driver.wait(draw.uniform(0.5, 1.5) * pause)
                break
            except subprocess.TimeoutExpired:
                kind = draw.choice(KINDS if number < _MOST_DRIVERS - 1 else KINDS[:2])
                killed[kind] += kill(kind, driver, machines, draw)
        error = driver.communicate()[1]
        if driver.returncode == 0:
            return killed
        if driver.returncode != -signal.SIGKILL:
            raise SystemExit(f"A driver failed:\n{error}")
    raise SystemExit("No driver came through.")


def kill(kind: str, driver: subprocess.Popen[str], machines: Machines, draw: random.Random) -> bool:
    """Kill something of that kind; whether there was any."""
    if kind == "driver":
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        return True
    if kind == "node":
        machines.replace_node()
        return True
    return machines.lose_worker(draw)


def photo_counts(folder: Path) -> dict[str, int]:
    """Different photos of each class; one that is in two classes is learnt in neither."""
    bodies = {one.name: {path.read_bytes() for path in one.iterdir()} for one in folder.iterdir() if one.is_dir()}
    homes = Counter(body for some in bodies.values() for body in some)
    return {label: sum(homes[body] == 1 for body in some) for label, some in sorted(bodies.items())}


def feature_counts(path: Path) -> dict[str, int]:
    """Rows of each class."""
    with np.load(path) as file:
        names, counts = np.unique(file["train_labels"], return_counts=True)
        classes = file["classes"].tolist()
    return {str(classes[int(n)] if names.dtype.kind in "iu" else n): int(c) for n, c in zip(names, counts, strict=True)}


def compare(model: Path, expected: dict[str, int], undisturbed: dict[str, bytes]) -> dict[str, int]:
    """What is wrong with a model."""
    cards = read_model(model).cards
    counts = {str(label): card.count for label, card in cards.items()}
    lost = sum(max(n - counts.get(label, 0), 0) for label, n in expected.items())
    doubled = sum(max(n - expected.get(label, 0), 0) for label, n in counts.items())
    other = sum(undisturbed.get(str(label)) != card.to_bytes() for label, card in cards.items())
    return {"samples": sum(counts.values()), "lost": lost, "doubled": doubled, "other_cards": other}


def attack(
    source: Path, count: Callable[[Path], dict[str, int]], rounds: int, pause: float, machines: Machines, seed: int
) -> dict[str, Any]:
    """Learn one source undisturbed, then several times under kills."""
    expected, draw, found = count(source), random.Random(seed), []
    with tempfile.TemporaryDirectory() as folder:
        calm = Path(folder) / "calm.gddsg"
        begun = time.monotonic()
        said = learn(calm, source, machines.address).communicate()[1]
        if not calm.is_file():
            raise SystemExit(f"Nothing was learnt:\n{said}")
        seconds = time.monotonic() - begun
        undisturbed = {str(label): card.to_bytes() for label, card in read_model(calm).cards.items()}
        for number in range(rounds):
            model = Path(folder) / f"{number}.gddsg"
            killed = disturbed(model, source, machines, draw, pause * seconds)
            found.append({"killed": dict(sorted(killed.items())), **compare(model, expected, undisturbed)})
            print(json.dumps(found[-1]), flush=True)  # noqa: T201
        left = sorted(path.name for path in Path(folder).iterdir() if not path.name.endswith(".gddsg"))
    return {
        "source": source.name,
        "classes": len(expected),
        "samples": sum(expected.values()),
        "runs": found,
        "left": left,
    }


def main() -> int:
    """Attack, print and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="photos, one folder a class")
    parser.add_argument("features", type=Path, help="a feature file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.3, help="between kills, as a share of an undisturbed run")
    given = parser.parse_args()
    with two_machines() as machines:
        found = [
            attack(source.resolve(), count, given.rounds, given.pause, machines, given.seed)
            for source, count in ((given.folder, photo_counts), (given.features, feature_counts))
        ]
    runs = [run for one in found for run in one["runs"]]
    faults = sum(run[kind] for run in runs for kind in ("lost", "doubled", "other_cards")) + sum(
        len(one["left"]) for one in found
    )
    record = {"revision": code_revision(), "seed": given.seed, "nodes": 2, "faults": faults, "sources": found}
    text = json.dumps(record, indent=1)
    print(text)  # noqa: T201
    replace_file(RECORD, (text + "\n").encode())
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
