"""Figures with a line for every learner: accuracy, memory and time as classes arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from gddsg.report.benchmark.document import Figure, Picture
from gddsg.report.benchmark.drawing import Style, add_legend, numbered_style, panel, render
from gddsg.report.benchmark.published import dataset_name
from gddsg.report.benchmark.records import Floats, Stream
from gddsg.report.benchmark.summary import Contest, Entry, mean_of_known

Styles = Mapping[str, Style]
Runs = Callable[[Stream], tuple[list[int], list[float]]]
Series = tuple[list[int], Floats, Floats, Floats]

_ACCURACY = "Mean accuracy of classes seen, %"


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a drawing."""

    label: str
    style: Style
    entry: Entry


def accuracy_curves(name: str, contests: Sequence[Contest], styles: Styles) -> Figure | None:
    """Accuracy against classes seen, one drawing a setting."""
    pictures = _contest_pictures(f"{name}-curves", contests, styles, _ACCURACY, _accuracy_runs)
    caption = (
        "Each line is the mean accuracy over all classes seen so far, after each task, averaged over random class "
        "orders; the band around it reaches from the lowest to the highest order. A line that stays high forgets "
        "little, a narrow band means that the order of classes hardly matters. Of every peer there is the best row "
        "that was tested after each task. A protocol in parentheses marks runs that are told something at test time."
    )
    return figure_of("Accuracy as classes arrive", caption, pictures)


def backbone_curves(name: str, contests: Sequence[Contest]) -> Figure | None:
    """Accuracy against classes seen, one drawing a data set with a line for every backbone."""
    lines: dict[str, list[Line]] = {}
    for contest in contests:
        for entry in contest.entries:
            known = lines.setdefault(contest.setting.dataset, [])
            known.append(Line(f"{entry.name}, {contest.setting.backbone}", numbered_style(len(known)), entry))
    pictures = [
        line_picture(f"{name}-curves-{k}", dataset_name(dataset), found, _ACCURACY, _accuracy_runs)
        for k, (dataset, found) in enumerate(lines.items(), 1)
    ]
    caption = (
        "Each line is the mean accuracy over all classes seen so far on features of one backbone, averaged over random "
        "class orders; the band reaches from the lowest to the highest order. Differences between lines are those of "
        "the frozen networks, since all else is the same."
    )
    return figure_of("Accuracy as classes arrive", caption, pictures)


def cost_curves(name: str, contests: Sequence[Contest], styles: Styles) -> list[Figure]:
    """Memory, and time to learn a task, against classes seen."""
    memory = _contest_pictures(f"{name}-memory", contests, styles, "State carried on, MB", _state_runs)
    time = _contest_pictures(f"{name}-time", contests, styles, "Seconds for the task", _second_runs)
    figures = [
        figure_of(
            "Memory against classes",
            "Size of all that a learner carries from one task to the next, after each task. A flat line needs the same "
            "memory however many classes come; bands reach from the smallest to the largest over class orders.",
            memory,
        ),
        figure_of(
            "Time against classes",
            "Seconds for each task, learning it and testing after it. A rising line means that later tasks take longer "
            "because of the classes learnt before or because there are more to test; bands reach from the fastest to "
            "the slowest over class orders, and runs that shared the machine with other work took longer than need be.",
            time,
        ),
    ]
    return [figure for figure in figures if figure is not None]


def _contest_pictures(
    name: str, contests: Sequence[Contest], styles: Styles, label: str, runs: Runs
) -> list[Picture | None]:
    """One drawing a setting with a line for every entry that is worth one."""
    return [
        line_picture(
            f"{name}-{k}",
            contest.setting.full,
            [Line(entry.name, styles[entry.name], entry) for entry in _worth_a_line(contest.entries, runs)],
            label,
            runs,
        )
        for k, contest in enumerate(contests, 1)
    ]


def _worth_a_line(entries: Sequence[Entry], runs: Runs) -> Iterator[Entry]:
    """Those with more than one point; of every peer the best such row, or the legend would outgrow the drawing."""
    shown: set[str] = set()
    for entry in entries:  # from the best to the worst
        series = _series(entry, runs)
        if series is None or len(series[0]) < 2 or (entry.is_peer and entry.method in shown):
            continue
        shown.add(entry.method)
        yield entry


def _accuracy_runs(stream: Stream) -> tuple[list[int], list[float]]:
    rows = stream.class_accuracies
    return [len(row) for row in rows], [mean_of_known(row) for row in rows]


def _state_runs(stream: Stream) -> tuple[list[int], list[float]]:
    return after_tasks(stream, stream.state_per_task)


def _second_runs(stream: Stream) -> tuple[list[int], list[float]]:
    return after_tasks(stream, stream.seconds_per_task)


def _series(entry: Entry, runs: Runs) -> Series | None:
    """Classes seen, then mean, lowest and highest over random orders."""
    found = [(x, y) for x, y in map(runs, entry.drawn) if x]
    if not found:
        return None
    longest = max((x for x, _ in found), key=len)
    table = np.array([y for x, y in found if x == longest])
    return longest, table.mean(0), table.min(0), table.max(0)


def line_picture(name: str, title: str, lines: Sequence[Line], label: str, runs: Runs) -> Picture | None:
    """Means over random orders against classes seen, each in a band from the lowest to the highest order."""
    series = [(line, found) for line in lines if (found := _series(line.entry, runs)) is not None]
    if all(len(x) < 2 for _, (x, *_) in series):  # tested after the last task alone: there is no line to draw
        return None
    figure, axes = panel(title, legend=[line.label for line, _ in series])
    for line, (x, mean, low, high) in series:
        draw_line(axes, line.style, line.label, x, mean)
        axes.fill_between(x, low, high, color=line.style.colour, alpha=0.15, linewidth=0)
    axes.set(xlabel="Classes seen", ylabel=label)
    add_legend(figure, axes)
    ends = "; ".join(f"{line.label} {mean[-1]:.1f}" for line, (_, mean, _, _) in series)
    return render(figure, name, f"{label} against classes seen, {title}. In the end: {ends}.")


def draw_line(axes: Axes, style: Style, label: str, x: Sequence[float], y: Sequence[float] | Floats) -> None:
    """One line, with a marker at every tenth of its way at most."""
    every = max(1, len(x) // 10)
    axes.plot(
        x, y, color=style.colour, linestyle=style.dashes, marker=style.marker, markersize=4, markevery=every,
        linewidth=style.width, label=label,
    )  # fmt: skip


def figure_of(title: str, caption: str, pictures: Sequence[Picture | None]) -> Figure | None:
    """The drawings there are under one caption; None where there is none."""
    drawn = tuple(picture for picture in pictures if picture is not None)
    return Figure(title, caption, drawn) if drawn else None


def after_tasks(stream: Stream, values: Sequence[float]) -> tuple[list[int], list[float]]:
    """Values of the last tasks against the classes seen by then."""
    seen = np.cumsum(stream.sizes).tolist()[-len(values) :] if values else []
    return seen, list(values)[-len(seen) :] if seen else []
