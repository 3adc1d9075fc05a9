"""Metrics: pure functions on arrays; accuracies are shares from 0 to 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from gddsg.errors import InputError

Matrix = NDArray[np.float64]

_ROUNDING = 1e-12


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
    _check_shares(square[np.tril_indices(len(square))], "matrix")
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
    _check_shares(accuracies[~missing], "table")
    return accuracies


def _first_rows(accuracies: Matrix) -> NDArray[np.intp]:
    """The task ``(n_classes,)`` in which each class is first seen."""
    return np.asarray(np.isnan(accuracies).sum(0))


def _are_sizes(sizes: NDArray[Any]) -> bool:
    return sizes.ndim == 1 and sizes.size > 0 and sizes.dtype.kind in "iu" and bool((sizes > 0).all())


def _check_shares(values: Matrix, name: str) -> None:
    """Raise an :class:`InputError` for NaN, and for anything that cannot be a share."""
    wrong = values[~((values >= 0) & (values <= 1))]
    if wrong.size:
        raise InputError(
            f"{name}: {wrong.flat[0]} was given; expected accuracies as shares from 0 to 1. Divide percentages by "
            "100, and leave out what was not measured."
        )


# Several orders. The paper's words for the disparity between them fit four readings, of which none is another:
#
#   opd_by_position   task t of each order, after the last task; the paper's, if classes are shuffled
#   opd_by_task       one and the same task, after the last task; that of Yoon et al., who permute fixed tasks
#   opd_after_tasks   all classes seen so far, after t tasks
#   opd_by_class      one and the same class, after the last task
#
# MOPD is the maximum over t of any of them, AOPD the mean.


def opd_by_position(final_task_accuracies: ArrayLike) -> Matrix:
    """Order-normalised performance disparity ``(n_tasks,)``: the range over orders of the accuracy on task t.

    ``OPD_t = max_r A_t^r − min_r A_t^r``, as in the paper. When classes are shuffled, "task t" holds other classes in
    every order, so this is above zero even for a learner that ignores order; :func:`opd_by_class` is zero for that, and
    so is :func:`opd_by_task` where tasks keep their classes.

    Parameters
    ----------
    final_task_accuracies : ndarray
        ``(n_orders, n_tasks)``, the accuracy on each task after the last one; the last row of :func:`task_matrix` for
        each order.

    Examples
    --------
    >>> opd_by_position([[0.5, 1.0], [0.75, 1.0], [0.25, 0.5]])
    array([0.5, 0.5])
    """
    return np.asarray(np.ptp(_by_order(final_task_accuracies, "final_task_accuracies"), axis=0))


def mopd(final_task_accuracies: ArrayLike) -> float:
    """The maximum over tasks of :func:`opd_by_position`.

    Examples
    --------
    >>> mopd([[0.5, 1.0], [0.75, 1.0]])
    0.25
    """
    return float(opd_by_position(final_task_accuracies).max())


def aopd(final_task_accuracies: ArrayLike) -> float:
    """The average over tasks of :func:`opd_by_position`.

    Examples
    --------
    >>> aopd([[0.5, 1.0], [0.75, 1.0]])
    0.125
    """
    return float(opd_by_position(final_task_accuracies).mean())


def opd_by_task(final_task_accuracies: ArrayLike, tasks: ArrayLike) -> Matrix:
    """The range over orders of each task's final accuracy, ``(n_tasks,)``, for tasks that keep their classes.

    This is the disparity of Yoon et al., "Scalable and Order-robust Continual Learning with Additive Parameter
    Decomposition" (ICLR 2020), who brought it up: one task is compared with itself at other places. It is zero for a
    learner that ignores order.

    Parameters
    ----------
    final_task_accuracies : ndarray
        That of :func:`opd_by_position`, ``(n_orders, n_tasks)``, in the order of each run.
    tasks : ndarray
        ``(n_orders, n_tasks)``, which task it was: numbers or names, the same ones in each row. The result is sorted by
        them.

    Examples
    --------
    >>> opd_by_task([[0.5, 1.0], [1.0, 0.25]], [["dogs", "birds"], ["birds", "dogs"]])
    array([0.  , 0.25])
    """
    accuracies, names = _by_order(final_task_accuracies, "final_task_accuracies"), np.asarray(tasks)
    if names.shape != accuracies.shape:
        raise InputError(f"tasks {names.shape} were given for accuracies {accuracies.shape}; expected one for each.")
    places = np.argsort(names, axis=1, kind="stable")
    aligned = np.take_along_axis(names, places, axis=1)
    if (aligned != aligned[0]).any() or len(np.unique(aligned[0])) < aligned.shape[1]:
        raise InputError(
            "The orders have other tasks than one another, or one of them twice; expected the same tasks in every "
            "order, each once. Use opd_by_position where classes are shuffled."
        )
    return np.asarray(np.ptp(np.take_along_axis(accuracies, places, axis=1), axis=0))


def opd_after_tasks(curves: ArrayLike) -> Matrix:
    """The range over orders of the mean accuracy of all classes seen after t tasks, ``(n_tasks,)``.

    Other orders have seen other classes by then, so this is above zero on the way even for a learner that ignores
    order; for that its last entry, where all have seen all classes, is zero.

    Parameters
    ----------
    curves : ndarray
        ``(n_orders, n_tasks)``, :func:`accuracy_curve` of each order.

    Examples
    --------
    >>> opd = opd_after_tasks([[1.0, 0.75, 0.5], [0.5, 0.5, 0.5]])
    >>> opd
    array([0.5 , 0.25, 0.  ])
    >>> mopd, aopd = float(opd.max()), float(opd.mean())
    >>> mopd, aopd
    (0.5, 0.25)
    """
    return np.asarray(np.ptp(_by_order(curves, "curves"), axis=0))


def opd_by_class(final_class_accuracies: ArrayLike) -> Matrix:
    """The range over orders of each class's final accuracy, ``(n_classes,)``; zero for a learner that ignores order.

    Parameters
    ----------
    final_class_accuracies : ndarray
        ``(n_orders, n_classes)``; a column is the same class in every row, unlike the columns of a run's table, which
        follow the order of that run.

    Examples
    --------
    >>> opd_by_class([[0.5, 1.0], [0.75, 1.0]])
    array([0.25, 0.  ])
    """
    return np.asarray(np.ptp(_by_order(final_class_accuracies, "final_class_accuracies"), axis=0))


def _by_order(accuracies: ArrayLike, name: str) -> Matrix:
    found = np.asarray(accuracies, dtype=np.float64)
    if found.ndim != 2 or len(found) < 2 or found.shape[1] == 0:
        raise InputError(
            f"{name} {found.shape} were given; expected one row for each order, and at least two: a single order "
            "tells nothing about the difference between orders."
        )
    _check_shares(found, name)
    return found


@dataclass(frozen=True)
class OrderSpread:
    """How a result differs from order to order.

    Attributes
    ----------
    mean, sd : float
        Over orders; ``sd`` is that of a sample (n − 1), NaN for a single order.
    range : float
        Best minus worst.
    worst, best : float
        The lowest and the highest.
    cvar : float
        The mean of the worst quarter of the orders; where that is no whole number of orders, the last one counts in
        part. Up to four orders it is ``worst``.
    """

    mean: float
    sd: float
    range: float
    worst: float
    best: float
    cvar: float


def order_spread(finals: ArrayLike) -> OrderSpread:
    """Spread of the results ``(n_orders,)`` of one learner over class orders; higher results are better.

    Examples
    --------
    >>> order_spread([0.5, 0.75, 1.0, 0.75])
    OrderSpread(mean=0.75, sd=0.204, range=0.5, worst=0.5, best=1.0, cvar=0.5)
    """
    values = np.sort(_sample(finals, "finals"))
    quarter = len(values) / 4
    weights = np.clip(quarter - np.arange(len(values)), 0, 1)
    mean, sd = _mean_and_sd(values)
    worst, best = float(values[0]), float(values[-1])
    return OrderSpread(mean, sd, best - worst, worst, best, float(weights @ values / weights.sum()))


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


# How sure a mean is.


class Interval(NamedTuple):
    """A confidence interval: ``mean ± half_width``."""

    mean: float
    half_width: float


def confidence_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """The mean of values ``(n,)`` and the half width of its confidence interval by Student's t.

    The half width is 0 for identical values and NaN for a single one, which tells nothing about the spread.

    Examples
    --------
    >>> confidence_interval([1.0, 2.0, 3.0])
    Interval(mean=2.0, half_width=2.484)
    """
    sample = _sample(values, "values")
    mean, sd = _mean_and_sd(sample)
    return Interval(mean, sd / math.sqrt(len(sample)) * _t_quantile(len(sample), level))


@dataclass(frozen=True)
class PairedComparison:
    """Two methods on the same cases, such as orders or data sets: first minus second.

    Attributes
    ----------
    mean_difference : float
        Of the results.
    low, high : float
        Ends of its confidence interval; NaN for a single pair.
    p_value : float
        Of the two-sided paired t test; NaN for a single pair.
    wins, ties, losses : int
        How often the first was higher, equal or lower.
    """

    mean_difference: float
    low: float
    high: float
    p_value: float
    wins: int
    ties: int
    losses: int


def paired_comparison(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> PairedComparison:
    """Compare results ``a`` and ``b``, both ``(n,)``, case by case.

    Differences up to 1e-12 are rounding and count as ties. Where all differences are the same, the p value is 1 if
    they are ties and 0 otherwise, which is where the t test goes as their spread vanishes.

    Examples
    --------
    >>> paired_comparison([0.75, 0.75, 0.5], [0.5, 0.25, 0.5])
    PairedComparison(mean_difference=0.25, low=-0.371, high=0.871, p_value=0.225, wins=2, ties=1, losses=0)
    """
    first, second = _sample(a, "a"), _sample(b, "b")
    if first.shape != second.shape:
        raise InputError(f"a {first.shape} and b {second.shape} were given; expected results of the same cases.")
    differences = first - second
    differences[np.abs(differences) <= _ROUNDING] = 0.0
    if np.ptp(differences) <= _ROUNDING:
        differences[:] = differences[0]
    mean, half = confidence_interval(differences, level)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    ties = len(differences) - wins - losses
    return PairedComparison(mean, mean - half, mean + half, _p_value(differences), wins, ties, losses)


def _p_value(differences: Matrix) -> float:
    n, (mean, sd) = len(differences), _mean_and_sd(differences)
    if n > 1 and sd == 0:
        return 0.0 if mean else 1.0
    return float(2 * stdtr(n - 1, -abs(mean) / (sd / math.sqrt(n)))) if n > 1 else float("nan")


def _t_quantile(n: int, level: float) -> float:
    """``t`` for which a Student variable of n − 1 degrees of freedom is within ±t with probability ``level``."""
    if not 0 < level < 1:
        raise InputError(f"level={level!r} was given; expected a probability between 0 and 1, such as 0.95.")
    return float(stdtrit(n - 1, (1 + level) / 2)) if n > 1 else float("nan")


def _mean_and_sd(values: Matrix) -> tuple[float, float]:
    """Mean and standard deviation of a sample; the latter is exactly 0 for identical values, NaN for a single one."""
    if len(values) > 1 and (values == values[0]).all():  # their computed mean may differ from them in the last bit
        return float(values[0]), 0.0
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def _sample(values: ArrayLike, name: str) -> Matrix:
    """A copy of the values, if they are finite numbers in one row."""
    found = np.array(values, dtype=np.float64)
    if found.ndim != 1 or found.size == 0 or not np.isfinite(found).all():
        raise InputError(
            f"{name} of shape {found.shape} were given; expected finite numbers (n,), at least one of them. Leave "
            "out what was not measured."
        )
    return found
