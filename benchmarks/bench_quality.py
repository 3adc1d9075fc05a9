"""What the qualities of a photo model are worth and what they cost, and where thumbnails end.

    python benchmarks/bench_quality.py FOLDER... --shrink FOLDER --out benchmarks/records/quality.jsonl

Each FOLDER holds ``train/`` and ``test/`` with one folder a class. For each of them it measures, for every quality,

1. accuracy of ``learn`` and ``evaluate``; of thumbnails also with the backbone that larger photos would get;
2. photos a second, decoding included, beside bare ONNX Runtime on the same images, already decoded; all in turns.

The photos of the folder named by ``--shrink`` are made smaller and smaller instead, and classified from inputs of 224
and of 288 pixels: from the size at which the latter does better photos are no thumbnails. The larger networks need
``pip install 'gddsg[lite]'``. The tables of docs/photos.md are those of the record.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gddsg import GDDSG, PhotoClassifier
from gddsg.backbones import Backbone, FeatureCache, load_backbone
from gddsg.backbones.efficientnet_lite import features_module, read_weights
from gddsg.backbones.names import PartName, split_name
from gddsg.bench.revision import code_revision
from gddsg.data import image_folder
from gddsg.data.photo import Photo
from gddsg.evaluation import average_accuracy
from gddsg.files import replace_file
from gddsg.onnx_runtime import onnx_bytes, open_session
from gddsg.photos import embed_photos
from gddsg.photos.quality import choose_backbone

QUALITIES = ("fast", "good", "best")
INPUTS = {"224": "efficientnet-lite0", "288": "efficientnet-lite0@288"}
SIDES = (32, 48, 64, 96, 128, 192)
REPEATS, SPLITS = 3, 10
NAMES = {"cub200": "CUB-200", "cub200_small": "CUB-200, 40 classes", "cifar100_small": "CIFAR-100, 50 photos a class"}


def qualities(folder: Path, cache: FeatureCache, images: int) -> dict[str, Any]:
    """Accuracy of every quality, and its speed on so many images."""
    data, found, backbones = image_folder(folder), dict[str, dict[str, Any]](), dict[str, Backbone]()
    for quality in QUALITIES:
        backbones[quality], accuracy = learnt(folder, cache, quality=quality)
        found[quality] = {"backbone": backbones[quality].name, "features": backbones[quality].feature_dim}
        found[quality]["A_N"] = accuracy
        for_photos = choose_backbone(quality)
        if for_photos != backbones[quality].name:  # these are thumbnails
            found[quality]["A_N_as_photos"] = learnt(folder, cache, backbone=for_photos)[1]
    for quality, speed in speeds(backbones, data.train[:: max(len(data.train) // images, 1)]).items():
        found[quality] |= speed
    sides = [photo.shorter_side() for photo in data.train]
    sizes = {"classes": len(data.classes), "train": len(data.train), "test": len(data.test)}
    return {"dataset": folder.name, **sizes, "median_side": statistics.median(sides), "qualities": found}


def learnt(folder: Path, cache: FeatureCache, **choice: str) -> tuple[Backbone, float]:
    """The backbone of a new model, and its A_N in per cent."""
    with tempfile.TemporaryDirectory() as work:
        model = PhotoClassifier(Path(work, "model"), device="cpu", cache=cache, **choice)
        model.learn(folder)
        return model.backbone, round(100 * model.evaluate(folder).average_accuracy, 2)


def speeds(backbones: Mapping[str, Backbone], photos: Sequence[Photo]) -> dict[str, dict[str, float]]:
    """Photos a second: ours from files, ONNX Runtime alone from arrays, all in turns; medians of three."""
    bare = {quality: [_bare(part, photos) for part in split_name(one.name)] for quality, one in backbones.items()}
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(REPEATS):
        for quality, backbone in backbones.items():
            ours = seconds(lambda backbone=backbone: embed_photos(photos, backbone))
            alone = seconds(lambda quality=quality: [run() for run in bare[quality]])
            times.setdefault((quality, "photos_per_second"), []).append(ours)
            times.setdefault((quality, "bare_onnx_runtime"), []).append(alone)
    found: dict[str, dict[str, float]] = {}
    for (quality, side), taken in times.items():
        found.setdefault(quality, {})[side] = round(len(photos) / statistics.median(taken), 1)
    return found


def _bare(part: PartName, photos: Sequence[Photo]) -> Callable[[], object]:
    """One network of any batch size with ONNX Runtime's own threads, and its images in memory."""
    import torch

    preprocess = load_backbone(str(part), "cpu").preprocess
    images = [preprocess(photo.image(photo.read(), preprocess.useful_side)) for photo in photos]
    batches = [np.stack(images[i : i + 8]) for i in range(0, len(images), 8)]
    network = features_module(part.network, read_weights(part.network))
    content = onnx_bytes(network, torch.zeros(2, *preprocess.shape), ("images", "features"), batches=True)
    session = open_session(content)
    return lambda: [session.run(None, {"images": batch}) for batch in batches]


