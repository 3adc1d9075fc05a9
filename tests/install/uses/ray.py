"""A feature file is learnt by two workers."""

import sys
import tempfile
from pathlib import Path

sys.path.pop(0)  # this file would be taken for the package of the same name

import numpy as np

from gddsg import scale
from gddsg.store import read_model

if __name__ == "__main__":
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(60, 8)).astype("float32"), np.arange(60) % 3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(
            folder / "drawn.npz",
            train_features=X, train_labels=y, test_features=X, test_labels=y, classes=list("abc"),
        )  # fmt: skip
        scale.learn(folder / "m.gddsg", folder / "drawn.npz", workers=2, settings={"projection_dim": 32})
        assert read_model(folder / "m.gddsg").labels == ("a", "b", "c")
