"""A learner of your own beside GDDSG and RanPAC in the benchmark: the same tasks, orders and bare inputs for all."""

import tempfile
from pathlib import Path

import numpy as np
import torch

from gddsg.bench import experiment_from, read_records, run_experiment
from gddsg.checks import check_learner
from gddsg.learners import FeatureLearner


class NearestMean(FeatureLearner):
    """Each class is the mean of its features."""

    def _next_state(self, state, features, labels):
        sums = dict(state or {})  # a new state; the old one stays as it is, for whoever still predicts with it
        for label, row in zip(labels, features.double(), strict=True):
            total, count = sums.get(label, (0, 0))
            sums[label] = total + row, count + 1
        return sums

    def _log_probabilities(self, learnt, features):
        means = torch.stack([learnt.state[name][0] / learnt.state[name][1] for name in learnt.classes])
        return (-torch.cdist(features.double(), means)).log_softmax(1)


def write_features(path: Path) -> None:
    """Ten classes in 16 dimensions, some of which are noise: far from round, so that a mean is not all there is."""
    draw = np.random.default_rng(1)
    stretch, centres = np.geomspace(6, 0.3, 16), draw.normal(size=(10, 16))
    labels = np.arange(10).repeat(60)
    features = (centres[labels] + stretch * draw.normal(size=(600, 16))).astype("float32")
    split = {"train": np.arange(600) % 60 < 40, "test": np.arange(600) % 60 >= 40}
    arrays = {f"{part}_features": features[rows] for part, rows in split.items()}
    arrays |= {f"{part}_labels": labels[rows] for part, rows in split.items()}
    np.savez(path, classes=[f"class {name}" for name in "abcdefghij"], **arrays)


if __name__ == "__main__":
    check_learner(NearestMean())
    print("It obeys the laws: names do not matter, a batch that fails changes nothing, and so on.")
    table = {"datasets": ["drawn"], "backbones": ["by-hand"], "tasks": 5, "orders": 2}
    table["learners"] = [
        {"name": "gddsg", "parameters": {"projection_dim": 200}},
        {"name": "ranpac", "parameters": {"projection_dim": 200}},
        {"name": "nearest mean", "method": "own_learner:NearestMean"},
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_features(folder / "drawn_by-hand.npz")
        run_experiment(experiment_from("mine", table), folder / "records.jsonl", folder, workers=0)
        records = read_records(folder / "records.jsonl")
    for record in sorted(records, key=lambda one: (one.head.learner, one.head.order)):
        reached, forgotten = record.found.metrics["A_N"], record.found.metrics["F_N"]
        who = f"{record.head.learner:12}  class order of {record.head.order}"
        print(f"{who}: {reached:.1f} % after the last of 5 tasks, {forgotten:.1f} points forgotten")
