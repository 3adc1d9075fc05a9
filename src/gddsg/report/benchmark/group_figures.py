"""Figures of the number of class groups: as tasks arrive, and against the length of tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gddsg.report.benchmark.curves import Line, after_tasks, draw_line, figure_of, line_picture
from gddsg.report.benchmark.document import Figure, Picture
from gddsg.report.benchmark.drawing import add_legend, numbered_style, panel, render
from gddsg.report.benchmark.published import dataset_name
from gddsg.report.benchmark.records import Stream
from gddsg.report.benchmark.summary import Contest, Entry


def group_growth(name: str, contests: Sequence[Contest]) -> list[Figure]:
    """Number of groups against tasks seen, and in the end against the length of tasks."""
    figures = [
        figure_of(
            "Groups as tasks arrive",
            "Number of class groups after each task, averaged over class orders, one line for every task length. Where "
            "a line levels off, new classes find room in groups that exist. The paper draws this as the left half of "
            "its figure on group counts.",
            _growth_pictures(name, contests),
        ),
        figure_of(
            "Groups against task length",
            "Number of class groups after the last task, for streams cut into tasks of different length. A flat line "
            "means that the groups depend on the classes and not on how they were cut into tasks; the bars reach from "
            "the fewest to the most over class orders. The paper draws this as the right half of its figure.",
            _length_pictures(name, contests),
        ),
    ]
    return [figure for figure in figures if figure is not None]


def _growth_pictures(name: str, contests: Sequence[Contest]) -> list[Picture | None]:
    return [
        _growth(f"{name}-growth-{k}", dataset, backbone, chosen)
        for k, ((dataset, backbone), chosen) in enumerate(_by_data(contests).items(), 1)
    ]


def _by_data(contests: Sequence[Contest]) -> dict[tuple[str, str], list[tuple[Contest, Entry]]]:
    """Entries with groups, by data set and backbone."""
    found: dict[tuple[str, str], list[tuple[Contest, Entry]]] = {}
    for contest in contests:
        for entry in contest.entries:
            if entry.final_groups is not None:
                found.setdefault((contest.setting.dataset, contest.setting.backbone), []).append((contest, entry))
    return found


def _growth(name: str, dataset: str, backbone: str, chosen: list[tuple[Contest, Entry]]) -> Picture | None:
    lines = [Line(_growth_name(c, e, chosen), numbered_style(k), e) for k, (c, e) in enumerate(chosen)]
    return line_picture(name, f"{dataset_name(dataset)}, {backbone}", lines, "Class groups", _group_runs)


def _growth_name(contest: Contest, entry: Entry, chosen: list[tuple[Contest, Entry]]) -> str:
    several = len({other.name for _, other in chosen}) > 1
    return f"{entry.name}, {contest.setting.tasks}" if several else contest.setting.tasks


def _group_runs(stream: Stream) -> tuple[list[int], list[float]]:
    return after_tasks(stream, [float(count) for count in stream.groups])


def _length_pictures(name: str, contests: Sequence[Contest]) -> list[Picture | None]:
    """One drawing a backbone with a line for each data set and learner that was run with tasks of two lengths."""
    lines: dict[str, dict[tuple[str, str], list[tuple[int, Entry]]]] = {}
    for (dataset, backbone), chosen in _by_data(contests).items():
        for contest, entry in chosen:
            by_name = lines.setdefault(backbone, {}).setdefault((dataset, entry.name), [])
            by_name.append((max(contest.setting.sizes), entry))
    return [_lengths(f"{name}-length-{k}", backbone, found) for k, (backbone, found) in enumerate(lines.items(), 1)]


def _lengths(name: str, backbone: str, lines: dict[tuple[str, str], list[tuple[int, Entry]]]) -> Picture | None:
    kept = {key: sorted(points, key=lambda point: point[0]) for key, points in lines.items() if len(points) > 1}
    if not kept:
        return None
    labels = {key: f"{dataset_name(key[0])}, {key[1]}" for key in kept}
    figure, axes = panel(backbone, legend=list(labels.values()))
    for k, (key, points) in enumerate(kept.items()):
        counts = [[float(stream.groups[-1]) for stream in entry.drawn if stream.groups] for _, entry in points]
        x, means = [length for length, _ in points], [float(np.mean(values)) for values in counts]
        style = numbered_style(k)
        draw_line(axes, style, labels[key], x, means)
        axes.vlines(x, [min(v) for v in counts], [max(v) for v in counts], color=style.colour, linewidth=3, alpha=0.4)
    axes.set(xlabel="Classes in a task", ylabel="Class groups in the end")
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    add_legend(figure, axes)
    return render(figure, name, f"Class groups after the last task against task length, {backbone}.")
