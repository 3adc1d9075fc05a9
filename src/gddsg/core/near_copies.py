"""Near copies: samples that are all but the same, such as a burst, a mirrored photo or one that was saved again.

Ten of them say no more about their class than one does. Counted as ten, they make a model trust its covariance and its
class means far more than it should.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gddsg.core.transform import apply_view

Sketches = NDArray[np.uint64]
"""``(n, 2)``: of every sample on which side of 128 planes it lies. Two samples differ in a share of the bits that is
their angle divided by π."""

SKETCH_BITS = 128

NEAR_SHARE, FAR_QUANTILE = 0.4, 0.75
"""Samples are near copies if they differ in no more than this share of the bits in which samples of their class usually
do: where all look much alike to the network they are not all copies of each other."""

SURE_SHARE = 0.25
"""The same where somebody is told of a copy, and a false alarm would be worse than a copy that is not noticed."""

LEAST_BITS, MOST_BITS = 4, 19
"""Samples that differ in no more bits are always near copies, those that differ in more never: angles of 6° and 27°."""

NO_SKETCHES: Sketches = np.empty((0, 2), dtype=np.uint64)

_ASKED_ABOUT = 1024  # samples whose copies are counted: the time goes with their number, not with its square
_ROWS_AT_ONCE = 32


def sketch_samples(features: NDArray[Any]) -> Sketches:
    """Sketches of features ``(n, dim)``, in their order; none where there are fewer dimensions than bits.

    In few dimensions there are few directions, and samples that have nothing in common would share one.

    Parameters
    ----------
    features : ndarray
        ``(n, dim)`` float32.
    """
    dim = features.shape[1]
    if dim < SKETCH_BITS:
        return NO_SKETCHES
    rooted = apply_view(features.astype(np.float64), "root")
    # without what all features of a sample have in common, which would leave all samples in one corner
    sides = (rooted - rooted.mean(1, keepdims=True)) @ _planes(dim) > 0
    return np.packbits(sides, axis=1).view(np.uint64)


def sorted_sketches(sketches: Sketches) -> Sketches:
    """The same rows in the order of their bits, whatever order they came in."""
    return sketches[np.lexsort((sketches[:, 1], sketches[:, 0]))]


def count_distinct(count: int, sketches: Sketches) -> int:
    """How many samples there are if near copies count as one: over all, the sum of 1 / (near copies, itself included).

    Parameters
    ----------
    count : int
        All samples; those without a sketch are no copies.
    sketches : ndarray
        Of the others, sorted.
    """
    n = len(sketches)
    if n < 2:
        return count
    distances = _distances(_spread(sketches), sketches)
    near = (distances <= _near_limit(distances, NEAR_SHARE)).sum(1)
    return max(count - n + round(n * float(np.mean(1 / near))), 1)


def near_pairs(sketches: Sketches) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Places of the samples of a class that are near copies of each other, some pairs at a time.

    Parameters
    ----------
    sketches : ndarray
        Of all samples of the class; a table of all pairs might fill the memory.
    """
    limit = _near_limit(_distances(_spread(sketches), sketches), NEAR_SHARE)
    for start in range(0, len(sketches), _ROWS_AT_ONCE):
        rows, columns = np.nonzero(_distances(sketches[start : start + _ROWS_AT_ONCE], sketches) <= limit)
        yield rows + start, columns


def has_copies(others: Sketches, every: Sketches) -> NDArray[np.bool_]:
    """Which of some other samples surely have a near copy among those of a class, ``(n_others,)``.

    Parameters
    ----------
    others, every : ndarray
        Sketches of the former and of the class.
    """
    if len(every) == 0:
        return np.zeros(len(others), dtype=bool)
    limit = _near_limit(_distances(_spread(every), every), SURE_SHARE)
    return np.asarray((_distances(others, every) <= limit).any(1))


def _spread(sketches: Sketches) -> Sketches:
    """Some of many, evenly spread."""
    return sketches[np.linspace(0, len(sketches) - 1, min(len(sketches), _ASKED_ABOUT)).round().astype(np.intp)]


def _distances(some: Sketches, every: Sketches) -> NDArray[np.uint8]:
    """In how many bits they differ, ``(n_some, n_every)``."""
    distances = np.empty((len(some), len(every)), dtype=np.uint8)
    for start in range(0, len(some), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        distances[rows] = np.bitwise_count(some[rows, None] ^ every).sum(2)
    return distances


def _near_limit(distances: NDArray[np.uint8], share: float) -> int:
    """Bits in which near copies differ at most; a row of distances is that of a sample to all, itself included."""
    numbers = sum((np.bincount(row, minlength=SKETCH_BITS + 1) for row in distances), np.zeros(1, dtype=np.intp))
    numbers[0] -= len(distances)
    usual = int(np.searchsorted(np.cumsum(numbers), FAR_QUANTILE * numbers.sum()))
    return min(max(int(share * usual), LEAST_BITS), MOST_BITS)


@lru_cache(maxsize=8)
def _planes(dim: int) -> NDArray[np.float64]:
    return np.random.RandomState(0).standard_normal((dim, SKETCH_BITS))
