"""Feature files for the benchmarks, and the class orders of the field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class FeatureSet(NamedTuple):
    """Frozen features of one data set, with its official split."""

    name: str
    train: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]


def load_features(path: Path) -> FeatureSet:
    """Read ``train_features, train_labels, test_features, test_labels`` from an ``.npz`` file.

    Features may also be stored as bytes, ``train_codes`` and ``test_codes``: ``x = (codes / 255)² · scale``.
    """
    with np.load(path) as file:

        def features(part: str) -> NDArray[np.float32]:
            if f"{part}_features" in file:
                return file[f"{part}_features"].astype(np.float32)
            return ((file[f"{part}_codes"].astype(np.float32) / 255.0) ** 2 * file["scale"]).astype(np.float32)

        labels = [file[f"{part}_labels"].astype(np.int64) for part in ("train", "test")]
        return FeatureSet(path.stem.split("_")[0], features("train"), labels[0], features("test"), labels[1])


def class_order(n_classes: int, seed: int) -> NDArray[np.int64]:
    """NumPy's legacy permutation, so that seed 1993 means what the field means by it."""
    return np.random.RandomState(seed).permutation(n_classes)


def tasks(data: FeatureSet, n_tasks: int, seed: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """The training set as ``n_tasks`` batches of new classes."""
    order = class_order(int(data.train_labels.max()) + 1, seed)
    for classes in np.array_split(order, n_tasks):
        rows = np.isin(data.train_labels, classes)
        yield data.train[rows], data.train_labels[rows]
