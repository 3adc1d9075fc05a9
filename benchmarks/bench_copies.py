"""What near copies of photos do to a model, counted as one and counted as photos of their own.

    python benchmarks/bench_copies.py FOLDER... --out benchmarks/records/copies.jsonl

Each FOLDER holds one folder a class, below ``train/`` and ``test/`` or not. All photos are split five times into learnt
and tested ones. Learnt are the photos alone, with a mirrored copy each, with nine near copies each, and with nine near
copies of every fifth photo; the photos that are tested have none. Copies that come in batches must give the model that
all at once give, up to what merging rounds. At last every limit by which copies are told takes another value, one at a
time. The tables of docs/photos.md are those of the record.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps

from gddsg import GDDSG
from gddsg.backbones import FeatureCache, load_backbone
from gddsg.bench.revision import code_revision
from gddsg.core import near_copies
from gddsg.data import image_folder
from gddsg.data.photo import Photo
from gddsg.evaluation import average_accuracy
from gddsg.files import replace_file
from gddsg.photos import embed_photos
from gddsg.photos.quality import choose_backbone

SPLITS, BATCHES = 5, 10
NAMES = {"cub200_small": "CUB-200, 40 classes", "cifar100_small": "CIFAR-100, 25 classes"}
LEARNT = {
    "alone": "the photos alone",
    "mirrored": "with a mirrored copy of each",
    "nine": "with nine near copies of each",
    "bursts": "with nine near copies of one in five",
}

OTHER_VALUES = {
    "NEAR_SHARE": (0.3, 0.5),
    "FAR_QUANTILE": (0.5, 0.9),
    "LEAST_BITS": (2, 8),
    "MOST_BITS": (14, 26),
}
"""Of the limits by which copies are told; the one that decides whether somebody is told of a copy changes no model."""

Edit = Callable[[Image.Image], Image.Image]


def _cropped(left: float, top: float, share: float) -> Edit:
    def edit(image: Image.Image) -> Image.Image:
        width, height = (side * share for side in image.size)
        x, y = left * (image.width - width), top * (image.height - height)
        return image.crop((round(x), round(y), round(x + width), round(y + height)))

    return edit


def _brightened(factor: float) -> Edit:
    return lambda image: ImageEnhance.Brightness(image).enhance(factor)


def _saved_again(quality: int) -> Edit:
    def edit(image: Image.Image) -> Image.Image:
        stored = BytesIO()
        image.save(stored, "JPEG", quality=quality)
        return Image.open(stored).convert("RGB")

    return edit


EDITS: dict[str, tuple[Edit, ...]] = {
    "mirror": (ImageOps.mirror,),
    "crop, left and top": (_cropped(0, 0, 0.9),),
    "crop, right and bottom": (_cropped(1, 1, 0.85),),
    "brighter": (_brightened(1.25),),
    "darker": (_brightened(0.8),),
    "JPEG of quality 40": (_saved_again(40),),
    "JPEG of quality 70": (_saved_again(70),),
    "mirror and crop": (ImageOps.mirror, _cropped(0.5, 0, 0.9)),
    "mirror, brighter, JPEG": (ImageOps.mirror, _brightened(1.15), _saved_again(80)),
}
"""Nine ways to make a near copy."""


def copies(folder: Path, classes: int | None, cache: FeatureCache) -> dict[str, Any]:
    """Accuracy with and without copies, and how many photos are taken for copies."""
    data = image_folder(folder)
    wanted = set(data.classes[:: max(len(data.classes) // classes, 1)] if classes else data.classes)
    photos = [photo for photo in (*data.train, *data.test) if photo.label in wanted]
    backbone = load_backbone(choose_backbone("good", photos), "cpu")
    features = [embed_photos(photos, backbone, cache).features]
    for name in EDITS:
        features.append(embed_photos([_edited(photo, name) for photo in photos], backbone, cache).features)
    labels, share = np.array([photo.label for photo in photos]), len(data.train) / (len(data.train) + len(data.test))
    versions, parts = np.stack(features, axis=1), [_split(labels, share, seed) for seed in range(SPLITS)]
    splits = [_judge(versions, labels, *parts[seed], seed) for seed in range(SPLITS)]
    return {
        "dataset": folder.name,
        "classes": len(wanted),
        "photos": len(photos),
        "backbone": backbone.name,
        "splits": SPLITS,
        "found": {how: _mean([split[how] for split in splits]) for how in LEARNT},
        "in_batches": _mean([split["in_batches"] for split in splits]),
        "limits": [_with_limit(name, value, versions, labels, parts) for name, value in _limits()],
    }


def _limits() -> Iterator[tuple[str, float]]:
    for name, others in OTHER_VALUES.items():
        for value in sorted({getattr(near_copies, name), *others}):
            yield name, value


def _with_limit(
    name: str,
    value: float,
    versions: NDArray[Any],
    labels: NDArray[Any],
    splits: Sequence[tuple[NDArray[np.intp], ...]],
) -> dict[str, Any]:
    """Accuracy with another value of a limit, of photos alone and of photos with nine copies each."""
    used, found = getattr(near_copies, name) == value, dict[str, list[float]]()
    with patch.object(near_copies, name, value):
        for learnt, tested in splits:
            for how, n in (("alone", 1), ("nine", versions.shape[1])):
                X, y = versions[learnt, :n].reshape(-1, versions.shape[2]), labels[learnt].repeat(n)
                model = GDDSG().partial_fit(X, y, sample_ids=np.arange(len(y)))
                found.setdefault(how, []).append(_accuracy(model, versions[tested, 0], labels[tested]))
    return {"limit": name, "value": value, "used": used} | {
        how: round(float(np.mean(one)), 2) for how, one in found.items()
    }


def _edited(photo: Photo, name: str) -> Photo:
    image = photo.image(photo.read(), 0)
    for edit in EDITS[name]:
        image = edit(image)
    return Photo.of_pixels(np.asarray(image), photo.label, f"{photo.name}, {name}")


def _split(labels: NDArray[Any], share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places of learnt and of tested photos; of every class the same share is learnt."""
    rng, learnt = np.random.default_rng(seed), np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        places = rng.permutation(np.flatnonzero(labels == label))
        learnt[places[: round(share * len(places))]] = True
    return np.flatnonzero(learnt), np.flatnonzero(~learnt)


