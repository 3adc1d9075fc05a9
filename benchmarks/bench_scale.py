"""Learning by several workers: time beside the local engine and beside plain processes, and memory of the driver.

    python benchmarks/bench_scale.py FOLDER --out benchmarks/records/scale.json

FOLDER has one folder of photos a class. In one run, in turns, each into a new model and with an empty cache:

1. the local engine;
2. Ray with one worker, which has all cores, with two, which have half of them each, and with three; with and without
   the start of Ray, which is told apart; and one worker with half of the photos, which tells what a photo takes;
3. two plain processes of the local engine with half of the photos and half of the cores each: all that two workers on
   this machine can gain.

Then the resident memory of the driver at its highest, for rows of features and for ten times as many.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gddsg.bench.memory import peak_mebibytes
from gddsg.bench.revision import code_revision

DIM = 1280
CLASSES = 20


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write a record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="photos, one folder a class")
    parser.add_argument("--rows", type=int, default=20_000, help="of features; ten times as many are measured, too")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--backbone", default="efficientnet-lite0")
    parser.add_argument("--out", type=Path, help="the record")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)  # a measurement in a process of its own
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(ONE[options.one[0]](*options.one[1:])))
        return
    if options.folder is None:
        parser.error("expected a folder of photos")
    with tempfile.TemporaryDirectory() as work:
        record = {
            "code": code_revision(),
            "cores": len(os.sched_getaffinity(0)),
            "photos": sum(1 for path in options.folder.rglob("*") if path.is_file()),
            "backbone": options.backbone,
            "seconds": times(options.folder.resolve(), Path(work), options.backbone, options.repeats),
            "driver": memory(Path(work), options.rows),
        }
    record["ratios"] = ratios(record["seconds"])
    text = json.dumps(record, indent=1)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


def times(folder: Path, work: Path, backbone: str, repeats: int) -> dict[str, list[float]]:
    """Seconds of every way, in turns."""
    found: dict[str, list[float]] = {}
    halves = [work / "half0", work / "half1"]
    share_out(folder, halves)
    apart("local", folder, work / "warm.gddsg", backbone)  # exports the network, and reads the photos from the disk
    for turn in range(repeats):
        found.setdefault("local", []).append(apart("local", folder, work / f"l{turn}.gddsg", backbone)["seconds"])
        for way, source, workers in (
            ("ray 1", folder, 1),
            ("ray 2", folder, 2),
            ("ray 3", folder, 3),
            ("ray 1 half", halves[0], 1),
        ):
            one = apart("ray", source, work / f"{way}-{turn}.gddsg", backbone, workers)
            found.setdefault(way, []).append(one["seconds"])
            found.setdefault(f"{way} start", []).append(one["start"])
        found.setdefault("two processes", []).append(both(halves, work, turn, backbone))
    return found


def ratios(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Medians beside each other; what Ray takes to start and stop is in the first, and not in the others."""
    middle = {name: statistics.median(times) for name, times in seconds.items()}
    bare = {workers: middle[f"ray {workers}"] - middle[f"ray {workers} start"] for workers in (1, 2)}
    return {
        "ray 1 / local, start included": round(middle["ray 1"] / middle["local"], 3),
        "ray 1 / local": round(bare[1] / middle["local"], 3),
        "ray 1 / ray 2": round(bare[1] / bare[2], 3),
        "ray 2 / two processes": round(bare[2] / middle["two processes"], 3),
    }


def share_out(folder: Path, halves: Sequence[Path]) -> None:
    """Links to every other photo in either half."""
    for number, photo in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        place = halves[number % len(halves)] / photo.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(photo)


def both(halves: Sequence[Path], work: Path, turn: int, backbone: str) -> float:
    """Seconds until the slower of two processes is done, each with its share of the cores."""
    cores = max(len(os.sched_getaffinity(0)) // len(halves), 1)
    running = [process("local", half, work / f"{half.name}-{turn}.gddsg", backbone, cores) for half in halves]
    return max(result_of(one)["seconds"] for one in running)


def memory(work: Path, rows: int) -> dict[str, Any]:
    """Megabytes of the driver at its highest, for rows and ten times as many."""
    found: dict[str, Any] = {"dim": DIM}
    for n in (rows, 10 * rows):
        path = work / "features.npz"
        write_features(path, n)
        found[str(n)] = result_of(process("features", path, work / f"{n}.gddsg"))["megabytes"]
    found["growth"] = round(found[str(10 * rows)] / found[str(rows)], 3)
    return found


def write_features(path: Path, n: int) -> None:
    """Rows of some classes, one class after the other, written piece by piece."""
    random = np.random.default_rng(0)
    labels = np.arange(n) * CLASSES // n
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("train_features.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (n, DIM)})
            for some in np.array_split(labels, max(n // 4096, 1)):
                rows = random.random((len(some), DIM), dtype=np.float32) + some[:, None].astype(np.float32) / CLASSES
                file.write(rows.tobytes())
        for name, array in (("train_labels", labels), ("classes", [f"class {number:02}" for number in range(CLASSES)])):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.array(array))


def apart(*arguments: object) -> dict[str, Any]:
    """What a measurement in a process of its own gives."""
    return result_of(process(*arguments))


def process(*arguments: object) -> subprocess.Popen[str]:
    """A measurement that has begun."""
    command = [sys.executable, __file__, "--one", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def result_of(one: subprocess.Popen[str]) -> dict[str, Any]:
    """What it says in the end."""
    said, _ = one.communicate()
    if one.returncode:
        raise SystemExit(f"a measurement failed: {one.args}")
    return dict(json.loads(said.splitlines()[-1]))


def learn_locally(folder: str, model: str, backbone: str, cores: str = "0") -> dict[str, float]:
    """By this program, without features from before."""
    from gddsg.backbones import FeatureCache
    from gddsg.backbones.base import share_cores
    from gddsg.photos import PhotoClassifier

    if int(cores):
        import torch

        share_cores(int(cores))
        torch.set_num_threads(int(cores))
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as empty, FeatureCache(Path(empty)) as cache:
        PhotoClassifier(model, backbone, device="cpu", cache=cache).learn(folder)
    return {"seconds": time.perf_counter() - start}


def learn_on_ray(folder: str, model: str, backbone: str, workers: str) -> dict[str, float]:
    """On this machine; the start of Ray is what it takes before the first job."""
    from gddsg import scale
    from gddsg.backbones.base import available_cores
    from gddsg.ray_session import ray_session

    start = time.perf_counter()
    with ray_session(None, available_cores()):
        started = time.perf_counter()
        scale.learn(model, folder, workers=int(workers), backbone=backbone, device="cpu")
        done = time.perf_counter()
    return {"seconds": time.perf_counter() - start, "start": time.perf_counter() - done + started - start}


def learn_features(path: str, model: str) -> dict[str, float]:
    """On Ray with two workers; memory of this process alone."""
    from gddsg import scale

    scale.learn(model, path, workers=2)
    return {"megabytes": round(peak_mebibytes(), 1)}


ONE = {"local": learn_locally, "ray": learn_on_ray, "features": learn_features}

if __name__ == "__main__":
    main()
