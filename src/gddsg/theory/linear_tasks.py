"""Expected forgetting and generalisation error of a sequence of linear tasks (paper, theorem 1; Lin et al., 2023).

Task t has n samples ``y = X w_t* + noise`` with standard Gaussian X ``(n, p)``, n < p. The learner starts from
``w_0 = 0`` and moves each time to the nearest solution that fits the task without error. Then, with ``r = 1 - n/p``,

    E‖w_t - w*‖² = r E‖w_{t-1} - w*‖² + (1 - r) ‖w_t* - w*‖² + n σ² / (p - n - 1)

for every fixed w*, since the step is an orthogonal projection onto n random directions out of p. All that follows is
this line, summed up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gddsg.errors import InputError

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearTasks:
    """A sequence of linear tasks, in the order in which they are learnt.

    Parameters
    ----------
    optima : array
        ``(n_tasks, dim)`` the optimal parameters w_t* of the tasks, dim at most ``width``; what is missing is zero.
    n_samples : int
        Samples of each task, n.
    width : int
        Parameters of the model, p; at least n + 2.
    noise : float
        Standard deviation σ of the noise in the targets.

    Examples
    --------
    >>> tasks = LinearTasks([[1.0, 0.0], [0.0, 1.0]], n_samples=5, width=10)
    >>> tasks.ratio
    0.5
    >>> tasks.squared_distances.tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """

    optima: Numbers
    n_samples: int
    width: int
    noise: float = 0.0

    def __init__(self, optima: ArrayLike, n_samples: int, width: int, noise: float = 0.0) -> None:
        for name, value in {
            "optima": _checked_optima(optima, width),
            "n_samples": n_samples,
            "width": width,
            "noise": float(noise),
        }.items():
            object.__setattr__(self, name, value)
        _check_sizes(n_samples, width, self.noise)

    @property
    def n_tasks(self) -> int:
        """T."""
        return len(self.optima)

    @property
    def ratio(self) -> float:
        """``r = 1 - n/p``: the share of the parameters' space that a task leaves alone."""
        return 1 - self.n_samples / self.width

    @property
    def noise_level(self) -> float:
        """``p σ² / (p - n - 1)``: what noise alone adds to every loss in the long run."""
        return self.width * self.noise**2 / (self.width - self.n_samples - 1)

    @property
    def squared_norms(self) -> Numbers:
        """``(n_tasks,)`` ‖w_i*‖²."""
        norms: Numbers = np.square(self.optima).sum(1)
        return norms

    @property
    def squared_distances(self) -> Numbers:
        """``(n_tasks, n_tasks)`` ‖w_i* - w_j*‖²."""
        distances: Numbers = np.square(self.optima[:, None] - self.optima[None]).sum(2)
        return distances

    def in_order(self, order: Sequence[int]) -> LinearTasks:
        """The same tasks, learnt in another order."""
        if sorted(order) != list(range(self.n_tasks)):
            raise InputError(f"order is {list(order)}, but has to name each of 0 to {self.n_tasks - 1} once.")
        return LinearTasks(self.optima[list(order)], self.n_samples, self.width, self.noise)


def expected_losses(tasks: LinearTasks) -> Numbers:
    """``E‖w_t - w_i*‖²`` for t = 0 to T (rows) and every task i (columns), by the recursion in the module's docstring.

    Examples
    --------
    >>> expected_losses(LinearTasks([[1.0, 0.0], [0.0, 1.0]], n_samples=5, width=10))
    array([[1.  , 1.  ],
           [0.5 , 1.5 ],
           [1.25, 0.75]])
    """
    r, distances = tasks.ratio, tasks.squared_distances
    rows = [tasks.squared_norms]
    for distance in distances:
        rows.append(r * rows[-1] + (1 - r) * (distance + tasks.noise_level))
    return np.array(rows)


