"""The coloured similarity graph of a model as a page to explore (HTML).

Text from the data is escaped where it becomes markup, and the script only ever sets it as textContent.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Mapping
from importlib import resources
from string import Template

import numpy as np

from gddsg.core.grouping import ClassGroups
from gddsg.core.label import Label
from gddsg.core.similarity_graph import SimilarityGraph
from gddsg.report.graph_drawing import Drawing, colour, drawing_of, text_colour
from gddsg.report.graph_file import write_graph
from gddsg.report.graph_layout import Pair

__all__ = ["save_graph_html"]

_PIXELS = 13.0  # an em
_PANEL_RIVALS = 8
_PAIRS = 500
_ALIKE = 200


def save_graph_html(
    path: str | os.PathLike[str],
    graph: SimilarityGraph,
    groups: ClassGroups,
    counts: Mapping[Label, int] | None = None,
) -> None:
    """Write one page to explore the graph with; it loads nothing, so it can be mailed and opened anywhere.

    Pointing at a class shows its look-alikes, its group and its closest rivals; the search box finds classes; a table
    lists the closest pairs. Parameters and errors are those of :func:`~gddsg.report.graph_picture.save_graph_png`,
    but matplotlib is not needed.
    """
    write_graph(path, _page(drawing_of(graph, groups, counts)).encode())


def _page(drawing: Drawing) -> str:
    parts = resources.files("gddsg.report") / "graph_page_files"
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
        rows="\n".join(_row(drawing, pair) for pair in drawing.pairs[:_PAIRS]),
    )


def _digest(text: str) -> str:
    """Names the one script and the one style that browsers are allowed to use on the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _svg(drawing: Drawing) -> str:
    width, height = (round(side * _PIXELS) for side in drawing.extent)
    lines = [_svg_line(drawing, *drawn) for drawn in zip(drawing.drawn, drawing.closeness(), strict=True)]
    boxes = [_svg_box(drawing, i) for i in range(len(drawing.names))]
    opening = f'<svg id="graph" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="group"'
    opening += f' aria-label="{html.escape(drawing.title)}">'
    return "\n".join([opening, *lines[::-1], '<g id="rays"></g>', *boxes, "</svg>"])


def _svg_line(drawing: Drawing, pair: Pair, closeness: float) -> str:
    (x1, y1), (x2, y2) = drawing.centres[list(pair)] * _PIXELS
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line class="edge" {ends} stroke-width="{1 + 3 * closeness:.2f}" opacity="{0.2 + 0.7 * closeness:.2f}"/>'


def _svg_box(drawing: Drawing, i: int) -> str:
    x, y = drawing.centres[i] * _PIXELS
    width, height = 2 * drawing.halves[i] * _PIXELS
    fill = colour(drawing.groups[i])
    box = f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="7"'
    text = f'<text x="{x:.1f}" y="{y:.1f}" fill="{text_colour(fill)}">{html.escape(drawing.text(i))}</text>'
    label = html.escape(f"{drawing.names[i]}, group {drawing.groups[i]}")
    opening = f'<g class="node" tabindex="0" role="button" aria-label="{label}" data-x="{x:.1f}" data-y="{y:.1f}">'
    return f'{opening}<title>{label}</title>{box} fill="{fill}"/>{text}</g>'


def _facts(drawing: Drawing) -> list[dict[str, object]]:
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
                "alike": alike[:_ALIKE],
                "near": near,
            }
        )
    return facts


def _table_caption(drawing: Drawing) -> str:
    shown = min(len(drawing.pairs), _PAIRS)
    what = f"the {shown} closest of {len(drawing.pairs)}" if shown < len(drawing.pairs) else f"all {shown}"
    return f"Pairs of look-alikes, closest first ({what})" if drawing.pairs else "There are no look-alikes."


def _row(drawing: Drawing, pair: Pair) -> str:
    cells = [cell for i in pair for cell in (drawing.names[i], str(drawing.groups[i]))]
    cells.append(_rounded(drawing.distances[pair]))
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


def _rounded(distance: float) -> str:
    return f"{float(distance):.3g}"
