"""The learner that the theorem is about, simulated: it moves to the nearest parameters that fit the task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gddsg.errors import InputError
from gddsg.theory.linear_tasks import LinearTasks, Numbers

_BATCH_NUMBERS = 4_000_000  # of the design matrices that are in memory at a time


@dataclass(frozen=True)
class Estimate:
    """A mean of independent draws, and its standard error.

    Attributes
    ----------
    mean, error : float
        ``mean ± error``.
    """

    mean: float
    error: float

    def standard_errors_from(self, value: float) -> float:
        """How many standard errors the mean lies above a value."""
        return (self.mean - value) / self.error


@dataclass(frozen=True)
class Simulation:
    """What many runs of the learner gave.

    Attributes
    ----------
    forgetting, generalisation_error : Estimate
        Of E[F_T] and of E[G_T].
    """

    forgetting: Estimate
    generalisation_error: Estimate


def simulate(tasks: LinearTasks, draws: int, seed: int) -> Simulation:
    """Run the learner on fresh data so many times, and average forgetting and generalisation error.

    Parameters
    ----------
    tasks : LinearTasks
        What is learnt, in its order.
    draws : int
        Runs, two or more.
    seed : int
        Of all data.

    Notes
    -----
    With noise the draws have a finite variance only for p ≥ n + 4, and a standard error can be trusted for about
    p ≥ n + 8: below that, rare draws in which X Xᵀ is close to singular carry the mean.

    Examples
    --------
    >>> found = simulate(LinearTasks([[1.0, 0.0], [0.0, 1.0]], n_samples=5, width=10), draws=2000, seed=0)
    >>> abs(found.forgetting.standard_errors_from(0.75)) < 3
    True
    """
    losses = simulated_losses(tasks, draws, seed)
    own = np.diagonal(losses[:, 1:], axis1=1, axis2=2)[:, :-1]
    forgetting = (losses[:, -1, :-1] - own).mean(1)
    return Simulation(_estimate(forgetting), _estimate(losses[:, -1].mean(1)))


def simulated_losses(tasks: LinearTasks, draws: int, seed: int) -> Numbers:
    """``(draws, n_tasks + 1, n_tasks)`` losses ‖w_t - w_i*‖² of every run, t = 0 to T."""
    if draws < 2:
        raise InputError(f"draws is {draws}, expected two or more: one tells nothing about the spread.")
    rng = np.random.default_rng(seed)
    most = max(1, _BATCH_NUMBERS // (tasks.n_samples * tasks.width))
    sizes = [min(most, draws - start) for start in range(0, draws, most)]
    return np.concatenate([_losses(tasks, size, rng) for size in sizes])


def _losses(tasks: LinearTasks, draws: int, rng: np.random.Generator) -> Numbers:
    optima = np.pad(tasks.optima, ((0, 0), (0, tasks.width - tasks.optima.shape[1])))
    found = np.zeros((draws, tasks.width))
    losses = [_squared_distances(found, optima)]
    for optimum in optima:
        inputs = rng.standard_normal((draws, tasks.n_samples, tasks.width))
        targets = inputs @ optimum + tasks.noise * rng.standard_normal((draws, tasks.n_samples))
        found = found + _least_change(inputs, targets - np.einsum("dnp,dp->dn", inputs, found))
        losses.append(_squared_distances(found, optima))
    return np.stack(losses, axis=1)


def _least_change(inputs: Numbers, residuals: Numbers) -> Numbers:
    """``X⁺ e = Xᵀ (X Xᵀ)⁻¹ e``, the shortest change of the parameters that takes the residuals away."""
    gram = inputs @ inputs.transpose(0, 2, 1)
    change: Numbers = np.einsum("dnp,dn->dp", inputs, np.linalg.solve(gram, residuals[..., None])[..., 0])
    return change


def _squared_distances(found: Numbers, optima: Numbers) -> Numbers:
    distances: Numbers = np.square(found[:, None] - optima[None]).sum(2)
    return distances


def _estimate(values: Numbers) -> Estimate:
    return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))
