"""How sure a mean is, and whether one learner is ahead of another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from gddsg.errors import InputError

Numbers = NDArray[np.float64]

_ROUNDING = 1e-12


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
    sample = finite_sample(values, "values")
    mean, sd = mean_and_sd(sample)
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
    first, second = finite_sample(a, "a"), finite_sample(b, "b")
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


def _p_value(differences: Numbers) -> float:
    n, (mean, sd) = len(differences), mean_and_sd(differences)
    if n > 1 and sd == 0:
        return 0.0 if mean else 1.0
    return float(2 * stdtr(n - 1, -abs(mean) / (sd / math.sqrt(n)))) if n > 1 else float("nan")


def _t_quantile(n: int, level: float) -> float:
    """``t`` for which a Student variable of n − 1 degrees of freedom is within ±t with probability ``level``."""
    if not 0 < level < 1:
        raise InputError(f"level={level!r} was given; expected a probability between 0 and 1, such as 0.95.")
    return float(stdtrit(n - 1, (1 + level) / 2)) if n > 1 else float("nan")


def mean_and_sd(values: Numbers) -> tuple[float, float]:
    """Mean and standard deviation of a sample; the latter is exactly 0 for identical values, NaN for a single one."""
    if len(values) > 1 and (values == values[0]).all():  # their computed mean may differ from them in the last bit
        return float(values[0]), 0.0
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def finite_sample(values: ArrayLike, name: str) -> Numbers:
    """A copy of the values, if they are finite numbers in one row."""
    found = np.array(values, dtype=np.float64)
    if found.ndim != 1 or found.size == 0 or not np.isfinite(found).all():
        raise InputError(
            f"{name} of shape {found.shape} were given; expected finite numbers (n,), at least one of them. Leave "
            "out what was not measured."
        )
    return found
