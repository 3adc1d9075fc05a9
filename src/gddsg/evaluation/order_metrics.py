"""How far results depend on the order of classes or tasks: pure functions on arrays.

The paper's words for the disparity between orders fit four readings, of which none is another:

- :func:`opd_by_position`: task t of each order, after the last task; the paper's, if classes are shuffled;
- :func:`opd_by_task`: one and the same task, after the last task; that of Yoon et al., who permute fixed tasks;
- :func:`opd_after_tasks`: all classes seen so far, after t tasks;
- :func:`opd_by_class`: one and the same class, after the last task.

MOPD is the maximum over t of any of them, AOPD the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gddsg.errors import InputError
from gddsg.evaluation.intervals import finite_sample, mean_and_sd
from gddsg.evaluation.metrics import check_shares

Matrix = NDArray[np.float64]


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
    check_shares(found, name)
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
    values = np.sort(finite_sample(finals, "finals"))
    quarter = len(values) / 4
    weights = np.clip(quarter - np.arange(len(values)), 0, 1)
    mean, sd = mean_and_sd(values)
    worst, best = float(values[0]), float(values[-1])
    return OrderSpread(mean, sd, best - worst, worst, best, float(weights @ values / weights.sum()))
