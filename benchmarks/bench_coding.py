"""How many bits an entry of a card's factor takes: accuracy after one batch and after many merges.

    python benchmarks/bench_coding.py FOLDER --out benchmarks/records/coding.json

FOLDER holds ``cifar100*.npz``, whose classes have enough samples to come in fifty batches.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from gddsg import GDDSG
from gddsg.bench.revision import code_revision
from gddsg.core import coded_rows
from gddsg.data import FeatureDataset, feature_file
from gddsg.evaluation import average_accuracy
from gddsg.files import replace_file

BITS, PARTS = (8, 6, 4), (1, 4, 50)


def accuracy(data: FeatureDataset, parts: int) -> float:
    """A_N in per cent when every class comes in so many batches; narrow heads, which coding does not touch."""
    part, rng = np.empty(len(data.train_labels), dtype=int), np.random.RandomState(0)
    for label in np.unique(data.train_labels):
        rows = rng.permutation(np.flatnonzero(data.train_labels == label))
        part[rows] = np.arange(len(rows)) % parts
    model = GDDSG(projection_dim=16)
    for i in range(parts):
        model.partial_fit(data.train_features[part == i], data.train_labels[part == i])
    return round(100 * average_accuracy(data.test_labels, model.predict(data.test_features)), 2)


def main() -> None:
    """Measure all widths, and write one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/coding.json"))
    args = parser.parse_args()
    data = feature_file(next(args.folder.glob("cifar100*.npz")))
    values = []
    for bits in BITS:
        coded_rows._STEPS = 2 ** (bits - 1) - 1
        values.append({"bits": bits, "A_N": {str(parts): accuracy(data, parts) for parts in PARTS}})
        print(json.dumps(values[-1]), flush=True)
    record = {"revision": code_revision(), "values": values}
    replace_file(args.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
