"""Metrics: pure functions on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gddsg.errors import InputError


def class_accuracies(labels: ArrayLike, predictions: ArrayLike) -> dict[Any, float]:
    """Share of right predictions for every class among ``labels``.

    Examples
    --------
    >>> class_accuracies(["a", "a", "b"], ["a", "b", "b"])
    {'a': 0.5, 'b': 1.0}
    """
    truth, predicted = np.asarray(labels), np.asarray(predictions)
    if truth.shape != predicted.shape or truth.ndim != 1 or len(truth) == 0:
        raise InputError(
            f"Labels {truth.shape} and predictions {predicted.shape} must be 1-D, equally long, not empty."
        )
    return {c: float(np.mean(predicted[truth == c] == c)) for c in np.unique(truth).tolist()}


def average_accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """A_N of the paper: the mean over classes of the accuracy on each, so that every class counts the same.

    Examples
    --------
    >>> average_accuracy([0, 0, 0, 1], [0, 0, 0, 0])
    0.5
    """
    return float(np.mean(list(class_accuracies(labels, predictions).values())))


def expected_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, classes: ArrayLike, n_bins: int = 15
) -> float:
    """Mean gap between confidence and accuracy over ``n_bins`` equal bins of confidence, weighted by their size.

    Examples
    --------
    Two predictions made with confidence 0.8 of which one is right:

    >>> round(expected_calibration_error([[0.8, 0.2], [0.8, 0.2]], [0, 1], [0, 1]), 3)
    0.3
    """
    table = np.asarray(probabilities, dtype=np.float64)
    if table.ndim != 2 or table.shape != (len(np.asarray(labels)), len(np.asarray(classes))) or len(table) == 0:
        raise InputError(
            f"Probabilities {table.shape} must have a row for each of the {len(np.asarray(labels))} labels "
            f"and a column for each of the {len(np.asarray(classes))} classes."
        )
    confidence, right = table.max(1), np.asarray(classes)[table.argmax(1)] == np.asarray(labels)
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(table))