def _judge(
    features: NDArray[Any], labels: NDArray[Any], learnt: NDArray[np.intp], tested: NDArray[np.intp], seed: int
) -> dict[str, dict[str, float]]:
    """What comes of one split; ``features`` are ``(photos, versions, dim)``, the photo itself first."""
    n, versions = len(learnt), features.shape[1]
    chosen = {how: np.zeros((n, versions), dtype=bool) for how in LEARNT}
    for version in chosen.values():
        version[:, 0] = True
    chosen["mirrored"][:, 1] = True
    chosen["nine"][:] = True
    chosen["bursts"][np.random.default_rng(seed).random(n) < 0.2] = True
    queries, truth, found = features[tested, 0], labels[tested], {}
    for how, versions_of in chosen.items():
        rows, columns = np.nonzero(versions_of)
        X, y, ids = features[learnt[rows], columns], labels[learnt[rows]], np.arange(len(rows))
        counted, bare = GDDSG().partial_fit(X, y, sample_ids=ids), GDDSG().partial_fit(X, y)
        found[how] = {
            "counted_as_one": _accuracy(counted, queries, truth),
            "counted_each": _accuracy(bare, queries, truth),
            "photos": float(len(rows)),
            "distinct": float(sum(card.distinct for card in counted.model_.cards.values())),
        }
        if how == "nine":
            found["in_batches"] = _compare(counted, _in_batches(X, y, ids, seed), queries, truth)
    return found


def _in_batches(X: NDArray[Any], y: NDArray[Any], ids: NDArray[Any], seed: int) -> GDDSG:
    """The model that learns all photos and copies in batches of chance."""
    model = GDDSG()
    for batch in np.array_split(np.random.default_rng(seed).permutation(len(y)), BATCHES):
        model.partial_fit(X[batch], y[batch], sample_ids=ids[batch])
    return model


def _compare(whole: GDDSG, parts: GDDSG, queries: NDArray[Any], truth: NDArray[Any]) -> dict[str, float]:
    pairs = zip(whole.model_.cards.values(), parts.model_.cards.values(), strict=True)
    same = [a.distinct == b.distinct and a.count == b.count for a, b in pairs]
    return {
        "accuracy": _accuracy(parts, queries, truth),
        "same_labels": 100 * float(np.mean(np.array(whole.predict(queries)) == np.array(parts.predict(queries)))),
        "same_counts": 100 * float(np.mean(same)),
    }


def _accuracy(model: GDDSG, queries: NDArray[Any], truth: NDArray[Any]) -> float:
    return 100 * average_accuracy(truth, model.predict(queries))


def _mean(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(float(np.mean([one[name] for one in found])), 2) for name in found[0]}


def copy_lines(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """The table of docs/photos.md."""
    lines = [
        "| photos | learnt | how many | taken for distinct | accuracy | each counted as a photo of its own |",
        "|---|---|---|---|---|---|",
    ]
    for record in records:
        for how, words in LEARNT.items():
            one = record["found"][how]
            cells = [NAMES.get(record["dataset"], record["dataset"]), words, f"{one['photos']:.0f}"]
            cells += [f"{one['distinct']:.0f}", f"{one['counted_as_one']:.1f}", f"{one['counted_each']:.1f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def limit_lines(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The second table of docs/photos.md: accuracy of photos alone, and with nine copies each."""
    names = [NAMES.get(record["dataset"], record["dataset"]) for record in records]
    lines = [f"| limit | value | {' | '.join(names)} |", f"|---|---{'|---' * len(names)}|"]
    for rows in zip(*(record["limits"] for record in records), strict=True):
        mark = "**" if rows[0]["used"] else ""
        cells = [f"`{rows[0]['limit']}`", f"{mark}{rows[0]['value']:g}{mark}"]
        cells += [f"{one['alone']:.1f}, {one['nine']:.1f}" for one in rows]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """One record a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--classes", type=int, help="take about so many of each folder, evenly spread")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/copies.jsonl"))
    args = parser.parse_args()
    revision = code_revision()  # of what was imported, whatever is changed meanwhile
    with FeatureCache() as cache:
        found = [{"revision": revision, **copies(folder, args.classes, cache)} for folder in args.folders]
    replace_file(args.out, "".join(json.dumps(record) + "\n" for record in found).encode())
    print("\n".join([*copy_lines(found), *limit_lines(found)]))


if __name__ == "__main__":
    main()
