"""The coloured similarity graph of a model as a picture (PNG) and as a page to explore (HTML).

Every class is a box with its name and the number of its group, and has the colour of its group. Lines join look-alikes,
that is, classes the similarity graph joins: the closer two classes are, the darker and thicker the line.

With many classes most pairs may be look-alikes, and drawing them all would show nothing. Then only the few closest of
every class are drawn, and the caption says so.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import io
import json
import os
import textwrap
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from gddsg.core.grouping import ClassGroups
from gddsg.core.similarity_graph import Label, SimilarityGraph
from gddsg.errors import DataError, InputError, MissingExtraError
from gddsg.files import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["graph_figure", "save_graph_html", "save_graph_png"]

Floats = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
Pair = tuple[int, int]

CLOSEST = 3
"""Look-alikes of a class that are drawn where drawing all of them would show nothing."""

_SPARSE = 2  # as many lines a class can still be followed by eye
_PANEL_RIVALS = 8
_PAGE_PAIRS = 500
_PAGE_ALIKE = 200
_LONGEST_NAME = 28

# Chosen one after the other, each as far as possible from those before it, in a space of equal perceived differences.
_COLOURS = (
    "#1f77b4", "#ff8c14", "#2ca03c", "#cd3c3c", "#78f0ff", "#e187f0", "#781e87", "#2d5a1e",
    "#d2e14b", "#00b4ff", "#ffc3c3", "#a58796", "#3cd296", "#872d00", "#965ac3", "#966900",
    "#3c4b78", "#b4a500", "#ff7896", "#00a5a5", "#b4b4e1", "#8787ff", "#875a69", "#5affb4",
    "#3c7869", "#d25aa5", "#a51e5a", "#c3c387", "#5a4bb4", "#d26900", "#0fd2e1", "#4b7800",
)  # fmt: skip

# Places and sizes are in ems (1 is the size of the type), from the top left, so that picture and page share one layout.
_MARGIN = 1.5
_LETTER = 0.57
_BOX_HEIGHT = 1.8
_NARROWEST = 48.0
_PNG_POINTS = 8.0
_PNG_DPI = 160.0
_PNG_LARGEST = 12_000
_PAGE_PIXELS = 13.0


def graph_figure(graph: SimilarityGraph, groups: ClassGroups, counts: Mapping[Label, int] | None = None) -> Figure:
    """The graph as a matplotlib figure, which grows with the number of classes.

    Parameters
    ----------
    graph : the similarity graph of a model.
    groups : its class groups; every class of the graph is in exactly one.
    counts : samples of each class, shown in parentheses where they are known.

    Raises
    ------
    InputError
        If there is no class, or groups and graph do not have the same classes.
    MissingExtraError
        If matplotlib is not installed.
    """
    drawing = _drawing(graph, groups, counts)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        message = "Drawing the graph as PNG needs matplotlib, which is not installed; pip install matplotlib, "
        message += "or write it as HTML, which needs nothing more."
        raise MissingExtraError(message) from error
    width, height = drawing.extent
    caption = textwrap.fill(f"{drawing.legend} {drawing.caption}", int(width / _LETTER), break_on_hyphens=False)
    below = 1.4 * (caption.count("\n") + 1) + _MARGIN
    inches = _PNG_POINTS / 72
    figure = Figure(figsize=(width * inches, (height + 3 + below) * inches))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height + below, -3))
    axes.set_axis_off()
    _draw_lines(axes, drawing)
    _draw_boxes(axes, drawing)
    axes.text(width / 2, -1, drawing.title, size=1.5 * _PNG_POINTS, ha="center", va="center")
    axes.text(width / 2, height, caption, size=_PNG_POINTS, ha="center", va="top", color="0.25")
    return figure


def save_graph_png(
    path: str | os.PathLike[str],
    graph: SimilarityGraph,
    groups: ClassGroups,
    counts: Mapping[Label, int] | None = None,
) -> None:
    """Write the picture of :func:`graph_figure` to a file; a `DataError` says why that was not possible."""
    figure = graph_figure(graph, groups, counts)
    content = io.BytesIO()
    dpi = min(_PNG_DPI, _PNG_LARGEST / max(figure.get_size_inches()))
    figure.savefig(content, format="png", dpi=dpi)
    _replace(path, content.getvalue())


def save_graph_html(
    path: str | os.PathLike[str],
    graph: SimilarityGraph,
    groups: ClassGroups,
    counts: Mapping[Label, int] | None = None,
) -> None:
    """Write one page to explore the graph with; it loads nothing, so it can be mailed and opened anywhere.

    Pointing at a class shows its look-alikes, its group and its closest rivals; the search box finds classes; a table
    lists the closest pairs. Parameters and errors are those of :func:`save_graph_png`, matplotlib is not needed.
    """
    _replace(path, _page(_drawing(graph, groups, counts)).encode())


# What is drawn, and where.


@dataclass(frozen=True, eq=False)
class _Drawing:
    """A graph ready to be drawn; classes are told by their position.

    Attributes
    ----------
    names, groups, counts : of every class; the count is None where it is not known.
    distances, similar : ``(n_classes, n_classes)``.
    pairs : all look-alikes, closest first.
    drawn : those that get a line.
    centres, halves : ``(n_classes, 2)`` middle of the box, half its width and height.
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
        width, height = (self.centres + self.halves).max(0) + _MARGIN
        return max(float(width), _NARROWEST), float(height)

    @property
    def title(self) -> str:
        """How many classes and groups there are."""
        return f"Similarity graph: {_number(len(self.names), 'class')} in {_number(len(set(self.groups)), 'group')}"

    @property
    def legend(self) -> str:
        """How to read a box."""
        counted = " (samples)" if any(count is not None for count in self.counts) else ""
        text = f"Boxes: class · group{counted}; classes of one group have one colour"
        if max(self.groups) >= len(_COLOURS):
            text += f" (colours repeat after {len(_COLOURS)} groups)"
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


