"""What accuracy and calibration become with other values of the constants that were set while looking at data sets.

    python benchmarks/sweep_constants.py FOLDER --out benchmarks/records/constants.json

FOLDER holds ``cifar100*.npz``, ``cub200*.npz`` and ``dogs*.npz``. Class cards are made once for each of them; then one
constant at a time takes another value. The tables of docs/constants.md are those of the record.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from gddsg import GDDSG
from gddsg.bench.revision import code_revision
from gddsg.core import decision, metric, predictor, rivals
from gddsg.core.model import Model
from gddsg.data import FeatureDataset, feature_file
from gddsg.evaluation import average_accuracy, expected_calibration_error
from gddsg.files import replace_file

DATASETS = ("cifar100", "cub200", "dogs")


@dataclass(frozen=True)
class Constant:
    """A constant, the modules that have it, and what else to try."""

    name: str
    others: tuple[float, ...]
    modules: tuple[ModuleType, ...]

    @property
    def used(self) -> Any:
        """The value it has."""
        return getattr(self.modules[0], self.name)


CONSTANTS = (
    Constant("CLASS_SHARE_MIN", (0.0, 0.02, 0.1, 0.2), (metric,)),
    Constant("CLASS_SHARE_PRIOR", (0.5, 3.0, 6.0, 1e9), (metric,)),
    Constant("CLASS_SHARE_MAX", (0.1, 0.3, 0.9), (metric,)),
    Constant("RIVALS", (1, 10, 20), (rivals,)),
    Constant("_RIVAL_SHRINKAGE", (0.1, 0.7), (metric,)),
    Constant("_MAX_OPTIMISM", (0.25, 0.9), (metric,)),
    Constant("TEMPERATURE_SCALE", (1.3, 2.0, 3.4, 5.2), (metric,)),
    Constant("TEMPERATURE_PRIOR", (0, 2, 20), (metric,)),
    Constant("HEAD_WEIGHT", (0.0, 1.0, 4.0), (decision, predictor)),
    Constant("PLAUSIBLE_LOG_ODDS", (3.0, 12.0), (decision,)),
    Constant("PLAUSIBLE_CLASSES", (4, 16), (decision,)),
    Constant("CANDIDATE_LOG_ODDS", (6.0, 24.0), (decision,)),
    Constant("MAX_CANDIDATES", (8, 16, 64), (decision,)),
)
RANKS = (16, 32, 64, 128)


def measured(model: Model, data: FeatureDataset) -> dict[str, float]:
    """A_N in per cent and the calibration error of a model that nobody has asked before."""
    fresh = Model(model.settings, model.cards)
    table = fresh.predictor.predict_log_proba(data.test_features)
    labels = fresh.predictor.labels
    found = labels[fresh.predictor.best_columns(table)]
    return {
        "A_N": round(100 * average_accuracy(data.test_labels, found), 2),
        "ECE": round(expected_calibration_error(np.exp(table), data.test_labels, labels), 4),
    }


def swept(model: Model, data: FeatureDataset) -> Iterator[dict[str, Any]]:
    """One line for every value of every constant."""
    for constant in CONSTANTS:
        for value in sorted({constant.used, *constant.others}):
            with ExitStack() as stack:
                for module in constant.modules:
                    stack.enter_context(patch.object(module, constant.name, value))
                found = measured(model, data)
            used = value == constant.used
            yield {"constant": constant.name, "value": value, "used": used, "dataset": data.name, **found}


def ranks(data: FeatureDataset, used: int) -> Iterator[dict[str, Any]]:
    """The same for the rank of the cards, which have to be made anew."""
    for rank in RANKS:
        model = GDDSG(rank=rank).fit(data.train_features, data.train_labels).model_
        found = measured(model, data)
        yield {"constant": "rank", "value": rank, "used": rank == used, "dataset": data.name, **found}


def page_lines(record: Mapping[str, Any]) -> list[str]:
    """The table of docs/constants.md: a line for every value of a constant, bold where it is the one in use."""
    found: dict[tuple[str, float], dict[str, Any]] = {}
    for one in record["values"]:
        found.setdefault((one["constant"], one["value"]), {})[one["dataset"]] = one
    lines = ["| constant | value | CIFAR-100 | CUB-200 | Stanford Dogs |", "|---|---|---|---|---|"]
    for (name, value), by_dataset in found.items():
        shown = [f"{by_dataset[dataset]['A_N']:.2f}, {by_dataset[dataset]['ECE']:.3f}" for dataset in DATASETS]
        mark = "**" if by_dataset[DATASETS[0]]["used"] else ""
        lines.append(f"| `{name}` | {mark}{value:g}{mark} | {' | '.join(shown)} |")
    return lines


def main() -> None:
    """Measure all values on all data sets, and write one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/constants.json"))
    args = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for name in DATASETS:
        data = feature_file(next(args.folder.glob(f"{name}*.npz")))
        model = GDDSG().fit(data.train_features, data.train_labels).model_
        for line in (*swept(model, data), *ranks(data, model.settings.rank)):
            lines.append({**line, "dataset": name})
            print(json.dumps(lines[-1]), flush=True)
    record = {"revision": code_revision(), "values": lines}
    replace_file(args.out, (json.dumps(record, indent=1) + "\n").encode())
    print("\n".join(page_lines(record)))


if __name__ == "__main__":
    main()
