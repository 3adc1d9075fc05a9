"""What is drawn of a similarity graph: boxes with texts and colours, and the lines that say most.

Every class is a box with its name and the number of its group, and has the colour of its group. Lines join look-alikes,
that is, classes the similarity graph joins: the closer two classes are, the darker and thicker the line.

With many classes most pairs may be look-alikes, and drawing them all would show nothing. Then only the few closest of
every class are drawn, and the caption says so.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gddsg.core.grouping import ClassGroups
from gddsg.core.label import Label
from gddsg.core.similarity_graph import SimilarityGraph
from gddsg.errors import InputError
from gddsg.report.graph_layout import MARGIN, NARROWEST, Floats, Pair, placed
from gddsg.wording import counted

__all__ = ["CLOSEST", "COLOURS", "LETTER", "Drawing", "colour", "drawing_of", "text_colour"]

Bools = np.ndarray[Any, np.dtype[np.bool_]]

CLOSEST = 3
"""Look-alikes of a class that are drawn where drawing all of them would show nothing."""

LETTER = 0.57
"""Width of a small letter, in ems."""

_BOX_HEIGHT = 1.8
_SPARSE = 2  # as many lines a class can still be followed by eye
_LONGEST_NAME = 28

# Chosen one after the other, each as far as possible from those before it, in a space of equal perceived differences.
COLOURS = (
    "#1f77b4", "#ff8c14", "#2ca03c", "#cd3c3c", "#78f0ff", "#e187f0", "#781e87", "#2d5a1e",
    "#d2e14b", "#00b4ff", "#ffc3c3", "#a58796", "#3cd296", "#872d00", "#965ac3", "#966900",
    "#3c4b78", "#b4a500", "#ff7896", "#00a5a5", "#b4b4e1", "#8787ff", "#875a69", "#5affb4",
    "#3c7869", "#d25aa5", "#a51e5a", "#c3c387", "#5a4bb4", "#d26900", "#0fd2e1", "#4b7800",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Drawing:
    """A graph ready to be drawn; classes are told by their position.

    Attributes
    ----------
    names, groups, counts : tuple of str or tuple of int or tuple of int or None
        Of every class; the count is None where it is not known.
    distances, similar : ndarray or Bools
        ``(n_classes, n_classes)``.
    pairs : list of Pair
        All look-alikes, closest first.
    drawn : list of Pair
        Those that get a line.
    centres, halves : ndarray
        ``(n_classes, 2)`` middle of the box, half its width and height.
    """

    names: tuple[str, ...]
    groups: tuple[int, ...]
    counts: tuple[int | None, ...]
    distances: Floats
    similar: Bools
    pairs: list[Pair]
    drawn: list[Pair]
    centres: Floats
    halves: Floats

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height."""
        width, height = (self.centres + self.halves).max(0) + MARGIN
        return max(float(width), NARROWEST), float(height)

    @property
    def title(self) -> str:
        """How many classes and groups there are."""
        return f"Similarity graph: {counted(len(self.names), 'class')} in {counted(len(set(self.groups)), 'group')}"

    @property
    def legend(self) -> str:
        """How to read a box."""
        counted = " (samples)" if any(count is not None for count in self.counts) else ""
        text = f"Boxes: class · group{counted}; classes of one group have one colour"
        if max(self.groups) >= len(COLOURS):
            text += f" (colours repeat after {len(COLOURS)} groups)"
        # groups that were never rebuilt may hold classes that have become similar since
        apart = all(self.groups[i] != self.groups[j] for i, j in self.pairs)
        return text + (" and are not look-alikes." if apart else ".")

    @property
    def caption(self) -> str:
        """Which lines are drawn."""
        if not self.pairs:
            return "No two classes are similar, so there are no lines."
        what = f"all {len(self.pairs)} similar pairs" if len(self.pairs) > 1 else "the only similar pair"
        if len(self.drawn) < len(self.pairs):
            what = f"each class with its {CLOSEST} closest look-alikes of {len(self.pairs)} similar pairs"
        return f"Lines: {what}; the darker and thicker, the closer."

    def text(self, i: int) -> str:
        """What stands in a box."""
        count = self.counts[i]
        return f"{_shortened(self.names[i])} · {self.groups[i]}" + ("" if count is None else f" ({count})")

    def closeness(self) -> list[float]:
        """1 for the closest line, 0 for the farthest."""
        lengths = [float(self.distances[pair]) for pair in self.drawn]
        least, most = min(lengths, default=0.0), max(lengths, default=0.0)
        return [(most - length) / (most - least) if most > least else 1.0 for length in lengths]


