"""What the features of a hybrid ViT are worth, beside those of the network that its stem is a part of.

    python benchmarks/bench_hybrid.py FOLDER... --backbone hybrid-vit --out benchmarks/records/hybrid.json

Each FOLDER holds ``train/`` and ``test/`` with one folder a class. For each of them it measures the accuracy of the
nearest class mean by cosine: of the pooled features of EfficientNet-Lite0, and of the ViT's class token.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gddsg.backbones import FeatureCache, load_backbone
from gddsg.bench.revision import code_revision
from gddsg.data import image_folder
from gddsg.files import replace_file
from gddsg.photos import embed_photos

TEACHER = "efficientnet-lite0"


def nearest_mean(
    train: NDArray[np.float32], train_labels: NDArray[Any], test: NDArray[np.float32], test_labels: NDArray[Any]
) -> float:
    """Percentage of test samples whose class has the mean nearest to them by cosine."""
    classes = np.unique(train_labels)
    means = np.stack([train[train_labels == one].mean(axis=0) for one in classes])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return round(100 * float(np.mean(classes[np.argmax(test @ means.T, axis=1)] == test_labels)), 2)


def measure(folder: Path, backbones: dict[str, Any], cache: FeatureCache) -> dict[str, Any]:
    """Nearest-mean accuracy of each backbone, and the last as a share of the first."""
    data = image_folder(folder)
    found: dict[str, Any] = {"dataset": folder.name, "classes": len(data.classes)}
    found |= {"train": len(data.train), "test": len(data.test)}
    labels = [np.array([photo.label for photo in part]) for part in (data.train, data.test)]
    for role, backbone in backbones.items():
        train, test = (embed_photos(part, backbone, cache).features for part in (data.train, data.test))
        found[role] = nearest_mean(train, labels[0], test, labels[1])
    found["share"] = round(found["vit"] / found["stem_pooled"], 3)
    print(json.dumps(found), flush=True)
    return found


def main() -> None:
    """Measure, print, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--backbone", default="hybrid-vit", help="hybrid-vit, or hf:FOLDER of pretrain-vit")
    parser.add_argument("--out", type=Path, help="record, JSON")
    arguments = parser.parse_args()
    backbones = {"stem_pooled": load_backbone(TEACHER, "cpu"), "vit": load_backbone(arguments.backbone, "cpu")}
    with FeatureCache() as cache:
        rows = [measure(folder, backbones, cache) for folder in arguments.folders]
    identity = f"{arguments.backbone.partition(':')[0]}@{backbones['vit'].fingerprint}"
    record = {"revision": code_revision(), "vit": identity, "teacher": backbones["stem_pooled"].identity, "rows": rows}
    if arguments.out is not None:
        replace_file(arguments.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
