"""How well the cards choose between features as they are and their square root, on training samples held back.

    python benchmarks/try_views.py FOLDER --out benchmarks/records/views.json

FOLDER holds ``cifar100*.npz``, ``cub200*.npz`` and ``dogs*.npz``. A fifth of the training samples is held back and
classified by a discriminant of the others in either view, with all classes or 30 of them, and with all samples or 20 of
each class; three draws of each. No test sample is looked at.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from gddsg.bench.revision import code_revision
from gddsg.core import metric
from gddsg.core.view_choice import choose_view
from gddsg.data import FeatureDataset, feature_file
from gddsg.files import replace_file
from gddsg.learners import Discriminant

DATASETS = ("cifar100", "cub200", "dogs")
VIEWS = ("root", "raw")
FEW_CLASSES, FEW_SAMPLES, DRAWS = 30, 20, 3
EVERYTHING = 10**9
SETTINGS = {
    "all classes and samples": (EVERYTHING, EVERYTHING),
    f"{FEW_SAMPLES} samples a class": (EVERYTHING, FEW_SAMPLES),
    f"{FEW_CLASSES} classes": (FEW_CLASSES, EVERYTHING),
    f"{FEW_CLASSES} classes, {FEW_SAMPLES} samples each": (FEW_CLASSES, FEW_SAMPLES),
}


def drawn(labels: Any, n_classes: int, n_samples: int, seed: int) -> tuple[Any, Any]:
    """Places of samples to learn and of samples held back, of some classes."""
    rng, learnt, held = np.random.default_rng(seed), [], []
    for label in rng.permutation(np.unique(labels))[:n_classes]:
        rows = rng.permutation(np.flatnonzero(labels == label))
        fifth = max(len(rows) // 5, 1)
        held.append(rows[:fifth])
        learnt.append(rows[fifth:][:n_samples])
    return np.concatenate(learnt), np.concatenate(held)


def tried(data: FeatureDataset) -> Iterator[dict[str, Any]]:
    """Accuracy in per cent of either view, and which of them the cards choose."""
    X, y = data.train_features, data.train_labels
    for setting, sizes in SETTINGS.items():
        for seed in range(DRAWS):
            learnt, held = drawn(y, *sizes, seed)
            found: dict[str, float] = {}
            for view in VIEWS:
                with patch.object(metric, "choose_view", return_value=view):
                    learner = Discriminant().fit(X[learnt], y[learnt])
                    found[view] = round(100 * float(np.mean(learner.predict(X[held]) == y[held])), 2)
            chosen = choose_view(list(learner.learnt_.state.cards.values()))
            yield {"setting": setting, "seed": seed, **found, "chosen": chosen}


def page_lines(record: Mapping[str, Any]) -> list[str]:
    """The table of docs/tried.md: means over draws of root, of plain features, and of what the cards choose."""
    lines = ["| root / plain / chosen by the cards | CIFAR-100 | CUB-200 | Stanford Dogs |", "|---|---|---|---|"]
    for setting in SETTINGS:
        cells = []
        for dataset in DATASETS:
            draws = [one for one in record["values"] if (one["dataset"], one["setting"]) == (dataset, setting)]
            shown = [np.mean([one[view] for one in draws]) for view in VIEWS]
            plain = sum(one["chosen"] == "raw" for one in draws)
            by_cards = np.mean([one[one["chosen"]] for one in draws])
            cells.append(f"{shown[0]:.2f} / {shown[1]:.2f} / {by_cards:.2f} (plain {plain} of {len(draws)})")
        lines.append(f"| {setting} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Try both views on all data sets, and write one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/views.json"))
    args = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for name in DATASETS:
        for line in tried(feature_file(next(args.folder.glob(f"{name}*.npz")))):
            lines.append({"dataset": name, **line})
            print(json.dumps(lines[-1]), flush=True)
    record = {"revision": code_revision(), "values": lines}
    replace_file(args.out, (json.dumps(record, indent=1) + "\n").encode())
    print("\n".join(page_lines(record)))


if __name__ == "__main__":
    main()
