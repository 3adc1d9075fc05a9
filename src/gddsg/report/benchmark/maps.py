"""Figures in the plane: similarity graphs of classes and embeddings of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap

from gddsg.report.benchmark.document import Figure, Picture
from gddsg.report.benchmark.drawing import COLOURS, MARKERS, SOFT, WIDTH, new_figure, numbered_style, render
from gddsg.report.benchmark.published import dataset_name
from gddsg.report.benchmark.records import ClassGraph, Embedding, Floats
from gddsg.wording import counted

_SPARSE = 4  # as many lines a class can still be followed by eye
_VECTOR_POINTS = 400
_MOST_CLASSES = 3000  # more are finer than the dots of a screen, and the square of their number fills the memory


def graph_figure(name: str, graphs: Sequence[ClassGraph]) -> Figure | None:
    """The similarity graphs."""
    drawn = [graph for graph in graphs if 0 < len(graph.classes) <= _MOST_CLASSES]
    several = len({graph.learner for graph in drawn}) > 1
    pictures = tuple(_graph(f"{name}-graph-{k}", graph, several) for k, graph in enumerate(drawn, 1))
    caption = (
        "Which classes are look-alikes. With few look-alikes every class is a mark, groups follow each other round the "
        "circle under their numbers, and lines join look-alikes. With many, every class is a row and a column, sorted "
        "by group, and a dark square is a pair of look-alikes; thin lines part the groups. Groups keep look-alikes "
        "apart: no line joins marks of one group, and the squares along the diagonal, one for every group, are empty."
    )
    return Figure("Similarity graph", caption, pictures) if pictures else None


def embedding_figure(name: str, embeddings: Sequence[Embedding]) -> Figure | None:
    """Samples in the plane by group."""
    drawn = [embedding for embedding in embeddings if len(embedding.points)]
    pictures = tuple(_embedding(f"{name}-embedding-{k}", embedding) for k, embedding in enumerate(drawn, 1))
    caption = (
        "Distances of test samples to all class prototypes, laid out in the plane by t-SNE or UMAP; colour and marker "
        "are those of the sample's group. Clumps of one group mean that the group of a sample can be told from these "
        "distances; axes have no unit, and distances between far clumps mean nothing."
    )
    return Figure("Embedding of the distance features", caption, pictures) if pictures else None


def _graph(name: str, graph: ClassGraph, several: bool) -> Picture:
    title = f"{_title(graph)}, {graph.learner}" if several else _title(graph)
    figure = new_figure(WIDTH * 0.92, title)
    axes = figure.add_axes((0.03, 0.02, 0.94, 0.9))
    axes.grid(visible=False)
    if len(graph.edges) <= _SPARSE * len(graph.classes):
        _node_link(axes, graph)
    else:
        _matrix(axes, graph)
    return render(figure, name, f"{title}, {counted(len(graph.edges), 'pair')} of look-alikes.")


def _title(graph: ClassGraph) -> str:
    groups = counted(len(set(graph.groups)), "group")
    return f"{dataset_name(graph.dataset)}: {counted(len(graph.classes), 'class')} in {groups}"


def _node_link(axes: Axes, graph: ClassGraph) -> None:
    """Dots and lines; round a circle, group after group, unless places are given."""
    places = _circle(graph) if graph.positions is None else graph.positions
    lines = [places[list(edge)] for edge in graph.edges]
    axes.add_collection(LineCollection(lines, colors=SOFT, linewidths=0.6, alpha=0.6, zorder=1))
    size = float(np.clip(2500 / len(graph.classes), 6, 120))
    for group in sorted(set(graph.groups)):
        members = [i for i in _by_group(graph) if graph.groups[i] == group]
        style, own = numbered_style(group), places[members]
        axes.scatter(own[:, 0], own[:, 1], s=size, color=style.colour, marker=style.marker, linewidths=0, zorder=2)
        x, y = 1.09 * own[len(own) // 2] if graph.positions is None else own.mean(0)
        axes.text(x, y, str(group), ha="center", va="center", size=8, zorder=3)
    axes.set_aspect("equal")
    axes.margins(0.08)
    axes.set_axis_off()


def _circle(graph: ClassGraph) -> Floats:
    """Places round a circle, ``(n_classes, 2)``, classes of a group beside each other and a gap after each group."""
    order = _by_group(graph)
    steps = [1 + (graph.groups[i] != graph.groups[order[k - 1]]) for k, i in enumerate(order)]
    angles = 2 * np.pi * np.cumsum(steps) / (sum(steps) + 0.5)
    places = np.empty((len(order), 2))
    places[order] = np.stack([np.sin(angles), np.cos(angles)], axis=1)
    return places


def _by_group(graph: ClassGraph) -> list[int]:
    return sorted(range(len(graph.classes)), key=lambda i: (graph.groups[i], graph.classes[i]))


def _matrix(axes: Axes, graph: ClassGraph) -> None:
    order = _by_group(graph)
    place = {i: k for k, i in enumerate(order)}
    table = np.zeros((len(order), len(order)))
    for i, j in graph.edges:
        table[place[i], place[j]] = table[place[j], place[i]] = 1
    shades = ListedColormap([(1, 1, 1, 0), COLOURS[0]])
    axes.imshow(table, cmap=shades, vmin=0, vmax=1, interpolation="nearest", aspect="equal")
    sorted_groups = [graph.groups[i] for i in order]
    ends = [k - 0.5 for k in range(1, len(order)) if sorted_groups[k] != sorted_groups[k - 1]]
    limits = (-0.5, len(order) - 0.5)
    axes.hlines(ends, *limits, color=SOFT, linewidth=0.5)
    axes.vlines(ends, *limits, color=SOFT, linewidth=0.5)
    axes.set_xticks([])
    axes.set_yticks([])


def _embedding(name: str, embedding: Embedding) -> Picture:
    title = f"{dataset_name(embedding.dataset)}, {embedding.method}"
    figure = new_figure(WIDTH * 0.86, title)
    axes = figure.add_axes((0.03, 0.03, 0.94, 0.88))
    groups = np.array(embedding.groups)
    for k, group in enumerate(sorted(set(embedding.groups))):
        points = embedding.points[groups == group]
        shift = k + k // len(COLOURS)
        axes.scatter(
            points[:, 0], points[:, 1], s=16, color=COLOURS[k % len(COLOURS)], marker=MARKERS[shift % len(MARKERS)],
            linewidths=0, alpha=0.75, rasterized=len(groups) > _VECTOR_POINTS,
        )  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    samples, count = counted(len(groups), "sample"), counted(len(set(embedding.groups)), "group")
    return render(figure, name, f"{title}: {samples} of {count} in the plane.")
