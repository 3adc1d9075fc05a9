"""Speed, measured side by side in one process: ratios only, since seconds depend on the machine.

    python benchmarks/bench_learn.py FOLDER --out benchmarks/records/speed.json

1. GDDSG against a plain re-implementation of the published recipe: the ten-task CUB-200 run, learning and evaluation
   after every task. FOLDER holds ``cub200*.npz`` (see ``features.py``).
2. Learning throughput against the GEMM peak of the machine, counting the projection and factor products only.
3. Adding one class to a model of 1000 classes and predicting, against fitting from scratch and predicting.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import published_recipe
from features import FeatureSet, class_order, load_features, tasks
from gddsg import GDDSG
from published_recipe import Task

M = 2_000


def seconds(call: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def against_published(data: FeatureSet, n_tasks: int, published_tasks: int) -> dict[str, Any]:
    """Learn and evaluate after every task, both ways; the published recipe may be stopped after some tasks."""
    classes = np.array_split(class_order(int(data.train_labels.max()) + 1, 1993), n_tasks)
    test = [(data.test[rows], data.test_labels[rows]) for rows in (np.isin(data.test_labels, c) for c in classes)]
    train = list(tasks(data, n_tasks, 1993))
    ours, model = {"learn": 0.0, "evaluate": 0.0}, GDDSG(projection_dim=M)
    ours_at = []
    for i, (X, y) in enumerate(train):
        ours["learn"] += seconds(lambda X=X, y=y: model.partial_fit(X, y))
        seen = np.concatenate([features for features, _ in test[: i + 1]])
        ours["evaluate"] += seconds(lambda seen=seen: model.predict(seen))
        ours_at.append(sum(ours.values()))
    published = [Task(*learnt, *tested) for learnt, tested in zip(train, test, strict=True)][:published_tasks]
    theirs = published_recipe.run(published, M, identifier=True)
    total = sum(theirs["learn_seconds"]) + sum(theirs["evaluate_seconds"])
    return {
        "tasks_compared": published_tasks,
        "gddsg_seconds": round(ours_at[published_tasks - 1], 2),
        "published_seconds": round(total, 1),
        "times_faster": round(total / ours_at[published_tasks - 1], 1),
    }


def throughput(n_classes: int = 40, n: int = 500, dim: int = 1280) -> dict[str, Any]:
    """Share of the GEMM peak reached while building cards like those of CIFAR-100."""
    A = torch.randn(2048, 2048)
    peak = max(2 * 2048**3 / seconds(lambda: A @ A) for _ in range(20))
    rng = np.random.default_rng(0)
    X = rng.random((n_classes * n, dim), dtype=np.float32)
    y = np.arange(n_classes).repeat(n)
    GDDSG(projection_dim=M).fit(X[: 2 * n], y[: 2 * n])
    taken = min(seconds(lambda: GDDSG(projection_dim=M).fit(X, y)) for _ in range(5))
    learnt, held = round(0.8 * n), round(0.2 * n)
    projection = 2 * n * dim * M
    grams = 2 * (n * n * dim + (learnt**2 + held**2) * M)
    factors = 2 * (64 * n * dim + (16 * learnt + 8 * held) * M)
    reached = n_classes * (projection + grams + factors) / taken
    return {"gemm_peak_gflops": round(peak / 1e9), "learning_gflops": round(reached / 1e9), "share": reached / peak}


def adding_a_class(n_classes: int = 1000, n: int = 50, dim: int = 1280, noise: float = 0.7) -> dict[str, Any]:
    """One more class of 50 samples: update and predict (median of three) against fit from scratch and predict."""
    rng = np.random.RandomState(0)
    centres = np.abs(rng.randn(n_classes + 3, dim)).repeat(n, 0)
    X = np.abs(centres + noise * rng.randn(len(centres), dim)).astype(np.float32)
    y = np.arange(n_classes + 3).repeat(n)
    queries = np.abs(X[:: 5 * n] + 0.4 * noise * rng.randn(len(X[:: 5 * n]), dim)).astype(np.float32)
    grown, updates = GDDSG(projection_dim=M).fit(X[y < n_classes], y[y < n_classes]), []
    grown.predict(queries)
    for newcomer in range(n_classes, n_classes + 3):
        rows = y == newcomer
        updates.append(seconds(lambda rows=rows: grown.partial_fit(X[rows], y[rows]).predict_proba(queries)))
    fresh = GDDSG(projection_dim=M)
    fitting, updating = seconds(lambda: fresh.fit(X, y).predict_proba(queries)), float(np.median(updates))
    return {
        "dim": dim,
        "noise": noise,
        "groups": len(grown.class_groups_),
        "queries": len(queries),
        "update_seconds": round(updating, 3),
        "scratch_seconds": round(fitting, 2),
        "times_faster": round(fitting / updating, 1),
        "largest_probability_gap": float(np.abs(grown.predict_proba(queries) - fresh.predict_proba(queries)).max()),
    }


def main() -> None:
    """Run all three and write one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/speed.json"))
    parser.add_argument("--published-tasks", type=int, default=10, help="stop the slow side after so many tasks")
    args = parser.parse_args()
    kinds = itertools.product((256, 1280), (0.7, 1.5))  # classes that are hardly confused, classes that often are
    record = {"throughput": throughput(), "adding_a_class": [adding_a_class(dim=d, noise=s) for d, s in kinds]}
    print(json.dumps(record), flush=True)
    data = load_features(next(args.folder.glob("cub200*.npz")))
    record["published_recipe"] = against_published(data, 10, args.published_tasks)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
