"""What is asked of a class card that comes from outside: that its numbers can be those of a class.

Digests guard a file against damage, not against forgery. A forged card may say what it likes of its class; but it must
not make anything that is computed from it fail, or take more memory than its size explains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gddsg.core.card_format import Array
from gddsg.core.feature_range import LARGEST_FEATURE
from gddsg.core.moments import CodedMoments
from gddsg.core.near_copies import sorted_sketches

LARGEST_COUNT = 2**40
"""Samples of a class: more than anybody will ever have, and far from what float64 counts exactly."""

_ROUNDING = 1.001  # sums are kept in float32
_LARGEST_PROJECTED = 1e4 * LARGEST_FEATURE  # times the root of the number of features; weights are of size 1


def check_content(scalars: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Raise ``ValueError`` unless scalars are numbers of their kinds, and all numbers finite."""
    if not isinstance(scalars, Mapping):
        raise ValueError("it has no scalars")
    for name, value in scalars.items():
        whole = name.rpartition(".")[2] == "count"
        if name == "signed":
            sound = isinstance(value, bool)
        elif whole:
            sound = type(value) is int and 0 <= value <= LARGEST_COUNT
        else:
            sound = type(value) in (int, float) and 0 <= value < np.inf
        if not sound:
            raise ValueError(f"its {name} is {str(value)[:40]!r}")
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"some numbers of its {name} are not finite")


def check_moments(moments: Mapping[str, CodedMoments | None], unit_sum: Tensor, rank: int) -> None:
    """Raise ``ValueError`` unless counts, shapes and sizes go together; ``rank`` is the model's.

    Parameters
    ----------
    moments : mapping of str to CodedMoments or None
        ``root`` (or None), ``raw``, ``projected`` and ``held_out``.
    unit_sum, rank : Tensor, int
        See :class:`gddsg.core.class_card.ClassCard`.
    """
    raw, root = moments["raw"], moments["root"]
    learnt, judged = moments["projected"], moments["held_out"]
    if raw is None or learnt is None or judged is None:
        raise ValueError("some of its moments are missing")
    views = [raw] if root is None else [raw, root]
    for part in (*views, learnt, judged):
        _check_shapes(part, rank)
    _require(1 <= raw.count == learnt.count + judged.count, "its shares do not add up")
    _require(all(view.count == raw.count and view.dim == len(unit_sum) for view in views), "its views differ")
    _require(learnt.dim == judged.dim, "its shares differ")
    _require(unit_sum.ndim == 1 and len(unit_sum) >= 1 and unit_sum.dtype == torch.float32, "its unit sum is none")
    _require(float(unit_sum.double().norm()) <= _ROUNDING * raw.count, "its unit sum is too long")
    for view in views:
        _check_sizes(view, LARGEST_FEATURE)
    for share in (learnt, judged):
        _check_sizes(share, _LARGEST_PROJECTED * raw.dim**0.5)


def check_samples(count: int, sample_ids: NDArray[np.uint64], sketches: NDArray[np.uint64]) -> None:
    """Raise ``ValueError`` unless what a card keeps of single samples goes with their number.

    Parameters
    ----------
    count : int
        Of the samples.
    sample_ids, sketches : ndarray
        See :class:`gddsg.core.class_card.ClassCard`.
    """
    _require(sample_ids.ndim == 1 and sample_ids.dtype == np.uint64, "its sample ids are none")
    _require(len(sample_ids) <= count and bool((sample_ids[1:] > sample_ids[:-1]).all()), "its samples differ")
    _require(sketches.dtype == np.uint64 and sketches.shape == (len(sketches), 2), "its sketches are none")
    _require(len(sketches) <= count, "it has more sketches than samples")
    _require(bool(np.array_equal(sketches, sorted_sketches(sketches))), "its sketches are in disorder")


def _check_shapes(moments: CodedMoments, rank: int) -> None:
    total, factor = moments.total, moments.factor
    _require(total.ndim == 1 and total.dtype == torch.float32, "a sum is none")
    _require(factor.scales.ndim == 1 and factor.scales.dtype == np.float32, "the scales of a factor are none")
    _require(factor.codes.dtype == np.int8 and factor.codes.shape == (len(factor), moments.dim), "a factor is none")
    _require(len(factor) <= min(rank, moments.count), "a factor has more rows than its class can have")


def _check_sizes(moments: CodedMoments, largest: float) -> None:
    """Sums and scatter are not above those of ``count`` vectors of ``largest`` entries."""
    count, limit = moments.count, _ROUNDING * largest
    _require(bool((moments.total.double().abs() <= limit * count).all()), "a sum is too large for its count")
    _require(bool((moments.factor.scales >= 0).all()), "a scale is negative")
    _require(moments.energy <= limit**2 * count * moments.dim, "a scatter is too large for its count")


def _require(sound: bool, wrong: str) -> None:
    if not sound:
        raise ValueError(wrong)
