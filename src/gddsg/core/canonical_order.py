"""The order that classes are taken in, and their division into blocks: by the content of their cards, never by name."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from gddsg.core.class_card import ClassCard
from gddsg.core.label import Label

BLOCK_SIZE = 512
"""Classes whose means are whitened and whose graph is coloured together: a newcomer changes its own block alone.
Classes of different blocks are in different groups."""


def by_content(cards: Mapping[Label, ClassCard]) -> dict[Label, ClassCard]:
    """The cards in canonical order: by their hashes; those of equal hashes, which hold the same, by label."""
    return {label: cards[label] for label in sorted(sorted(cards), key=lambda label: cards[label].key)}


def content_blocks(keys: Sequence[int]) -> list[slice]:
    """Runs of sorted 64-bit hashes, halved by their bits until none exceeds the size of a block."""

    def halved(start: int, stop: int, bit: int) -> Iterator[slice]:
        if stop - start <= BLOCK_SIZE or bit < 0:
            yield slice(start, stop)
            return
        middle = bisect_left(keys, (keys[start] >> bit + 1 << bit + 1) | 1 << bit, start, stop)
        for half in ((start, middle), (middle, stop)):
            if half[0] < half[1]:
                yield from halved(*half, bit - 1)

    return list(halved(0, len(keys), 63))