def expected_forgetting(tasks: LinearTasks) -> float:
    """E[F_T], the first line of the paper's theorem 1: how much losses have risen since their tasks were learnt.

    ``1/(T-1) [Σ_{i<T} (r^T - r^i) ‖w_i*‖² + Σ_{i<j} c_ij ‖w_i* - w_j*‖² + p σ²/(p-n-1) Σ_{i<T} (r^i - r^T)]``

    Parameters
    ----------
    tasks : LinearTasks
        At least two tasks.

    Examples
    --------
    What was learnt of the first task, 1/2, has risen to 5/4:

    >>> expected_forgetting(LinearTasks([[1.0, 0.0], [0.0, 1.0]], n_samples=5, width=10))
    0.75
    """
    weights, pairs = norm_weights(tasks.n_tasks, tasks.ratio), pair_weights(tasks.n_tasks, tasks.ratio)
    known = weights @ tasks.squared_norms + (pairs * tasks.squared_distances).sum()
    return float(known - weights.sum() * tasks.noise_level) / (tasks.n_tasks - 1)


def expected_generalisation_error(tasks: LinearTasks) -> float:
    """E[G_T], the mean over all tasks of the expected loss after the last one.

    ``r^T/T Σ_{i≤T} ‖w_i*‖² + (1-r)/T Σ_{i≤T} r^(T-i) Σ_{k≤T} ‖w_k* - w_i*‖² + p σ²/(p-n-1) (1 - r^T)``

    The paper ends the first sum at T - 1, see :func:`printed_generalisation_error`.

    Parameters
    ----------
    tasks : LinearTasks
        At least two tasks.

    Examples
    --------
    >>> expected_generalisation_error(LinearTasks([[1.0, 0.0], [0.0, 1.0]], n_samples=5, width=10))
    1.0
    """
    r, n_tasks = tasks.ratio, tasks.n_tasks
    start = r**n_tasks * tasks.squared_norms.mean()
    between = (1 - r) * (last_weights(n_tasks, r) @ tasks.squared_distances.mean(1))
    return float(start + between + tasks.noise_level * (1 - r**n_tasks))


def printed_generalisation_error(tasks: LinearTasks) -> float:
    """E[G_T] as the paper prints it: the last task's norm is missing. For comparison; it is too small.

    Examples
    --------
    >>> printed_generalisation_error(LinearTasks([[1.0, 0.0], [0.0, 1.0]], n_samples=5, width=10))
    0.875
    """
    missing = tasks.ratio**tasks.n_tasks / tasks.n_tasks * tasks.squared_norms[-1]
    return expected_generalisation_error(tasks) - float(missing)


def norm_weights(n_tasks: int, ratio: float) -> Numbers:
    """``(n_tasks,)`` r^T - r^i, what ‖w_i*‖² counts in (T - 1) E[F_T]; 0 for the last task."""
    return ratio**n_tasks - ratio ** np.arange(1.0, n_tasks + 1)


def pair_weights(n_tasks: int, ratio: float) -> Numbers:
    """``(n_tasks, n_tasks)`` c_ij = (1 - r)(r^(T-i) - r^(j-i) + r^(T-j)) for i < j, else 0."""
    i, j = np.meshgrid(np.arange(1.0, n_tasks + 1), np.arange(1.0, n_tasks + 1), indexing="ij")
    weights = ratio ** (n_tasks - i) - ratio ** np.abs(j - i) + ratio ** (n_tasks - j)
    return np.triu((1 - ratio) * weights, 1)


def last_weights(n_tasks: int, ratio: float) -> Numbers:
    """``(n_tasks,)`` r^(T-i): how much is left of task i after the last one."""
    return ratio ** np.arange(n_tasks - 1.0, -1, -1)


def _checked_optima(optima: ArrayLike, width: int) -> Numbers:
    found = np.array(optima, dtype=np.float64)
    if found.ndim != 2 or len(found) < 2 or found.shape[1] > width:
        raise InputError(
            f"optima has shape {found.shape}, expected (n_tasks, dim) with two tasks or more and dim at most the "
            f"width, {width}."
        )
    if not np.isfinite(found).all():
        raise InputError("optima holds NaN or infinity; expected the optimal parameters of every task as numbers.")
    return found


def _check_sizes(n_samples: int, width: int, noise: float) -> None:
    if n_samples < 1:
        raise InputError(f"n_samples is {n_samples}, expected one sample a task or more.")
    if width < n_samples + 2:
        raise InputError(
            f"width is {width} with {n_samples} samples a task, expected {n_samples + 2} or more: below n + 2 the "
            "expectation is infinite where there is noise, or tasks cannot be fitted."
        )
    if not 0 <= noise < np.inf:
        raise InputError(f"noise is {noise}, expected a standard deviation: a number that is not negative.")
