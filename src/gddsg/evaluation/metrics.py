"""Metrics of one run: pure functions on arrays; accuracies are shares from 0 to 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gddsg.errors import InputError

Matrix = NDArray[np.float64]


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


# A run: accuracies of all classes after every task.


def final_average_accuracy(table: ArrayLike) -> float:
    """A_N of the paper: the mean over classes of the accuracy after the last task.

    Parameters
    ----------
    table : ndarray
        ``(n_tasks, n_classes)``, the accuracy of each class after each task, as shares; columns in order of first
        appearance, NaN where a class has not been seen yet.

    Examples
    --------
    >>> nan = float("nan")
    >>> final_average_accuracy([[1.0, nan], [0.5, 0.75]])
    0.625
    """
    return float(_table(table)[-1].mean())


def forgetting(table: ArrayLike) -> float:
    """F_N of the paper, with its sign turned: the mean over classes of first minus final accuracy.

    Positive where accuracy was lost. ``table`` is that of :func:`final_average_accuracy`.

    Examples
    --------
    >>> nan = float("nan")
    >>> forgetting([[1.0, nan], [0.5, 0.75]])
    0.25
    """
    accuracies = _table(table)
    first = accuracies[_first_rows(accuracies), np.arange(accuracies.shape[1])]
    return float((first - accuracies[-1]).mean())


def average_incremental_accuracy(table: ArrayLike) -> float:
    """The mean over tasks of the mean accuracy of the classes seen so far.

    Early classes count more often than late ones, which is why the paper reports A_N. ``table`` is that of
    :func:`final_average_accuracy`.

    Examples
    --------
    >>> nan = float("nan")
    >>> average_incremental_accuracy([[1.0, nan], [0.5, 0.75]])
    0.8125
    """
    return float(accuracy_curve(table).mean())


def accuracy_curve(table: ArrayLike) -> Matrix:
    """The mean accuracy ``(n_tasks,)`` of all classes seen so far, after each task.

    Its mean is :func:`average_incremental_accuracy`, its end :func:`final_average_accuracy`. ``table`` is that of the
    latter.

    Examples
    --------
    >>> nan = float("nan")
    >>> accuracy_curve([[1.0, nan], [0.5, 0.75]])
    array([1.   , 0.625])
    """
    return np.asarray(np.nanmean(_table(table), axis=1))


def task_matrix(table: ArrayLike, sizes: ArrayLike) -> Matrix:
    """Mean accuracy ``(n_tasks, n_tasks)`` after task i (row) on the classes that task j brought; NaN for j > i.

    Parameters
    ----------
    table : ndarray
        That of :func:`final_average_accuracy`.
    sizes : ndarray
        ``(n_tasks,)``, the number of new classes of each task.

    Examples
    --------
    >>> nan = float("nan")
    >>> task_matrix([[1.0, 0.5, nan], [0.5, 0.5, 0.75]], [2, 1])
    array([[0.75,  nan],
           [0.5 , 0.75]])
    """
    accuracies, counts = _table(table), np.asarray(sizes)
    tasks = np.repeat(np.arange(counts.size), counts) if _are_sizes(counts) else np.empty(0)
    if counts.size != len(accuracies) or not np.array_equal(tasks, _first_rows(accuracies)):
        found = np.bincount(_first_rows(accuracies), minlength=len(accuracies)).tolist()
        raise InputError(
            f"The sizes {counts.tolist()} were given; in the table, the tasks bring {found} new classes. Expected "
            "one whole number from 1 for each task."
        )
    starts = np.cumsum(counts) - counts
    return np.asarray(np.add.reduceat(accuracies, starts, axis=1) / counts)


def backward_transfer(matrix: ArrayLike) -> float:
    """The mean over all tasks but the last of final accuracy minus that just after the task; NaN for a single task.

    Negative where accuracy was lost. ``matrix`` is that of :func:`task_matrix`; what is above its diagonal is ignored.

    Examples
    --------
    >>> nan = float("nan")
    >>> backward_transfer([[0.75, nan], [0.5, 0.75]])
    -0.25
    """
    square = np.asarray(matrix, dtype=np.float64)
    if square.ndim != 2 or square.shape[0] != square.shape[1] or len(square) == 0:
        raise InputError(f"A matrix {square.shape} was given; expected (n_tasks, n_tasks), as task_matrix makes it.")
    check_shares(square[np.tril_indices(len(square))], "matrix")
    if len(square) == 1:
        return float("nan")
    return float((square[-1] - square.diagonal())[:-1].mean())


def _table(table: ArrayLike) -> Matrix:
    """The table as an array, if it is one of a run."""
    accuracies = np.asarray(table, dtype=np.float64)
    if accuracies.ndim != 2 or accuracies.size == 0:
        raise InputError(f"A table {accuracies.shape} was given; expected (n_tasks, n_classes), not empty.")
    missing = np.isnan(accuracies)
    if missing[0].all() or missing[-1].any() or (missing[1:] & ~missing[:-1]).any():
        raise InputError(
            "The table has NaN in the wrong places; expected NaN until a class is first seen and a number from then "
            "on, a class in the first row, and no NaN in the last. Leave out classes without test samples."
        )
    if (np.diff(missing.sum(0)) < 0).any():
        raise InputError("The classes of the table are mixed up; expected columns in order of first appearance.")
    check_shares(accuracies[~missing], "table")
    return accuracies


def _first_rows(accuracies: Matrix) -> NDArray[np.intp]:
    """The task ``(n_classes,)`` in which each class is first seen."""
    return np.asarray(np.isnan(accuracies).sum(0))


def _are_sizes(sizes: NDArray[Any]) -> bool:
    return sizes.ndim == 1 and sizes.size > 0 and sizes.dtype.kind in "iu" and bool((sizes > 0).all())


def check_shares(values: Matrix, name: str) -> None:
    """Raise an :class:`InputError` for NaN, and for anything that cannot be a share."""
    wrong = values[~((values >= 0) & (values <= 1))]
    if wrong.size:
        raise InputError(
            f"{name}: {wrong.flat[0]} was given; expected accuracies as shares from 0 to 1. Divide percentages by "
            "100, and leave out what was not measured."
        )


# Class groups.


def group_accuracy(true_groups: ArrayLike, predicted_groups: ArrayLike) -> float:
    """Share of the samples whose class group was identified.

    Examples
    --------
    >>> group_accuracy([0, 0, 1, 2], [0, 1, 1, 2])
    0.75
    """
    truth, predicted = _equally_long(true_groups=true_groups, predicted_groups=predicted_groups)
    return float(np.mean(truth == predicted))


def accuracy_in_group(
    true_groups: ArrayLike, predicted_groups: ArrayLike, labels: ArrayLike, predictions: ArrayLike
) -> float:
    """Share of right predictions among the samples whose class group was identified; NaN if there is none.

    All four are ``(n_samples,)``. Times :func:`group_accuracy` this is the share of all samples that are right, for a
    learner that predicts within the group it identified.

    Examples
    --------
    >>> accuracy_in_group([0, 0, 1, 2], [0, 1, 1, 2], ["a", "a", "b", "c"], ["a", "b", "b", "d"])
    0.667
    """
    truth, predicted, wanted, found = _equally_long(
        true_groups=true_groups, predicted_groups=predicted_groups, labels=labels, predictions=predictions
    )
    identified = truth == predicted
    return float(np.mean(wanted[identified] == found[identified])) if identified.any() else float("nan")


def _equally_long(**arrays: ArrayLike) -> list[NDArray[Any]]:
    found = [np.asarray(array) for array in arrays.values()]
    if found[0].ndim != 1 or len(found[0]) == 0 or len({array.shape for array in found}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(arrays, found, strict=True))
        raise InputError(f"{shapes} were given; expected 1-D arrays, equally long, not empty.")
    return found