def drawing_of(graph: SimilarityGraph, groups: ClassGroups, counts: Mapping[Label, int] | None) -> Drawing:
    """The drawing of a graph; an `InputError` if there is no class or the groups are not those of the graph."""
    _check(graph, groups)
    group_of = {label: g for g, group in enumerate(groups) for label in group}
    known = counts or {}
    distances = graph.distances.detach().cpu().double().numpy()
    similar = graph.adjacency.detach().cpu().numpy()
    pairs = _pairs(distances, similar)
    drawn = pairs if len(pairs) <= _SPARSE * len(distances) else _closest_pairs(pairs)
    drawing = Drawing(
        names=tuple(_name(label) for label in graph.labels),
        groups=tuple(group_of[label] for label in graph.labels),
        counts=tuple(int(known[label]) if label in known else None for label in graph.labels),
        distances=distances,
        similar=similar,
        pairs=pairs,
        drawn=drawn,
        centres=np.zeros((len(distances), 2)),
        halves=np.zeros((len(distances), 2)),
    )
    halves = np.array([_box(drawing.text(i)) for i in range(len(distances))]) / 2
    return dataclasses.replace(drawing, halves=halves, centres=placed(distances, drawn, halves))


def _check(graph: SimilarityGraph, groups: ClassGroups) -> None:
    if not graph.labels:
        raise InputError("The similarity graph has no classes, expected at least one; learn some before drawing it.")
    grouped = [label for group in groups for label in group]
    if len(grouped) == len(graph.labels) and set(grouped) == set(graph.labels):
        return
    stray = next((label for label in graph.labels if grouped.count(label) != 1), None)
    stray = next(label for label in grouped if label not in graph.labels) if stray is None else stray
    message = f"Class {stray!r} is {counted(grouped.count(stray), 'time')} in the groups and "
    message += f"{counted(graph.labels.count(stray), 'time')} in the graph, expected once in each; pass both from the "
    message += "same model."
    raise InputError(message)


def _pairs(distances: Floats, similar: Bools) -> list[Pair]:
    """Similar pairs, closest first; among equals in the order of the classes."""
    first, second = np.nonzero(np.triu(similar, 1))
    order = np.argsort(distances[first, second], kind="stable")
    return [(int(first[k]), int(second[k])) for k in order]


def _closest_pairs(pairs: list[Pair]) -> list[Pair]:
    """The pairs that are among the closest of at least one of their two classes."""
    seen: dict[int, int] = {}
    kept = []
    for i, j in pairs:
        if min(seen.get(i, 0), seen.get(j, 0)) < CLOSEST:
            kept.append((i, j))
        seen[i], seen[j] = seen.get(i, 0) + 1, seen.get(j, 0) + 1
    return kept


def _name(label: Label) -> str:
    """A label as one line of text that can be shown: no control characters, no halves of characters."""
    text = "".join(character if character.isprintable() else " " for character in str(label))
    return " ".join(text.split()) or "(no name)"


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _box(text: str) -> tuple[float, float]:
    """Width and height of a box around a text; capitals are wider than small letters, East Asian ones twice as wide."""
    letters = sum(2.0 if unicodedata.east_asian_width(c) in "WF" else 1.3 if c.isupper() else 1.0 for c in text)
    return letters * LETTER + 1.4, _BOX_HEIGHT


def colour(group: int) -> str:
    """Of the boxes of a group."""
    return COLOURS[group % len(COLOURS)]


def text_colour(fill: str) -> str:
    """Black or white, whichever has more contrast; they are equal at a luminance of 0.179 (WCAG 2)."""
    channels = np.array([int(fill[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return "#000" if float(linear @ [0.2126, 0.7152, 0.0722]) > 0.179 else "#fff"
