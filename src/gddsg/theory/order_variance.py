"""How much the order of tasks matters: mean and variance of E[F_T] and E[G_T] over all orders, exactly.

    E[G_T] = order-free part + (1-r)/T Σ_t r^(T-t) S_π(t),   S_k = Σ_j ‖w_k* - w_j*‖²

so that ``Var E[G_T] = ((1-r)/T)² Σ_t (u_t - ū)² Σ_k (S_k - S̄)² / (T-1)`` with ``u_t = r^(T-t)``: it measures how
unequal the tasks' summed distances S_k are, not how large. E[F_T] has weights for pairs besides, and its variance over
all orders is a sum over pairs that share two, one or no task.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from gddsg.errors import InputError
from gddsg.theory.linear_tasks import (
    LinearTasks,
    Numbers,
    expected_generalisation_error,
    last_weights,
    norm_weights,
    pair_weights,
)

_MOST_TASKS = 8
_EQUAL_NORMS = 1e-9


@dataclass(frozen=True)
class OverOrders:
    """Moments over all orders of the tasks, each as likely as any other.

    Attributes
    ----------
    mean, variance : float
        Of the expected forgetting, or of the expected generalisation error.
    """

    mean: float
    variance: float


def generalisation_over_orders(tasks: LinearTasks) -> OverOrders:
    """Mean and variance of E[G_T] over all T! orders, without going through them.

    Parameters
    ----------
    tasks : LinearTasks
        In any order.

    Examples
    --------
    Three tasks of which two look alike:

    >>> alike = LinearTasks([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], n_samples=5, width=10)
    >>> generalisation_over_orders(alike)
    OverOrders(mean=0.74722, variance=0.0056173)
    """
    t, r = tasks.n_tasks, tasks.ratio
    weights = (1 - r) / t * last_weights(t, r)
    sums = tasks.squared_distances.sum(1)
    free = r**t * tasks.squared_norms.mean() + tasks.noise_level * (1 - r**t)
    variance = _squares(weights) * _squares(sums) / (t - 1)
    return OverOrders(float(free + weights.sum() * sums.mean()), float(variance))


def forgetting_over_orders(tasks: LinearTasks) -> OverOrders:
    """Mean and variance of E[F_T] over all T! orders, without going through them.

    Parameters
    ----------
    tasks : LinearTasks
        In any order.

    Examples
    --------
    >>> alike = LinearTasks([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], n_samples=5, width=10)
    >>> forgetting_over_orders(alike)
    OverOrders(mean=0.35, variance=0.01625)
    """
    t, r = tasks.n_tasks, tasks.ratio
    weights = norm_weights(t, r)
    upper = pair_weights(t, r)
    pairs, distances = upper + upper.T, tasks.squared_distances
    mean = weights.sum() * (tasks.squared_norms.mean() - tasks.noise_level)
    mean += pairs.sum() * distances.sum() / (2 * t * (t - 1))
    variance = _variance(weights - weights.mean(), tasks.squared_norms, _centred(pairs), _centred(distances))
    return OverOrders(float(mean) / (t - 1), float(variance) / (t - 1) ** 2)


def generalisation_variance_bound(tasks: LinearTasks) -> float:
    """For tasks of equal norm ρ: Var E[G_T] ≤ K x (1 - x), with x = 1 - Σ_ij ‖w_i* - w_j*‖² / (2 T² ρ²).

    ``K = 4 ρ⁴ ((1-r)/T)² Σ_t (u_t - ū)² T³ / (T-1)``. What is left of the paper's corollary: once the sum of squared
    distances exceeds half of its maximum, 2 T² ρ², the bound falls as the sum grows, and at the maximum the order
    does not matter. Tasks ±w for one w reach it.

    Parameters
    ----------
    tasks : LinearTasks
        Tasks whose optimal parameters all have one norm.

    Examples
    --------
    >>> opposed = LinearTasks([[1.0], [1.0], [-1.0]], n_samples=5, width=10)
    >>> generalisation_variance_bound(opposed), generalisation_over_orders(opposed).variance
    (0.0432099, 0.0432099)
    """
    norms = tasks.squared_norms
    if np.ptp(norms) > _EQUAL_NORMS * norms.max():
        raise InputError(
            f"The norms of the optima range from {norms.min() ** 0.5:g} to {norms.max() ** 0.5:g}; the bound holds for "
            "equal ones. Divide every optimum by its norm."
        )
    t, r, squared = tasks.n_tasks, tasks.ratio, float(norms.mean())
    if squared == 0:
        return 0.0
    x = 1 - float(tasks.squared_distances.sum()) / (2 * t**2 * squared)
    return 4 * squared**2 * float(_squares((1 - r) / t * last_weights(t, r))) * t**3 / (t - 1) * x * (1 - x)


def each_order(
    tasks: LinearTasks, value: Callable[[LinearTasks], float] = expected_generalisation_error
) -> dict[tuple[int, ...], float]:
    """A value of the tasks in each of their orders, one by one.

    Parameters
    ----------
    tasks : LinearTasks
        Eight tasks at most, for nine have 362 880 orders.
    value : callable
        Such as :func:`gddsg.theory.expected_forgetting`.

    Examples
    --------
    >>> alike = LinearTasks([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], n_samples=5, width=10)
    >>> from gddsg.theory import expected_forgetting
    >>> found = each_order(alike, expected_forgetting)
    >>> max(found, key=found.get), float(np.var(list(found.values())))
    ((0, 1, 2), 0.01625)
    """
    if tasks.n_tasks > _MOST_TASKS:
        raise InputError(
            f"There are {tasks.n_tasks} tasks, expected {_MOST_TASKS} at most: their orders are gone through one by "
            "one. generalisation_over_orders and forgetting_over_orders take any number."
        )
    return {order: value(tasks.in_order(order)) for order in permutations(range(tasks.n_tasks))}


def _squares(values: Numbers) -> float:
    return float(np.square(values - values.mean()).sum())


def _centred(pairs: Numbers) -> Numbers:
    """Less the mean off the diagonal, which no order changes; 0 on it."""
    t = len(pairs)
    centred: Numbers = pairs - pairs.sum() / (t * (t - 1))
    np.fill_diagonal(centred, 0)
    return centred


def _variance(b: Numbers, norms: Numbers, C: Numbers, D: Numbers) -> float:
    """Of ``Σ_i b_i a_π(i) + ½ Σ_ij C_ij D_π(i)π(j)`` over permutations π, for centred symmetric C and D."""
    t, a = len(b), norms - norms.mean()
    linear = (b @ b) * (a @ a) / (t - 1)
    shared = (b @ C.sum(1)) * (a @ D.sum(1))
    mixed = shared / math.perm(t, 2) + (2 * shared / math.perm(t, 3) if t > 2 else 0)
    return float(linear + 2 * mixed + _pair_variance(C, D) / 4)


def _pair_variance(C: Numbers, D: Numbers) -> float:
    """Of ``Σ_ij C_ij D_π(i)π(j)``: pairs that share both tasks, one task, or none."""
    t = len(C)
    squares = np.square(C).sum(), np.square(D).sum()
    rows = np.square(C.sum(1)).sum(), np.square(D.sum(1)).sum()
    total = 2 * squares[0] * squares[1] / math.perm(t, 2)
    if t > 2:
        total += 4 * (rows[0] - squares[0]) * (rows[1] - squares[1]) / math.perm(t, 3)
    if t > 3:
        total += (2 * squares[0] - 4 * rows[0]) * (2 * squares[1] - 4 * rows[1]) / math.perm(t, 4)
    return float(max(total, 0.0))