def _drawing(graph: SimilarityGraph, groups: ClassGroups, counts: Mapping[Label, int] | None) -> _Drawing:
    _check(graph, groups)
    group_of = {label: g for g, group in enumerate(groups) for label in group}
    known = counts or {}
    distances = graph.distances.detach().cpu().double().numpy()
    similar = graph.adjacency.detach().cpu().numpy()
    pairs = _pairs(distances, similar)
    drawn = pairs if len(pairs) <= _SPARSE * len(distances) else _closest_pairs(pairs)
    drawing = _Drawing(
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
    return dataclasses.replace(drawing, halves=halves, centres=_placed(distances, drawn, halves))


def _check(graph: SimilarityGraph, groups: ClassGroups) -> None:
    if not graph.labels:
        raise InputError("The similarity graph has no classes, expected at least one; learn some before drawing it.")
    grouped = [label for group in groups for label in group]
    if len(grouped) == len(graph.labels) and set(grouped) == set(graph.labels):
        return
    stray = next((label for label in graph.labels if grouped.count(label) != 1), None)
    stray = next(label for label in grouped if label not in graph.labels) if stray is None else stray
    message = f"Class {stray!r} is {grouped.count(stray)} times in the groups and "
    message += f"{graph.labels.count(stray)} times in the graph, expected once in each; pass both from the same model."
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


def _placed(distances: Floats, drawn: list[Pair], halves: Floats) -> Floats:
    """Places in which joined classes are near each other and no box covers another."""
    area = 6.0 * float(np.prod(2 * halves, axis=1).sum())
    width = max(np.sqrt(area * 5 / 3), _NARROWEST - 2 * _MARGIN)
    height = min(width * 3 / 5, 5 * len(halves))  # of two or three classes all would be far from each other
    centres = _parted(_evened(_layout(distances, drawn)) * [width, height], halves)
    return np.asarray(centres - (centres - halves).min(0) + _MARGIN + _centring(centres, halves))


def _centring(centres: Floats, halves: Floats) -> Floats:
    """Shift to the right that keeps a few boxes in the middle of the least width."""
    used = float(np.ptp(np.concatenate([centres - halves, centres + halves])[:, 0])) + 2 * _MARGIN
    return np.array([max(_NARROWEST - used, 0.0) / 2, 0.0])


def _layout(distances: Floats, drawn: list[Pair]) -> Floats:
    scale = float(distances.max()) or 1.0
    lengths = 0.3 + distances / scale  # never 0, and not too uneven to be drawn
    # the shortest tree that spans all classes holds parts together that no line joins
    tree = [(int(i), int(j)) for i, j in zip(*minimum_spanning_tree(lengths).nonzero(), strict=True)]
    net = nx.Graph()
    net.add_nodes_from(range(len(distances)))
    net.add_edges_from((i, j, {"length": lengths[i, j], "pull": 1 / lengths[i, j]}) for i, j in [*drawn, *tree])
    places = nx.spring_layout(net, weight="pull", seed=0)
    if 2 < len(distances) <= 150:  # better, but its time grows with the cube of the classes
        places = nx.kamada_kawai_layout(net, pos=places, weight="length")
    return _laid_flat(np.array([places[i] for i in range(len(distances))]))


def _laid_flat(points: Floats) -> Floats:
    """Turned so that the longest extent is horizontal; a diagonal chain would leave two corners empty."""
    points = points - points.mean(0)
    _, axes = np.linalg.eigh(points.T @ points)
    return np.asarray(points @ axes[:, ::-1])


def _evened(points: Floats) -> Floats:
    """Points in the unit square, halfway between where they are and an even distribution along each axis."""
    most = max(len(points) - 1, 1)
    ranks = points.argsort(0, kind="stable").argsort(0, kind="stable") / most
    least = points.min(0)
    spread = np.maximum(points.max(0) - least, 1e-12)
    return np.asarray((ranks + (points - least) / spread) / 2)


def _parted(centres: Floats, halves: Floats, rounds: int = 300) -> Floats:
    """Push boxes apart until none covers another, each pair along the axis in which it takes the smaller push."""
    n = len(centres)
    if n > 2000:  # n² numbers a round; at this size it is the page with its search that helps
        return centres
    room = halves[:, None] + halves[None, :] + np.array([1.2, 0.9])
    side = np.where(np.arange(n)[:, None] < np.arange(n)[None, :], -1.0, 1.0)[:, :, None]
    for done in range(rounds):
        gaps = centres[:, None] - centres[None, :]
        excess = room - np.abs(gaps)
        clash = (excess > 1e-3).all(2) & ~np.eye(n, dtype=bool)
        if not clash.any():
            break
        along = excess == excess.min(2, keepdims=True)
        away = np.where(gaps == 0, side, np.sign(gaps))
        centres = centres + 0.4 * (clash[:, :, None] * along * excess * away).sum(1)
        if done >= 50:  # in a crowd pushes only pass clashes on, so let it have more room
            centres = centres * 1.01
    return centres


def _name(label: Label) -> str:
    """A label as one line of text that can be shown: no control characters, no halves of characters."""
    text = "".join(character if character.isprintable() else " " for character in str(label))
    return " ".join(text.split()) or "(no name)"


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _box(text: str) -> tuple[float, float]:
    """Width and height of a box around a text; capitals are wider than small letters, East Asian ones twice as wide."""
    letters = sum(2.0 if unicodedata.east_asian_width(c) in "WF" else 1.3 if c.isupper() else 1.0 for c in text)
    return letters * _LETTER + 1.4, _BOX_HEIGHT


def _number(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}es" if thing.endswith("s") else f"{n} {thing}s"


def _colour(group: int) -> str:
    return _COLOURS[group % len(_COLOURS)]


def _text_colour(fill: str) -> str:
    """Black or white, whichever has more contrast; they are equal at a luminance of 0.179 (WCAG 2)."""
    channels = np.array([int(fill[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return "#000" if float(linear @ [0.2126, 0.7152, 0.0722]) > 0.179 else "#fff"


# The picture.


def _draw_lines(axes: Axes, drawing: _Drawing) -> None:
    from matplotlib.collections import LineCollection

    closeness = np.array(drawing.closeness())
    order = closeness.argsort(kind="stable")  # the dark ones on top
    ends = [drawing.centres[list(drawing.drawn[k])] for k in order]
    greys = [str(0.78 - 0.63 * closeness[k]) for k in order]
    axes.add_collection(LineCollection(ends, linewidths=list(0.6 + 2.0 * closeness[order]), colors=greys, zorder=1))


def _draw_boxes(axes: Axes, drawing: _Drawing) -> None:
    from matplotlib.patches import FancyBboxPatch

    fonts = _fonts()
    for i, ((x, y), half) in enumerate(zip(drawing.centres, drawing.halves, strict=True)):
        fill = _colour(drawing.groups[i])
        width, height = 2 * half
        corner = (x - width / 2 + 0.5, y - height / 2 + 0.5)
        box = FancyBboxPatch(corner, width - 1, height - 1, boxstyle="round,pad=0.5", fc=fill, ec="0.2", lw=0.6)
        box.set_zorder(2)
        axes.add_patch(box)
        text = axes.text(x, y, drawing.text(i), size=_PNG_POINTS, ha="center", va="center", zorder=3)
        text.set(color=_text_colour(fill), family=fonts, parse_math=False)  # a label may hold dollar signs


def _fonts() -> list[str]:
    """The usual font, and for letters it lacks whichever of the common ones is installed."""
    from matplotlib import font_manager

    others = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Microsoft YaHei", "PingFang SC", "Arial Unicode MS")
    installed = set(font_manager.get_font_names())
    return ["DejaVu Sans", *(name for name in others if name in installed)]


# The page.


def _page(drawing: _Drawing) -> str:
    parts = resources.files("gddsg.report") / "graph_page"
    template, style, script = ((parts / name).read_text("utf-8") for name in ("page.html", "style.css", "script.js"))
    return Template(template).substitute(
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none'; script-src {_digest(script)}; "
        f"style-src {_digest(style)}",
        style=style,
        script=script,
        title=html.escape(drawing.title),
        caption=html.escape(f"{drawing.legend} {drawing.caption}"),
        graph=_svg(drawing),
        # inside a script element only "<" could end it or open a comment
        classes=json.dumps(_facts(drawing), separators=(",", ":")).replace("<", "\\u003c"),
        table_caption=html.escape(_table_caption(drawing)),
        rows="\n".join(_row(drawing, pair) for pair in drawing.pairs[:_PAGE_PAIRS]),
    )


def _digest(text: str) -> str:
    """Names the one script and the one style that browsers are allowed to use on the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _svg(drawing: _Drawing) -> str:
    width, height = (round(side * _PAGE_PIXELS) for side in drawing.extent)
    lines = [_svg_line(drawing, *drawn) for drawn in zip(drawing.drawn, drawing.closeness(), strict=True)]
    boxes = [_svg_box(drawing, i) for i in range(len(drawing.names))]
    opening = f'<svg id="graph" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="group"'
    opening += f' aria-label="{html.escape(drawing.title)}">'
    return "\n".join([opening, *lines[::-1], '<g id="rays"></g>', *boxes, "</svg>"])


def _svg_line(drawing: _Drawing, pair: Pair, closeness: float) -> str:
    (x1, y1), (x2, y2) = drawing.centres[list(pair)] * _PAGE_PIXELS
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line class="edge" {ends} stroke-width="{1 + 3 * closeness:.2f}" opacity="{0.2 + 0.7 * closeness:.2f}"/>'


def _svg_box(drawing: _Drawing, i: int) -> str:
    x, y = drawing.centres[i] * _PAGE_PIXELS
    width, height = 2 * drawing.halves[i] * _PAGE_PIXELS
    fill = _colour(drawing.groups[i])
    box = f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="7"'
    text = f'<text x="{x:.1f}" y="{y:.1f}" fill="{_text_colour(fill)}">{html.escape(drawing.text(i))}</text>'
    label = html.escape(f"{drawing.names[i]}, group {drawing.groups[i]}")
    opening = f'<g class="node" tabindex="0" role="button" aria-label="{label}" data-x="{x:.1f}" data-y="{y:.1f}">'
    return f'{opening}<title>{label}</title>{box} fill="{fill}"/>{text}</g>'


def _facts(drawing: _Drawing) -> list[dict[str, object]]:
    """What the panel says about each class."""
    facts = []
    for i, name in enumerate(drawing.names):
        nearest = [int(j) for j in np.argsort(drawing.distances[i], kind="stable") if j != i]
        alike = [j for j in nearest if drawing.similar[i, j]]
        near = [(j, _rounded(drawing.distances[i, j]), bool(drawing.similar[i, j])) for j in nearest[:_PANEL_RIVALS]]
        facts.append(
            {
                "name": name,
                "group": drawing.groups[i],
                "count": drawing.counts[i],
                "alikeCount": len(alike),
                "alike": alike[:_PAGE_ALIKE],
                "near": near,
            }
        )
    return facts


def _table_caption(drawing: _Drawing) -> str:
    shown = min(len(drawing.pairs), _PAGE_PAIRS)
    what = f"the {shown} closest of {len(drawing.pairs)}" if shown < len(drawing.pairs) else f"all {shown}"
    return f"Pairs of look-alikes, closest first ({what})" if drawing.pairs else "There are no look-alikes."


def _row(drawing: _Drawing, pair: Pair) -> str:
    cells = [cell for i in pair for cell in (drawing.names[i], str(drawing.groups[i]))]
    cells.append(_rounded(drawing.distances[pair]))
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


def _rounded(distance: float) -> str:
    return f"{float(distance):.3g}"


# Text from the data is only ever set as textContent, never as markup.


# Files.


def _replace(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        replace_file(Path(path), content)
    except (OSError, ValueError) as error:  # ValueError: no file name, or a null character in it
        reason = getattr(error, "strerror", None) or error
        message = f"{os.fspath(path)!r}: the graph cannot be written there ({reason}). Expected a file name in an "
        message += "existing folder you may write to, with room on the disk; create the folder or choose another."
        raise DataError(message) from error
