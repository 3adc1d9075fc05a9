"""How figures look: sizes, colours, dashes and hatches; and a drawing as SVG that fits into a page, and as PNG.

The ink of a drawing is set in a few odd shades, which become variables of the page's style in the SVG: so axes and
letters turn light where the page turns dark. Whatever colour tells apart, dashes, markers or hatches tell apart too.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gddsg.report.benchmark.document import Picture

INK, SOFT, LINE, PAPER = "#1a1b1c", "#5a5b5c", "#d4d5d6", "#fefefd"
_VARIABLES = {INK: "var(--ink)", SOFT: "var(--soft)", LINE: "var(--line)", PAPER: "var(--paper)"}

# The first ten differ most, for figures of a few lines. Each of the others is as far as possible from all before it, in
# a space of equal perceived differences, and neither too light for a white page nor too dark for a black one.
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#8a66b5", "#a88400", "#d9417a", "#808080", "#2398d0", "#a3611f", "#c4609a",
    "#54d800", "#0000fc", "#006000", "#fc00fc", "#841860", "#c0a8f0", "#8400fc", "#a8c090", "#fc9084", "#5430a8",
    "#b400b4", "#0cccf0", "#b40018", "#c06cfc", "#4860fc", "#783c00", "#fc78cc", "#24546c", "#e49c00", "#607800",
    "#18786c", "#78a800", "#84546c", "#8490fc", "#00cc90", "#c018fc", "#fc0024", "#fc24b4", "#b4c000", "#c090a8",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h", "8", "d")
HATCHES = ("", "////", "....", "xxxx", "----", "\\\\\\\\")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (7, 2, 1.5, 2)))

WIDTH = 4.8
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.62, 0.14, 0.36, 0.5
_LEGEND_LINE = 0.2
_LEGEND: Any = {"loc": "lower center", "handlelength": 2.7, "columnspacing": 0.9}
_LEGEND_SHARE = 0.5  # of the height of its plot: a legend is never taller than that
_LEGEND_ROWS = 6  # more names go into another column
_NAME_LENGTHS = {1: 44, 2: 26, 3: 14}  # of names in a legend, by its columns
_DPI = 110
_PNG = {"compress_level": 3}
_LONGEST_NAME = 44
_WIDTH, STRONG_WIDTH = 1.4, 2.2  # of lines

_SETTINGS: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": SOFT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8.5,
    "axes.titley": 1.0,
    "figure.dpi": 72,
    "figure.facecolor": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.7,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "path.simplify": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "gddsg",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.color": SOFT,
    "ytick.labelcolor": INK,
}


@dataclass(frozen=True)
class Style:
    """How a learner looks in every figure of the report."""

    colour: str
    marker: str
    dashes: Any
    width: float


@contextmanager
def report_style() -> Iterator[None]:
    """Settings of matplotlib for all figures, whatever the user's are; put back in the end."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def numbered_style(k: int) -> Style:
    """The look of the k-th of several lines; when colours repeat they come with other markers and dashes."""
    shift = k + k // len(COLOURS)
    return Style(COLOURS[k % len(COLOURS)], MARKERS[shift % len(MARKERS)], _DASHES[shift % len(_DASHES)], _WIDTH)


def short(name: str, length: int = _LONGEST_NAME) -> str:
    """A name that fits into a figure."""
    return name if len(name) <= length else name[: length - 1] + "…"


def wrapped(name: str, width: int) -> str:
    """A name in up to two lines of so many letters."""
    return "\n".join(textwrap.wrap(name, width, max_lines=2, placeholder="…", break_on_hyphens=False))


def panel(title: str, height: float = 3.0, left: float = _LEFT, legend: Sequence[str] = ()) -> tuple[Figure, Axes]:
    """A figure with a title and one pair of axes, and room below for a legend of the given names."""
    below = _LEGEND_LINE * math.ceil(len(legend) / legend_columns(legend))
    height = max(height, _TOP + _BOTTOM + below / _LEGEND_SHARE)
    figure, total = new_figure(height + below, title), height + below
    low, high = (_BOTTOM + below) / total, 1 - _TOP / total
    axes = figure.add_axes((left / WIDTH, low, 1 - (left + _RIGHT) / WIDTH, high - low))
    axes.locator_params(nbins=6)
    return figure, axes


def new_figure(height: float, title: str) -> Figure:
    """An empty figure of the usual width with a title."""
    figure = Figure(figsize=(WIDTH, height))
    FigureCanvasAgg(figure)
    figure.text(0.5, 1 - 0.12 / height, short(title, 60), size=10, ha="center", va="top")
    return figure


def legend_columns(names: Sequence[str]) -> int:
    """As many columns as full names fit into, and more where there would be too many rows."""
    longest = max((len(short(name)) for name in names), default=1)
    fitting = max(columns for columns, length in _NAME_LENGTHS.items() if longest <= length)
    return max(1, min(len(names), max(fitting, min(max(_NAME_LENGTHS), math.ceil(len(names) / _LEGEND_ROWS)))))


def legend_names(names: Sequence[str]) -> list[str]:
    """Names that fit into the columns of a legend; those that begin alike are shortened in the middle."""
    length = _NAME_LENGTHS[legend_columns(names)]
    cut = [short(name, length) for name in names]
    return [middle(name, length) if cut.count(one) > 1 else one for name, one in zip(names, cut, strict=True)]


def middle(name: str, length: int) -> str:
    """Beginning and end of a name that does not fit.

    Examples
    --------
    >>> middle("klda, five together, on roots", 14)
    'klda, f… roots'
    """
    kept = length - 1
    return name if len(name) <= length else f"{name[: kept - kept // 2]}…{name[-(kept // 2) :]}"


def add_legend(figure: Figure, axes: Axes) -> None:
    """The legend of the axes, below them."""
    handles, names = axes.get_legend_handles_labels()
    if names:
        columns = legend_columns(names)
        figure.legend(handles, legend_names(names), ncols=columns, **_LEGEND)


def render(figure: Figure, name: str, alt: str) -> Picture:
    """The drawing in both forms; the same drawing gives the same bytes."""
    svg, png = io.StringIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    figure.savefig(png, format="png", dpi=_DPI, facecolor="white", metadata={"Software": None}, pil_kwargs=_PNG)
    return Picture(name, alt, _inline(svg.getvalue(), name), png.getvalue())


def _inline(svg: str, name: str) -> str:
    """SVG fit to stand in a page beside others: no ids shared, no style for the whole page, inks of the page."""
    start = svg.index("<svg")
    text = svg[start:].strip()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'\bhref="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    for shade, variable in _VARIABLES.items():
        text = text.replace(shade, variable)
    opening, _, rest = text.partition(">")
    box = re.search(r'viewBox="[^"]+"', opening)
    return f"<svg {box.group() if box else ''}>{rest}"