def seconds(call: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def shrunk(folder: Path, cache: FeatureCache) -> dict[str, Any]:
    """Accuracy from photos made smaller, by input size; means over ten splits of all photos."""
    data, found = image_folder(folder), {}
    photos = [*data.train, *data.test]
    share = len(data.train) / len(photos)
    backbones = {size: load_backbone(name, "cpu") for size, name in INPUTS.items()}
    for side in SIDES:
        smaller = [_shrunk(photo, side) for photo in photos]
        found[str(side)] = {
            size: round(_accuracy(embed_photos(smaller, backbone, cache).features, photos, share), 2)
            for size, backbone in backbones.items()
        }
        print(json.dumps({side: found[str(side)]}), flush=True)
    return {"dataset": folder.name, "photos": len(photos), "splits": SPLITS, "shrunk": found}


def _shrunk(photo: Photo, side: int) -> Photo:
    image = photo.image(photo.read(), 0)
    scale = side / min(image.size)
    size = (round(image.width * scale), round(image.height * scale))
    small = image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3)
    return Photo.of_pixels(np.asarray(small), photo.label, photo.name)


def _accuracy(features: Any, photos: Sequence[Photo], share: float) -> float:
    labels, accuracies = np.array([photo.label for photo in photos]), []
    for seed in range(SPLITS):
        rng, learnt = np.random.default_rng(seed), np.zeros(len(labels), dtype=bool)
        for label in np.unique(labels):
            rows = rng.permutation(np.flatnonzero(labels == label))
            learnt[rows[: round(share * len(rows))]] = True
        predicted = GDDSG().fit(features[learnt], labels[learnt]).predict(features[~learnt])
        accuracies.append(100 * average_accuracy(labels[~learnt], predicted))
    return float(np.mean(accuracies))


def quality_lines(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """The first table of docs/photos.md."""
    lines = [
        "| photos | quality | backbone | accuracy | forward pass, against fast | photos a second | bare ONNX Runtime |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in records:
        found = record.get("qualities", {})
        for quality, one in found.items():
            bare = one["bare_onnx_runtime"]
            cells = [NAMES.get(record["dataset"], record["dataset"]), quality, f"`{one['backbone']}`"]
            cells += [f"{one['A_N']:.1f}", f"{found['fast']['bare_onnx_runtime'] / bare:.1f}"]
            cells += [f"{one['photos_per_second']:.0f}", f"{bare:.0f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def thumbnail_line(records: Iterable[Mapping[str, Any]]) -> str:
    """What docs/photos.md says of thumbnails seen as photos are."""
    (found,) = (
        [q for q in one.get("qualities", {}).values() if "A_N_as_photos" in q] for one in records if _small(one)
    )
    worse = [f"{one['A_N']:.1f} to {one['A_N_as_photos']:.1f} (`{one['backbone']}`)" for one in found]
    return f"with the input of larger photos they go from {' and from '.join(worse)}"


def _small(record: Mapping[str, Any]) -> bool:
    return any("A_N_as_photos" in one for one in record.get("qualities", {}).values())


def shrunk_lines(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """The second table of docs/photos.md."""
    (sides,) = (record["shrunk"] for record in records if "shrunk" in record)
    lines = [f"| pixels of the shorter side | {' | '.join(sides)} |", f"|---{'|---' * len(sides)}|"]
    for size in INPUTS:
        cells = [f"{one[size]:.1f}" for one in sides.values()]
        lines.append(f"| input of {size} × {size} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """One record a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--shrink", type=Path, metavar="FOLDER")
    parser.add_argument("--images", type=int, default=400, help="by which speed is measured")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/quality.jsonl"))
    args = parser.parse_args()
    records: list[dict[str, Any]] = []
    with FeatureCache() as cache:
        for folder in args.folders:
            records.append({"revision": code_revision(), **qualities(folder, cache, args.images)})
            print(json.dumps(records[-1]), flush=True)
        if args.shrink is not None:
            records.append({"revision": code_revision(), **shrunk(args.shrink, cache)})
    replace_file(args.out, "".join(json.dumps(record) + "\n" for record in records).encode())
    print("\n".join(quality_lines(records)))


if __name__ == "__main__":
    main()
