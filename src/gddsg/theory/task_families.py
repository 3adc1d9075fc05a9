"""Families of tasks that move apart, each in its own way: does their order matter less then, or more.

The paper's corollary says that a larger sum of squared distances between the tasks' optimal parameters is sufficient
for a smaller variance of E[F_T] and E[G_T] over orders. Each family below is a way to enlarge, or to keep, that sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gddsg.theory.linear_tasks import LinearTasks, Numbers
from gddsg.theory.order_variance import forgetting_over_orders, generalisation_over_orders

N_TASKS, N_SAMPLES, WIDTH = 8, 10, 50
_ROUNDING = 1e-20
_SAME = 1e-6


@dataclass(frozen=True)
class Family:
    """A way to move tasks apart.

    Attributes
    ----------
    name : str
        What happens to the tasks.
    parameter : str
        What is varied.
    values : tuple of float
        Its values, along which the tasks move apart.
    optima : callable
        Value and generator to ``(n_tasks, dim)`` optimal parameters.
    draws : int
        Of how many draws variances are averaged; one where nothing is random from value to value.
    """

    name: str
    parameter: str
    values: tuple[float, ...]
    optima: Callable[[float, np.random.Generator], Numbers]
    draws: int = 1


@dataclass(frozen=True)
class Point:
    """Tasks of a family at one value, averaged over its draws.

    Attributes
    ----------
    value : float
        Of the family's parameter.
    distances : float
        Σ_ij ‖w_i* - w_j*‖², the quantity of the corollary.
    generalisation_variance, forgetting_variance : float
        Of E[G_T] and E[F_T] over all orders.
    relative_generalisation_variance, relative_forgetting_variance : float
        The same divided by the square of the mean squared distance of two tasks.
    """

    value: float
    distances: float
    generalisation_variance: float
    forgetting_variance: float
    relative_generalisation_variance: float
    relative_forgetting_variance: float


def walk(family: Family, seed: int = 0) -> list[Point]:
    """The variances over orders along a family, eight tasks of ten samples in fifty dimensions, without noise.

    Noise adds the same to every order, and so no variance.

    Parameters
    ----------
    family : Family
        One of :data:`FAMILIES`, or your own.
    seed : int
        Of what is random in it; every value starts from the same seed.

    Examples
    --------
    Tasks twice as far apart in every direction have variances sixteen times as large:

    >>> small, *_, large = walk(FAMILIES[0])
    >>> large.value / small.value, large.forgetting_variance / small.forgetting_variance
    (4.0, 256.0)
    """
    return [_point(family, value, seed) for value in family.values]


def trend(values: Sequence[float]) -> str:
    """In a word, where a sequence of variances goes: zero, constant, grows, falls, or rises and falls.

    Examples
    --------
    >>> trend([1.0, 2.0, 3.0]), trend([3.0, 1.0]), trend([0.0, 0.0]), trend([1.0, 2.0, 1.0])
    ('grows', 'falls', 'zero', 'rises, then falls')
    """
    found = np.array(values)
    if (np.abs(found) < _ROUNDING).all():
        return "zero"
    steps = np.diff(found)
    steps = steps[np.abs(steps) > _SAME * found.max()]
    if not len(steps):
        return "constant"
    if (steps > 0).all() or (steps < 0).all():
        return "grows" if steps[0] > 0 else "falls"
    turns = int((np.diff(np.sign(steps)) != 0).sum())
    return ("rises, then falls" if steps[0] > 0 else "falls, then rises") if turns == 1 else "neither"


def _point(family: Family, value: float, seed: int) -> Point:
    rng = np.random.default_rng(seed)
    rows = [_measured(family.optima(value, rng)) for _ in range(family.draws)]
    return Point(value, *(float(mean) for mean in np.mean(rows, axis=0)))


def _measured(optima: Numbers) -> tuple[float, ...]:
    tasks = LinearTasks(optima, N_SAMPLES, WIDTH)
    total = float(tasks.squared_distances.sum())
    variances = generalisation_over_orders(tasks).variance, forgetting_over_orders(tasks).variance
    mean = total / (tasks.n_tasks * (tasks.n_tasks - 1))
    return total, *variances, *(variance / mean**2 if mean > 0 else 0.0 for variance in variances)


def _unit(vectors: Numbers) -> Numbers:
    units: Numbers = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units


def _directions(rng: np.random.Generator, dim: int) -> Numbers:
    return _unit(rng.standard_normal((N_TASKS, dim)))


def _scaled(factor: float, rng: np.random.Generator) -> Numbers:
    return factor * _directions(rng, 5)


def _from_common_direction(degrees: float, rng: np.random.Generator) -> Numbers:
    angle = np.radians(degrees)
    return np.hstack([np.full((N_TASKS, 1), np.cos(angle)), np.sin(angle) * _directions(rng, 5)])


def _equal_angles(degrees: float, _: np.random.Generator) -> Numbers:
    # w_k = a u + b e_k, of unit norm, with w_i · w_j = a² = cos(angle)
    a = np.sqrt(np.cos(np.radians(degrees)))
    return np.hstack([np.full((N_TASKS, 1), a), np.sqrt(1 - a**2) * np.eye(N_TASKS)])


def _look_alikes_parted(degrees: float, _: np.random.Generator) -> Numbers:
    optima, angle = np.eye(N_TASKS), np.radians(degrees)
    for first in (0, 2):
        optima[first + 1] = np.cos(angle) * optima[first] + np.sin(angle) * optima[first + 1]
    return optima


def _outlier(degrees: float, _: np.random.Generator) -> Numbers:
    optima, angle = np.hstack([_equal_angles(30, _), np.zeros((N_TASKS, 1))]), np.radians(degrees)
    centre = optima[:-1].mean(0) / np.linalg.norm(optima[:-1].mean(0))
    optima[-1] = np.cos(angle) * centre
    optima[-1, -1] = np.sin(angle)
    return optima


def _clusters(first: int) -> Callable[[float, np.random.Generator], Numbers]:
    def optima(degrees: float, _: np.random.Generator) -> Numbers:
        sides = np.where(np.arange(N_TASKS) < first, 1.0, -1.0)
        angle = np.radians(degrees)
        return np.stack([np.full(N_TASKS, np.cos(angle)), np.sin(angle) * sides], axis=1)

    return optima


def _turned_round(count: float, _: np.random.Generator) -> Numbers:
    return np.where(np.arange(N_TASKS) < count, -1.0, 1.0)[:, None]


def _random_directions(dim: float, rng: np.random.Generator) -> Numbers:
    return _directions(rng, round(dim))


_ANGLES = tuple(float(degrees) for degrees in range(10, 91, 10))

FAMILIES = (
    Family("all optima are multiplied", "factor", (0.25, 0.5, 0.75, 1.0), _scaled),
    Family("equal norms; all turn away from a common direction", "angle", _ANGLES, _from_common_direction),
    Family("equal norms; one task turns away from the others", "angle", tuple(range(30, 151, 15)), _outlier),
    Family("equal norms; clusters of 6 and 2 part", "half angle", _ANGLES, _clusters(6)),
    Family("equal norms; clusters of 4 and 4 part", "half angle", _ANGLES, _clusters(4)),
    Family("equal norms; tasks are turned round, one by one", "tasks", (0, 1, 2, 3, 4), _turned_round),
    Family("equal norms; equal angles between all tasks", "angle", _ANGLES, _equal_angles),
    Family("equal norms; two look-alike pairs part, all else orthogonal", "angle", _ANGLES, _look_alikes_parted),
    Family("equal norms; random directions, more dimensions", "dimensions", (2, 4, 8, 16, 32), _random_directions, 400),
)
"""What the table of docs/theory.md goes through."""
