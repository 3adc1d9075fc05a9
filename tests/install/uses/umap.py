"""A run of the benchmark that lays test samples out in the plane by UMAP."""

import sys
import tempfile
from pathlib import Path

sys.path.pop(0)  # this file would be taken for the package of the same name

import numpy as np

from gddsg.bench import experiment_from, read_records, run_experiment

draw = np.random.default_rng(0)
X, y = (
    draw.normal(size=(120, 8)).astype("float32") + 4 * np.eye(6, 8, dtype="float32")[np.arange(120) % 6],
    np.arange(120) % 6,
)
table = {
    "datasets": ["drawn"],
    "learners": [{"name": "gddsg", "parameters": {"projection_dim": 64}}],
    "kinds": ["UMAP"],
}
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    np.savez(
        folder / "drawn_efficientnet-lite0.npz",
        train_features=X, train_labels=y, test_features=X, test_labels=y, classes=list("abcdef"),
    )  # fmt: skip
    run_experiment(experiment_from("umap", table), folder / "records.jsonl", folder, workers=0)
    (record,) = read_records(folder / "records.jsonl")
if record.error:
    raise SystemExit(record.error)
assert len(record.found.points) == 120
