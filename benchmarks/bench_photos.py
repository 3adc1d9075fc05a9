"""Photos in, labels out: accuracy of learning in calls, and speed side by side in one run.

    python benchmarks/bench_photos.py FOLDER... --out benchmarks/records/photos.jsonl

Each FOLDER holds ``train/`` and ``test/`` with one folder a class. For each it measures

1. embedding, decoding included, against bare ONNX Runtime on the same images, already decoded;
2. ``learn`` in five calls of a fifth of the classes each, then ``evaluate``, against learning all at once, and against
   nearest mean and RanPAC on the same features;
3. ``learn`` and ``evaluate`` the first time and once more with the same model and the same photos: as commands, start
   of Python included, and inside a running program, by the same object and by a fresh one. Beside it, ``learn`` of
   photos whose features are in the cache into a new model.

All of it with ``--quality fast``; ``bench_quality.py`` compares the qualities.
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
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gddsg import PhotoClassifier, RanPAC, SimpleCIL
from gddsg.backbones import FeatureCache, load_backbone
from gddsg.bench.revision import code_revision
from gddsg.data import image_folder
from gddsg.evaluation import average_accuracy
from gddsg.onnx_runtime import onnx_bytes, open_session
from gddsg.photos import embed_dataset, embed_photos

QUALITY = "fast"
CALLS = 5
IMAGES_FOR_SPEED = 400
REPEATS = 3


def seconds(call: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def embedding_speed(folder: Path) -> dict[str, Any]:
    """Images a second: ours from files, ONNX Runtime alone from arrays, in turns; medians of three."""
    backbone, photos = load_backbone(device="cpu"), image_folder(folder).train
    photos = photos[:: max(len(photos) // IMAGES_FOR_SPEED, 1)]
    images = [backbone.preprocess(photo.image(photo.read(), backbone.preprocess.useful_side)) for photo in photos]
    batches = [np.stack(images[i : i + 8]) for i in range(0, len(images), 8)]
    session = open_session(_network_of_any_batch())
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(3):
        times["ours"].append(seconds(lambda: embed_photos(photos, backbone)))
        times["bare"].append(seconds(lambda: [session.run(None, {"images": batch}) for batch in batches]))
    ours, bare = (len(photos) / float(np.median(times[side])) for side in ("ours", "bare"))
    return {"images_per_second": round(ours, 1), "bare_onnx_runtime": round(bare, 1), "share": round(ours / bare, 3)}


def _network_of_any_batch() -> bytes:
    """The same network with a free batch size and ONNX Runtime's own threads: how most people would run it."""
    import torch

    from gddsg.backbones.efficientnet_lite import features_module, read_weights

    module = features_module("efficientnet-lite0", read_weights("efficientnet-lite0"))
    return onnx_bytes(module, torch.zeros(2, 3, 224, 224), ("images", "features"), batches=True)


def accuracy(folder: Path, work: Path) -> dict[str, Any]:
    """Accuracy in per cent, in five calls, at once, and of two peers on the same features."""
    classes = sorted(path for path in (folder / "train").iterdir() if path.is_dir())
    with FeatureCache(work / "cache") as cache:
        grown, whole = (
            PhotoClassifier(work / name, cache=cache, quality=QUALITY) for name in ("calls.gddsg", "once.gddsg")
        )
        for part in np.array_split(np.random.RandomState(0).permutation(len(classes)), CALLS):
            grown.learn(*(classes[i] for i in part))
        whole.learn(folder)
        found = {name: model.evaluate(folder) for name, model in (("in_calls", grown), ("at_once", whole))}
        data = embed_dataset(image_folder(folder), grown.backbone, cache)
    peers = {"nearest_mean": SimpleCIL(), "ranpac": RanPAC(projection_dim=2_000)}
    for name, peer in peers.items():
        predicted = peer.fit(data.train_features, data.train_labels).predict(data.test_features)
        found[name] = round(100 * average_accuracy(data.test_labels, predicted), 2)
    ours = {name: round(100 * found[name].average_accuracy, 2) for name in ("in_calls", "at_once")}
    return {"classes": len(classes), "photos": found["at_once"].photos, "A_N": {**found, **ours}}


def again(folder: Path, work: Path) -> dict[str, Any]:
    """How long the same takes once more; a second time is the median of three."""
    return {"commands": again_as_commands(folder, work), "program": again_in_a_program(folder, work)}


def again_as_commands(folder: Path, work: Path) -> dict[str, Any]:
    """Every call is a process of its own, as at a terminal."""
    cache = work / "command-cache"
    cache.mkdir()
    load_backbone(device="cpu", folder=cache)  # the export of the network is not what is measured here
    environment = {**os.environ, "GDDSG_CACHE": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled, so is this one then

    def command(name: str, model: str) -> Callable[[], None]:
        option = ["--quality", QUALITY] if name == "learn" else []
        return lambda: run([name, work / f"{model}.gddsg", folder, *option], environment)

    first = {name: seconds(command(name, "commands")) for name in ("learn", "evaluate")}
    return {
        "learn": _ratio(first["learn"], [command("learn", "commands")] * REPEATS),
        "evaluate": _ratio(first["evaluate"], [command("evaluate", "commands")] * REPEATS),
        "learn_into_new_model": _ratio(first["learn"], [command("learn", f"commands-new-{i}") for i in range(REPEATS)]),
    }


def again_in_a_program(folder: Path, work: Path) -> dict[str, Any]:
    """Every call is in this process, which has imported all; where photos are learnt, the backbone is loaded."""
    with FeatureCache(work / "program-cache") as cache:

        def classifier(name: str, *, ready: bool = False) -> PhotoClassifier:
            made = PhotoClassifier(work / f"{name}.gddsg", cache=cache, quality=QUALITY)
            _ = made.backbone if ready else None
            return made

        same = classifier("program", ready=True)
        first = {"learn": seconds(lambda: same.learn(folder)), "evaluate": seconds(lambda: same.evaluate(folder))}
        new_models = [partial(classifier(f"program-new-{i}", ready=True).learn, folder) for i in range(REPEATS)]
        return {
            "learn_same_object": _ratio(first["learn"], [lambda: same.learn(folder)] * REPEATS),
            "learn_fresh_object": _ratio(first["learn"], [lambda: classifier("program").learn(folder)] * REPEATS),
            "evaluate_same_object": _ratio(first["evaluate"], [lambda: same.evaluate(folder)] * REPEATS),
            "evaluate_fresh_object": _ratio(
                first["evaluate"], [lambda: classifier("program").evaluate(folder)] * REPEATS
            ),
            "learn_into_new_model": _ratio(first["learn"], new_models),
        }


def run(arguments: list[Any], environment: dict[str, str]) -> None:
    """One call of the command line."""
    command = [sys.executable, "-m", "gddsg", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)


def _ratio(first: float, calls: Sequence[Callable[[], object]]) -> dict[str, float]:
    """Time of the first call, median time of the others, and how many times faster these are."""
    later = statistics.median(seconds(call) for call in calls)
    return {"first": round(first, 2), "again": round(later, 3), "times_faster": round(first / later, 1)}


def main() -> None:
    """One record a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/photos.jsonl"))
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("w") as out:
        for folder in args.folders:
            with tempfile.TemporaryDirectory() as work:
                record = {
                    "revision": code_revision(),
                    "dataset": folder.name,
                    "embedding": embedding_speed(folder),
                    **accuracy(folder, Path(work)),
                    "again": again(folder, Path(work)),
                }
            out.write(json.dumps(record) + "\n")
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
