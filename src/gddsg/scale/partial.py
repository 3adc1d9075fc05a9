"""What units of work give: of each class its rows as long as these are few, otherwise its card; and how they merge.

A class of no more samples than a card has directions keeps its rows to the end, and then gets the very card that one
batch of all its samples would have given. Of a larger class cards are merged, which is exact but for rounding and for
directions beyond the rank.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from gddsg.core.class_card import ClassCard, SampleIds
from gddsg.core.model import Model, Settings
from gddsg.data.dataset import Skipped
from gddsg.errors import DataError, GddsgError

Array = NDArray[np.float32]
T = TypeVar("T")

_MAGIC = b"gddsg-part-1\n"
_DIGEST = 32


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples of a class as they are.

    Attributes
    ----------
    features : ndarray
        ``(n, feature_dim)`` float32.
    samples : ndarray or None
        ``(n,)`` uint64, their ids where they have any.
    """

    features: Array
    samples: SampleIds | None

    def plus(self, other: Rows) -> Rows:
        """Both together."""
        samples = None
        if self.samples is not None and other.samples is not None:
            samples = np.concatenate([self.samples, other.samples])
        return Rows(np.concatenate([self.features, other.features]), samples)


@dataclass(frozen=True, eq=False)
class Partial:
    """What came of some units.

    Attributes
    ----------
    classes : mapping of str to Rows or ClassCard
        By label.
    skipped : tuple of Skipped
        Photos that could not be used, and why.
    """

    classes: Mapping[str, Rows | ClassCard] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True)
class Merger:
    """Makes partials and merges them, for a model of these settings.

    Attributes
    ----------
    settings : Settings
        Of the model.
    """

    settings: Settings

    def partial(
        self, features: Array, labels: Sequence[str], samples: SampleIds | None, skipped: tuple[Skipped, ...] = ()
    ) -> Partial:
        """The partial of a unit.

        Parameters
        ----------
        features : ndarray
            ``(n, feature_dim)`` float32.
        labels : sequence of str
            One a row.
        samples : ndarray or None
            ``(n,)`` uint64.
        skipped : tuple of Skipped
            What was left out of the unit.
        """
        names, classes = np.array(labels, dtype=object), {}
        for label in sorted(set(labels)):
            own = names == label
            rows = Rows(np.ascontiguousarray(features[own]), None if samples is None else samples[own])
            classes[label] = self._cut(label, rows)
        return Partial(classes, skipped)

    def merge(self, first: Partial, second: Partial) -> Partial:
        """Both partials together."""
        classes = dict(first.classes)
        for label, part in second.classes.items():
            classes[label] = self._join(label, classes[label], part) if label in classes else part
        return Partial(dict(sorted(classes.items())), first.skipped + second.skipped)

    def merge_all(self, parts: Iterable[Partial]) -> Partial:
        """All partials, merged in the binary tree over their numbers; few of them are in memory at a time."""
        return fold_by_number(parts, self.merge) or Partial()

    def finished(self, part: Partial) -> Partial:
        """The same with a card for every class."""
        cards = {k: one if isinstance(one, ClassCard) else self._card(k, one) for k, one in part.classes.items()}
        return replace(part, classes=cards)

    def _join(self, label: str, one: Rows | ClassCard, other: Rows | ClassCard) -> Rows | ClassCard:
        if isinstance(one, Rows) and isinstance(other, Rows):
            return self._cut(label, one.plus(other))
        cards = [part if isinstance(part, ClassCard) else self._card(label, part) for part in (one, other)]
        return cards[0].merge(cards[1], self.settings.rank)

    def _cut(self, label: str, rows: Rows) -> Rows | ClassCard:
        return rows if len(rows.features) <= self.settings.rank else self._card(label, rows)

    def _card(self, label: str, rows: Rows) -> ClassCard:
        labels = [label] * len(rows.features)
        features = torch.from_numpy(np.array(rows.features))  # what comes from Ray is read-only
        return Model(self.settings).make_cards(features, labels, rows.samples)[label]

    def encode(self, part: Partial) -> bytes:
        """The partial as bytes that hold no code; equal ones give equal bytes."""
        entries: list[list[Any]] = []
        blobs: list[bytes] = []
        for label, one in part.classes.items():
            kind, pieces = _flat(one)
            entries.append(
                [label, kind, [len(piece) for piece in pieces], len(one.features) if isinstance(one, Rows) else 0]
            )
            blobs += pieces
        index = {"classes": entries, "skipped": [[one.name, one.reason] for one in part.skipped]}
        head = json.dumps(index).encode()
        body = b"".join([struct.pack("<I", len(head)), head, *blobs])
        return _MAGIC + hashlib.sha256(body).digest() + body

    def decode(self, data: bytes) -> Partial:
        """The partial that :meth:`encode` wrote; a :class:`DataError` for other bytes."""
        body = memoryview(data)[len(_MAGIC) + _DIGEST :]
        digest = bytes(data[len(_MAGIC) : len(_MAGIC) + _DIGEST])
        if bytes(data[: len(_MAGIC)]) != _MAGIC or hashlib.sha256(body).digest() != digest:
            raise DataError(f"These {len(data)} bytes are no stored part of a model, or are damaged. Delete them.")
        try:
            return self._decoded(body)
        except (struct.error, ValueError, LookupError, TypeError, GddsgError) as error:
            raise DataError(f"A stored part of a model is of another version ({error}). Delete it.") from error

    def _decoded(self, body: memoryview) -> Partial:
        (size,) = struct.unpack_from("<I", body)
        index, place = json.loads(bytes(body[4 : 4 + size])), 4 + size
        classes: dict[str, Rows | ClassCard] = {}
        for label, kind, sizes, n in index["classes"]:
            ends = np.cumsum([place, *sizes]).tolist()
            blobs = [body[start:end] for start, end in pairwise(ends)]
            place = ends[-1]
            classes[label] = (
                ClassCard.from_bytes(bytes(blobs[0]), self.settings.rank) if kind == "card" else _rows(blobs, n)
            )
        return Partial(classes, tuple(Skipped(name, reason) for name, reason in index["skipped"]))


def fold_by_number(parts: Iterable[T], merge: Callable[[T, T], T]) -> T | None:
    """Merge neighbours, then neighbours of these, and so on, holding one part a level; None for no part.

    Parameters
    ----------
    parts : iterable
        In the order of their numbers.
    merge : callable
        Of two parts.

    Examples
    --------
    >>> fold_by_number("abcde", lambda one, other: f"({one}{other})")
    '(((ab)(cd))e)'
    """
    waiting: list[tuple[int, T]] = []
    for part in parts:
        level = 0
        while waiting and waiting[-1][0] == level:
            part, level = merge(waiting.pop()[1], part), level + 1
        waiting.append((level, part))
    rest = [part for _, part in reversed(waiting)]
    return reduce(lambda later, earlier: merge(earlier, later), rest) if rest else None


def _flat(one: Rows | ClassCard) -> tuple[str, list[bytes]]:
    if isinstance(one, ClassCard):
        return "card", [one.to_bytes()]
    features = np.ascontiguousarray(one.features, "<f4").tobytes()
    if one.samples is None:
        return "rows", [features]
    return "samples", [features, np.ascontiguousarray(one.samples, "<u8").tobytes()]


def _rows(blobs: list[memoryview], n: int) -> Rows:
    features = np.frombuffer(blobs[0], "<f4").reshape(n, -1).astype(np.float32)
    return Rows(features, np.frombuffer(blobs[1], "<u8").astype(np.uint64) if len(blobs) > 1 else None)
