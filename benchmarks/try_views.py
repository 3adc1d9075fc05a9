"""Whether cards could choose between features as they are and their square root: held back training samples say no.

    python benchmarks/try_views.py FOLDER --out benchmarks/records/views.json

FOLDER holds ``cifar100*.npz``, ``cub200*.npz`` and ``dogs*.npz``. Each fifth of the training samples is classified by a
discriminant of the others, in both views. Beside the accuracy stands how often an input lies on the wrong side between
its class and one of the five nearest rivals, counted, and as the cards would have it: by Gaussian margins with the
scatter that all classes share, or with that of the class.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gddsg.bench.revision import code_revision
from gddsg.core.discriminant import moments_in
from gddsg.core.model import Model
from gddsg.core.transform import apply_view
from gddsg.data import FeatureDataset, feature_file
from gddsg.files import replace_file
from gddsg.learners import Discriminant

DATASETS = ("cifar100", "cub200", "dogs")
VIEWS = {"root": "auto", "raw": "none"}  # as the setting feature_transform calls them
FOLDS, RIVALS = 5, 5


def judged(model: Model, inputs: Any, labels: Any) -> dict[str, float]:
    """Share of wrong sides between classes and their rivals: counted, and by two estimates."""
    metric, cards = model.derived.metric, model.cards
    parts = [moments_in(metric, card) for card in cards.values()]
    means = metric.whiten(torch.stack([part.mean for part in parts]))
    rivals = torch.cdist(means, means).fill_diagonal_(torch.inf).topk(RIVALS, largest=False).indices
    gaps = means[:, None] - means[rivals]  # (classes, rivals, dim)
    inflation = 1 / (1 - metric.optimism)
    counts = torch.tensor([float(part.count) for part in parts], dtype=torch.float64)
    margins = gaps.square().sum(2) / 2 - inflation * metric.effective_dim / counts[:, None]
    shared = metric.whitener.T @ metric.pooled @ metric.whitener
    pooled = ((gaps @ shared) * gaps).sum(2).sqrt()
    own = torch.stack(
        [
            (gap @ (part.factor.decoded().double() @ metric.whitener).T).square().sum(1).div(part.count - 1).sqrt()
            for gap, part in zip(gaps, parts, strict=True)
        ]
    )
    place = {label: i for i, label in enumerate(cards)}
    rows = torch.tensor([place[label] for label in labels.tolist()])
    whitened = metric.whiten(torch.from_numpy(apply_view(inputs, metric.view)))
    middles = (means[:, None] + means[rivals]) / 2
    sides = torch.cat([_sides(*some, middles, gaps) for some in zip(whitened.split(512), rows.split(512), strict=True)])
    return {
        "counted": float((sides < 0).double().mean()),
        "by pooled scatter": float(torch.special.ndtr(-margins / (inflation * pooled)).mean()),
        "by own scatter": float(torch.special.ndtr(-margins / (inflation * own)).mean()),
    }


def _sides(inputs: Tensor, rows: Tensor, middles: Tensor, gaps: Tensor) -> Tensor:
    return ((inputs[:, None] - middles[rows]) * gaps[rows]).sum(2)


def tried(data: FeatureDataset) -> dict[str, Any]:
    """Accuracy and pair errors in both views, and how far plain features are ahead, with its standard error."""
    fold = np.random.default_rng(0).integers(0, FOLDS, len(data.train_labels))
    right = {view: np.zeros(len(fold), dtype=bool) for view in VIEWS}
    pairs: dict[str, list[dict[str, float]]] = {view: [] for view in VIEWS}
    for k in range(FOLDS):
        X, y, held_X, held_y = (part[chosen] for chosen in (fold != k, fold == k) for part in _train(data))
        for view, transform in VIEWS.items():
            learner = Discriminant(feature_transform=transform).fit(X, y)  # type: ignore[arg-type]
            right[view][fold == k] = learner.predict(held_X) == held_y
            pairs[view].append(judged(learner.learnt_.state, held_X, held_y))
    ahead = right["raw"].astype(float) - right["root"]
    means = {
        view: {name: round(100 * float(np.mean([one[name] for one in found])), 2) for name in found[0]}
        for view, found in pairs.items()
    }
    return {
        "accuracy": {view: round(100 * float(found.mean()), 2) for view, found in right.items()},
        "raw ahead": round(100 * float(ahead.mean()), 2),
        "standard error": round(100 * float(ahead.std()) / len(ahead) ** 0.5, 2),
        "pair errors": means,
    }


def _train(data: FeatureDataset) -> tuple[Any, Any]:
    return data.train_features, data.train_labels


def page_lines(record: Mapping[str, Any]) -> list[str]:
    """The table of docs/tried.md: root and plain features side by side."""
    found = {one["dataset"]: one for one in record["values"]}

    def line(name: str, of: Any) -> str:
        return f"| {name} | {' | '.join(of(found[dataset]) for dataset in DATASETS)} |"

    def both(key: str) -> Any:
        return lambda one: " / ".join(f"{one['pair errors'][view][key]:.2f}" for view in VIEWS)

    return [
        "| root / plain features | CIFAR-100 | CUB-200 | Stanford Dogs |",
        "|---|---|---|---|",
        line("accuracy", lambda one: " / ".join(f"{one['accuracy'][view]:.2f}" for view in VIEWS)),
        line("plain ahead by", lambda one: f"{one['raw ahead']:+.2f} ± {one['standard error']:.2f}"),
        line("errors against rivals, counted", both("counted")),
        line("by the scatter of all classes", both("by pooled scatter")),
        line("by the scatter of the class", both("by own scatter")),
    ]


def main() -> None:
    """Try both views on all data sets, and write one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/views.json"))
    args = parser.parse_args()
    lines = []
    for name in DATASETS:
        lines.append({"dataset": name, **tried(feature_file(next(args.folder.glob(f"{name}*.npz"))))})
        print(json.dumps(lines[-1]), flush=True)
    record = {"revision": code_revision(), "values": lines}
    replace_file(args.out, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
    print("\n".join(page_lines(record)))


if __name__ == "__main__":
    main()
