"""Which photos are learnt: each sample once, none under two labels, none that the model knows already.

The rules are those of :func:`gddsg.photos.sorting.sort_photos`, on arrays: of a hundred million photos there are eight
bytes each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gddsg.core.class_card import SampleIds
from gddsg.core.label import Label

Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Surveyed:
    """What a first look at the photos of a piece found, in their order, without those that cannot be read.

    Attributes
    ----------
    rows : ndarray
        ``(n,)``, where they are in the piece.
    samples : ndarray
        ``(n,)`` uint64, their sample ids.
    labels : tuple of str
        The classes there are.
    codes : ndarray
        ``(n,)``, indices of their labels among these.
    """

    rows: Rows
    samples: SampleIds
    labels: tuple[str, ...]
    codes: Rows


@dataclass(frozen=True, eq=False)
class Settled:
    """What is to be done with every photo.

    Attributes
    ----------
    wanted : tuple of ndarray
        For every piece, which entries of what was surveyed are to be learnt.
    known : int
        How many the model has learnt under their label, or come twice.
    contradictory : tuple of tuple of int, int and str
        Piece, entry, and why the photo cannot be learnt.
    """

    wanted: tuple[Rows, ...]
    known: int
    contradictory: tuple[tuple[int, int, str], ...]


def settle(surveyed: Sequence[Surveyed], known: Mapping[Label, SampleIds]) -> Settled:
    """Sort photos by what a model knows.

    Parameters
    ----------
    surveyed : sequence of Surveyed
        All pieces in their order.
    known : mapping of Label to ndarray
        Ids of the samples that the model has learnt, by label.
    """
    names = sorted({label for one in surveyed for label in one.labels})
    place = {name: code for code, name in enumerate(names)}
    samples = np.concatenate([np.empty(0, np.uint64), *(one.samples for one in surveyed)])
    codes = np.concatenate([np.empty(0, np.intp), *(_codes(one, place) for one in surveyed)])
    unique, first, group = np.unique(samples, return_index=True, return_inverse=True)
    learnt_as, learnt_names = _learnt(unique, known, place)
    learnt = learnt_as[group]
    least, most = _extremes(group, codes, len(unique))
    contradicted = np.where(learnt >= 0, learnt != codes, least[group] != most[group])
    new = np.zeros(len(samples), dtype=bool)
    new[first] = True
    new &= (learnt < 0) & ~contradicted
    ends = np.cumsum([0, *(len(one.samples) for one in surveyed)])
    given = _given(group, codes, contradicted & (learnt < 0), names)
    contradictory = []
    for row in np.flatnonzero(contradicted).tolist():
        piece = int(np.searchsorted(ends, row, side="right")) - 1
        others = (
            [learnt_names[learnt[row]]] if learnt[row] >= 0 else sorted(given[int(group[row])] - {names[codes[row]]})
        )
        how = "already learnt" if learnt[row] >= 0 else "the same photo is also given"
        contradictory.append((piece, int(row - ends[piece]), f"{how} as {', '.join(map(repr, others))}"))
    wanted = tuple(np.flatnonzero(new[start:stop]) for start, stop in pairwise(ends.tolist()))
    return Settled(wanted, int(len(samples) - new.sum() - contradicted.sum()), tuple(contradictory))


def _codes(one: Surveyed, place: Mapping[str, int]) -> Rows:
    table = np.array([place[label] for label in one.labels], dtype=np.intp)
    return table[one.codes] if len(one.codes) else np.empty(0, np.intp)


def _learnt(
    unique: SampleIds, known: Mapping[Label, SampleIds], place: Mapping[str, int]
) -> tuple[Rows, dict[int, str]]:
    """For every sample the code of the class it was learnt as, -1 for none; and the names of these codes."""
    found, names = np.full(len(unique), -1, dtype=np.intp), {}
    for number, (label, ids) in enumerate(known.items()):
        code = place.get(str(label), len(place) + number)
        names[code] = str(label)
        found[np.isin(unique, ids)] = code
    return found, names


def _extremes(group: Rows, codes: Rows, n: int) -> tuple[Rows, Rows]:
    """The least and the largest code of every sample: two if it is given under two labels."""
    least, most = np.full(n, np.iinfo(np.intp).max), np.full(n, -1)
    np.minimum.at(least, group, codes)
    np.maximum.at(most, group, codes)
    return least, most


def _given(group: Rows, codes: Rows, contradicted: NDArray[np.bool_], names: Sequence[str]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for row in np.flatnonzero(contradicted).tolist():
        found.setdefault(int(group[row]), set()).add(names[codes[row]])
    return found
