"""The coloured similarity graph of a model as a picture (PNG)."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gddsg.core.grouping import ClassGroups
from gddsg.core.label import Label
from gddsg.core.similarity_graph import SimilarityGraph
from gddsg.errors import MissingExtraError
from gddsg.report.graph_drawing import LETTER, Drawing, colour, drawing_of, text_colour
from gddsg.report.graph_file import write_graph
from gddsg.report.graph_layout import MARGIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["graph_figure", "save_graph_png"]

_POINTS = 8.0
_DPI = 160.0
_LARGEST = 12_000


def graph_figure(graph: SimilarityGraph, groups: ClassGroups, counts: Mapping[Label, int] | None = None) -> Figure:
    """The graph as a matplotlib figure, which grows with the number of classes.

    Parameters
    ----------
    graph : SimilarityGraph
        The similarity graph of a model.
    groups : ClassGroups
        Its class groups; every class of the graph is in exactly one.
    counts : mapping of Label to int or None
        Samples of each class, shown in parentheses where they are known.

    Raises
    ------
    InputError
        If there is no class, or groups and graph do not have the same classes.
    MissingExtraError
        If matplotlib is not installed.
    """
    drawing = drawing_of(graph, groups, counts)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        message = "Drawing the graph as PNG needs matplotlib, which is not installed; pip install matplotlib, "
        message += "or write it as HTML, which needs nothing more."
        raise MissingExtraError(message) from error
    width, height = drawing.extent
    caption = textwrap.fill(f"{drawing.legend} {drawing.caption}", int(width / LETTER), break_on_hyphens=False)
    below = 1.4 * (caption.count("\n") + 1) + MARGIN
    inches = _POINTS / 72
    figure = Figure(figsize=(width * inches, (height + 3 + below) * inches))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height + below, -3))
    axes.set_axis_off()
    _draw_lines(axes, drawing)
    _draw_boxes(axes, drawing)
    axes.text(width / 2, -1, drawing.title, size=1.5 * _POINTS, ha="center", va="center")
    axes.text(width / 2, height, caption, size=_POINTS, ha="center", va="top", color="0.25")
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
    dpi = min(_DPI, _LARGEST / max(figure.get_size_inches()))
    figure.savefig(content, format="png", dpi=dpi)
    write_graph(path, content.getvalue())


def _draw_lines(axes: Axes, drawing: Drawing) -> None:
    from matplotlib.collections import LineCollection

    closeness = np.array(drawing.closeness())
    order = closeness.argsort(kind="stable")  # the dark ones on top
    ends = [drawing.centres[list(drawing.drawn[k])] for k in order]
    greys = [str(0.78 - 0.63 * closeness[k]) for k in order]
    axes.add_collection(LineCollection(ends, linewidths=list(0.6 + 2.0 * closeness[order]), colors=greys, zorder=1))


def _draw_boxes(axes: Axes, drawing: Drawing) -> None:
    from matplotlib.patches import FancyBboxPatch

    fonts = _fonts()
    for i, ((x, y), half) in enumerate(zip(drawing.centres, drawing.halves, strict=True)):
        fill = colour(drawing.groups[i])
        width, height = 2 * half
        corner = (x - width / 2 + 0.5, y - height / 2 + 0.5)
        box = FancyBboxPatch(corner, width - 1, height - 1, boxstyle="round,pad=0.5", fc=fill, ec="0.2", lw=0.6)
        box.set_zorder(2)
        axes.add_patch(box)
        text = axes.text(x, y, drawing.text(i), size=_POINTS, ha="center", va="center", zorder=3)
        text.set(color=text_colour(fill), family=fonts, parse_math=False)  # a label may hold dollar signs


def _fonts() -> list[str]:
    """The usual font, and for letters it lacks whichever of the common ones is installed."""
    from matplotlib import font_manager

    others = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Microsoft YaHei", "PingFang SC", "Arial Unicode MS")
    installed = set(font_manager.get_font_names())
    return ["DejaVu Sans", *(name for name in others if name in installed)]
