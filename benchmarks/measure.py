"""Measure accuracy, order invariance, calibration, rejection and memory on feature files; write one record a line.

    python benchmarks/measure.py FOLDER --out benchmarks/records/features.jsonl

FOLDER holds ``.npz`` feature files (see ``features.py``). Ten tasks, class order from seed 1993, no sample kept.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

import gddsg
from features import FeatureSet, class_order, load_features, tasks
from gddsg import GDDSG, LEARNERS
from gddsg.bench.records import write_records
from gddsg.evaluation import average_accuracy, expected_calibration_error
from gddsg.learners import Learner

SEED, N_TASKS = 1993, 10


def learn(learner: Learner, data: FeatureSet, n_tasks: int = N_TASKS, seed: int = SEED) -> Learner:
    """Learn the data set task by task."""
    for X, y in tasks(data, n_tasks, seed):
        learner.partial_fit(X, y)
    return learner


def accuracy(learner: Learner, data: FeatureSet) -> float:
    """A_N in percent."""
    return round(100 * average_accuracy(data.test_labels, learner.predict(data.test)), 2)


def accuracies(data: FeatureSet, projection_dim: int) -> dict[str, Any]:
    """A_N of GDDSG with both decisions, and of two learners to compare it with."""
    names = ("gddsg", "simplecil", "ranpac")
    out = {name: accuracy(learn(LEARNERS[name](projection_dim=projection_dim), data), data) for name in names}
    hard = learn(GDDSG(projection_dim=projection_dim, decision="hard"), data)
    return {"projection_dim": projection_dim, "A_N": {**out, "gddsg, hard decision": accuracy(hard, data)}}


def order_invariance(data: FeatureSet, orders: int) -> dict[str, Any]:
    """Compare cards, labels and probabilities over class orders and task lengths, and after forgetting a class."""
    n_classes, sample = int(data.train_labels.max()) + 1, data.test[:: max(len(data.test) // 1000, 1)]
    reference = GDDSG().fit(data.train, data.train_labels)
    cards = {label: card.to_bytes() for label, card in reference.cards_.items()}
    table = reference.predict_proba(sample)
    differing, labels, gap = 0, 0, 0.0
    for seed, length in itertools.product(range(orders), (1, 7, n_classes)):
        model = learn(GDDSG(), data, -(-n_classes // length), seed)
        differing += sum(model.cards_[c].to_bytes() != cards[c] for c in cards)
        other = model.predict_proba(sample)
        labels += int((other.argmax(1) != table.argmax(1)).sum())
        gap = max(gap, float(np.abs(other - table).max()))
    forgotten = int(class_order(n_classes, SEED)[0])
    kept = data.train_labels != forgotten
    never = GDDSG().fit(data.train[kept], data.train_labels[kept]).predict_proba(sample)
    return {
        "runs": orders * 3,
        "cards_that_differ": differing,
        "labels_that_differ": labels,
        "largest_probability_gap": gap,
        "forget_probability_gap": float(np.abs(reference.forget(forgotten).predict_proba(sample) - never).max()),
    }


def graph(data: FeatureSet) -> dict[str, Any]:
    """Share of similar pairs, number of groups and the largest of them, for both distances."""
    found = {}
    for distance in ("cosine", "euclidean"):
        model = GDDSG(projection_dim=16, distance=distance).fit(data.train, data.train_labels)
        n, pairs = len(model.classes_), int(model.similarity_graph_.adjacency.sum()) // 2
        groups = model.class_groups_
        found[distance] = {
            "similar_pairs_percent": round(100 * pairs / (n * (n - 1) / 2), 1),
            "groups": len(groups),
            "largest_group": max(map(len, groups)),
        }
    return found


def split_classes(data: FeatureSet, parts: int = 4) -> dict[str, Any]:
    """A_N when every class comes in several batches instead of one."""
    whole = accuracy(GDDSG().fit(data.train, data.train_labels), data)
    model, part = GDDSG(), np.random.RandomState(0).randint(0, parts, len(data.train))
    for i in range(parts):
        model.partial_fit(data.train[part == i], data.train_labels[part == i])
    return {"parts": parts, "A_N_whole": whole, "A_N_split": accuracy(model, data)}


def trust(data: FeatureSet) -> dict[str, Any]:
    """Calibration of the probabilities; rejection with half of the classes unseen."""
    model = learn(GDDSG(), data)
    ece = expected_calibration_error(model.predict_proba(data.test), data.test_labels, model.classes_)
    kept_all = {str(q): float(np.mean(model.predict(data.test, reject=q, unknown=-1) != -1)) for q in (0.9, 0.95, 0.99)}
    n_classes = int(data.train_labels.max()) + 1
    half = class_order(n_classes, SEED)[: n_classes // 2]
    rows, known = np.isin(data.train_labels, half), np.isin(data.test_labels, half)
    model = GDDSG().fit(data.train[rows], data.train_labels[rows])
    kept = {
        str(q): float(np.mean(model.predict(data.test[known], reject=q, unknown=-1) != -1)) for q in (0.9, 0.95, 0.99)
    }
    auroc = float(roc_auc_score(~known, model.novelty(data.test)))
    return {"ece": ece, "auroc_unknown": auroc, "kept_share": kept_all, "kept_share_half": kept}


def memory(path: Path, projection_dim: int) -> dict[str, Any]:
    """File size and peak resident memory of a fresh process that learns the whole data set in ten tasks."""
    command = [sys.executable, __file__, str(path), "--memory", str(projection_dim)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def _measure_memory(path: Path, projection_dim: int) -> dict[str, Any]:
    data = load_features(path)
    model = learn(GDDSG(projection_dim=projection_dim), data)
    peak = _peak_mebibytes()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.gddsg"
        model.save(file)
        size = file.stat().st_size / 1e6
    return {"projection_dim": projection_dim, "classes": len(model.classes_), "file_MB": size, "peak_MiB": peak}


def _peak_mebibytes() -> float:
    """Peak resident memory of this process; ``getrusage`` would count that of the parent it was forked from too."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure every feature file in the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/features.jsonl"))
    parser.add_argument("--orders", type=int, default=10)
    parser.add_argument("--only", default="", help="comma-separated names of data sets; the records of others stay")
    parser.add_argument("--experiments", default="", help="comma-separated names; the records of others stay")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory:
        print(json.dumps(_measure_memory(args.folder, args.memory)))
        return
    versions = {"gddsg": gddsg.__version__, "torch": torch.__version__, "python": platform.python_version()}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    paths = sorted(args.folder.glob("*.npz"), key=lambda path: path.stat().st_size)
    for (name, measure), path in itertools.product(_experiments(args.orders), paths):
        data = load_features(path)
        if _wanted(data.name, args.only) and _wanted(name, args.experiments):
            record = {"dataset": data.name, "experiment": name, **measure(data, path), "versions": versions}
            _store(record, args.out)
            print(json.dumps(record), flush=True)


def _wanted(name: str, names: str) -> bool:
    return not names or name in names.split(",")


def _store(record: dict[str, Any], path: Path) -> None:
    """Put a record in the place of an older one of the same measurement, or at the end; in one step."""
    lines = path.read_text().splitlines() if path.exists() else []
    records = {_measurement(old): old for old in map(json.loads, lines)}
    records[_measurement(record)] = record
    write_records(path, records.values())


def _measurement(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["experiment"], record.get("projection_dim"), record["dataset"]


def _experiments(orders: int) -> list[tuple[str, Callable[[FeatureSet, Path], dict[str, Any]]]]:
    return [
        ("accuracy", lambda data, _: accuracies(data, 2_000)),
        ("trust", lambda data, _: trust(data)),
        ("split", lambda data, _: split_classes(data)),
        ("graph", lambda data, _: graph(data)),
        ("memory", lambda _, path: memory(path, 2_000)),
        ("memory", lambda _, path: memory(path, 10_000)),
        ("order", lambda data, _: order_invariance(data, orders)),
        ("accuracy", lambda data, _: accuracies(data, 10_000)),
    ]


if __name__ == "__main__":
    main()
