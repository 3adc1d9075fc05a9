"""Photos in, labels out: accuracy of learning in calls, and speed side by side in one run.

    python benchmarks/bench_photos.py FOLDER... --out benchmarks/records/photos.jsonl

Each FOLDER holds ``train/`` and ``test/`` with one folder a class. For each it measures

1. embedding, decoding included, against bare ONNX Runtime on the same images, already decoded;
2. ``learn`` in five calls of a fifth of the classes each, then ``evaluate``, against learning all at once, and against
   nearest mean and RanPAC on the same features;
3. the commands ``gddsg learn`` and ``gddsg evaluate``, start of Python included, the first time and again from the
   cache; and the same calls inside a running program.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from gddsg import PhotoClassifier, RanPAC, SimpleCIL
from gddsg.backbones import FeatureCache, load_backbone
from gddsg.data import image_folder
from gddsg.evaluation import average_accuracy
from gddsg.photos import embed_dataset, embed_photos

CALLS = 5
IMAGES_FOR_SPEED = 400


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
    session = onnxruntime.InferenceSession(_network_of_any_batch(), providers=["CPUExecutionProvider"])
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(3):
        times["ours"].append(seconds(lambda: embed_photos(photos, backbone)))
        times["bare"].append(seconds(lambda: [session.run(None, {"images": batch}) for batch in batches]))
    ours, bare = (len(photos) / float(np.median(times[side])) for side in ("ours", "bare"))
    return {"images_per_second": round(ours, 1), "bare_onnx_runtime": round(bare, 1), "share": round(ours / bare, 3)}


def _network_of_any_batch() -> bytes:
    """The same network with a free batch size and ONNX Runtime's own threads: how most people would run it."""
    import torch

    from gddsg.backbones.efficientnet_lite import _features_module, _weights_file
    from gddsg.onnx_export import onnx_bytes

    module = _features_module("efficientnet-lite0", _weights_file("efficientnet-lite0"))
    return onnx_bytes(module, torch.zeros(2, 3, 224, 224), ("images", "features"), batches=True)


def accuracy(folder: Path, work: Path) -> dict[str, Any]:
    """Accuracy in per cent, in five calls, at once, and of two peers on the same features."""
    classes = sorted(path for path in (folder / "train").iterdir() if path.is_dir())
    with FeatureCache(work / "cache") as cache:
        grown, whole = (PhotoClassifier(work / name, cache=cache) for name in ("calls.gddsg", "once.gddsg"))
        for part in np.array_split(np.random.RandomState(0).permutation(len(classes)), CALLS):
            grown.learn(*(classes[i] for i in part))
        whole.learn(folder)
        found = {name: model.evaluate(folder) for name, model in (("in_calls", grown), ("at_once", whole))}
        data = embed_dataset(image_folder(folder), grown.backbone, cache)
    peers = {"nearest_mean": SimpleCIL(), "ranpac": RanPAC()}
    for name, peer in peers.items():
        predicted = peer.fit(data.train_features, data.train_labels).predict(data.test_features)
        found[name] = round(100 * average_accuracy(data.test_labels, predicted), 2)
    ours = {name: round(100 * found[name].average_accuracy, 2) for name in ("in_calls", "at_once")}
    return {"classes": len(classes), "photos": found["at_once"].photos, "A_N": {**found, **ours}}


def again_from_the_cache(folder: Path, work: Path) -> dict[str, Any]:
    """How much faster learning and evaluating are when the photos have been embedded before."""
    environment = {**os.environ, "GDDSG_CACHE": str(work / "command-cache")}
    (work / "command-cache").mkdir()
    run(["cache"], environment)
    load_backbone(device="cpu", folder=work / "command-cache")  # the export of the network is not what is measured here
    out: dict[str, Any] = {}
    for command in ("learn", "evaluate"):
        times = [
            seconds(lambda command=command, m=m: run([command, work / f"{m}.gddsg", folder], environment))
            for m in (("a", "b") if command == "learn" else ("a", "a"))
        ]
        out[f"command_{command}"] = _ratio(*times)
    with FeatureCache(work / "program-cache") as cache:
        for name in ("c", "d"):
            classifier = PhotoClassifier(work / f"{name}.gddsg", cache=cache)
            _ = classifier.backbone
            out.setdefault("learn", []).append(seconds(lambda c=classifier: c.learn(folder)))
            out.setdefault("evaluate", []).append(seconds(lambda c=classifier: c.evaluate(folder)))
    return {name: _ratio(*value) if isinstance(value, list) else value for name, value in out.items()}


def run(arguments: list[Any], environment: dict[str, str]) -> None:
    """One call of the command line."""
    command = [sys.executable, "-m", "gddsg", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)


def _ratio(first: float, second: float) -> dict[str, float]:
    return {"first": round(first, 2), "again": round(second, 2), "times_faster": round(first / second, 1)}


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
                    "dataset": folder.name,
                    "embedding": embedding_speed(folder),
                    **accuracy(folder, Path(work)),
                    "cached": again_from_the_cache(folder, Path(work)),
                }
            out.write(json.dumps(record) + "\n")
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
