"""Figures with a mark for every class order: fans of accuracy, and final accuracies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from gddsg.report.benchmark.curves import Styles, draw_line, figure_of
from gddsg.report.benchmark.document import Figure, Picture
from gddsg.report.benchmark.drawing import add_legend, new_figure, panel, render, short, wrapped
from gddsg.report.benchmark.records import Stream
from gddsg.report.benchmark.summary import Contest, Entry

_FANS = 4


def order_fans(name: str, contests: Sequence[Contest], styles: Styles) -> Figure | None:
    """One thin line a class order, for the reference and the best of the others."""
    pictures = [_fan(f"{name}-fan-{k}", contest, styles) for k, contest in enumerate(contests, 1)]
    caption = (
        "One thin line for every class order: mean accuracy of the classes seen so far. Solid lines are random orders, "
        "dashed ones orders built for the purpose. Lines must differ on the way, since other classes have been seen; "
        f"where they meet on the right the order did not matter in the end. Shown are at most {_FANS} learners, the "
        "best by A_N."
    )
    return figure_of("Order fans", caption, pictures)


def order_strips(name: str, contests: Sequence[Contest], styles: Styles) -> Figure | None:
    """Final accuracy of every order as a dot."""
    pictures = [_strip(f"{name}-strip-{k}", contest, styles) for k, contest in enumerate(contests, 1)]
    caption = (
        "Every circle is A_N after one random class order, a triangle pointing down or up an order built to be hard or "
        "easy; the bar joins the lowest and the highest. The shorter the bar, the less the order of classes matters; "
        "the bar's left end is the worst that was met. A diamond is a learner that was run in one order, since a law "
        "makes its result the same in all."
    )
    return figure_of("Final accuracy, order by order", caption, pictures)


def order_ranges(name: str, contests: Sequence[Contest], styles: Styles) -> Figure | None:
    """The range over orders of the accuracy after t tasks, task by task."""
    pictures = [_ranges(f"{name}-range-{k}", contest, styles) for k, contest in enumerate(contests, 1)]
    caption = (
        "Highest less lowest mean accuracy of the classes seen so far, over random orders, after each task: the "
        "distance between the outermost lines of an order fan. On the way it is above zero for everybody, since other "
        "classes have been seen; a learner that ignores order comes down to zero on the right."
    )
    return figure_of("Range over orders, task by task", caption, pictures)


def _ranges(name: str, contest: Contest, styles: Styles) -> Picture | None:
    entries = [entry for entry in contest.competitors if len(entry.disparities.get("after", ())) > 1]
    if not entries:
        return None
    figure, axes = panel(contest.setting.full, legend=[entry.name for entry in entries])
    for entry in entries:
        seen = np.cumsum(entry.drawn[0].sizes).tolist()
        draw_line(axes, styles[entry.name], entry.name, seen, entry.disparities["after"])
    axes.set(xlabel="Classes seen", ylabel="Range of mean accuracy, points", ylim=(0, None))
    add_legend(figure, axes)
    ends = "; ".join(f"{e.name} {e.disparities['after'].max():.1f}, {e.disparities['after'][-1]:.1f}" for e in entries)
    words = f"Range over orders of the accuracy after each task, {contest.setting.full}. Largest and last: {ends}."
    return render(figure, name, words)


def _fan(name: str, contest: Contest, styles: Styles) -> Picture | None:
    entries = [entry for entry in contest.competitors if len(entry.curves()) > 1]
    entries = sorted(entries, key=lambda entry: entry is not contest.reference)[:_FANS]
    if not entries:
        return None
    figure, grid = _grid(contest.setting.full, len(entries))
    for axes, entry in zip(grid, entries, strict=True):
        _fan_lines(axes, entry, styles[entry.name].colour)
    names = ", ".join(entry.name for entry in entries)
    return render(figure, name, f"Accuracy against classes seen, a line an order, {contest.setting.full}: {names}.")


def _grid(title: str, count: int) -> tuple[Drawing, list[Axes]]:
    """Axes two by two, which share their limits."""
    rows = (count + 1) // 2
    height = 0.75 + 1.65 * rows
    figure = new_figure(height, title)
    places = [(0.11 + 0.45 * (k % 2), (0.42 + 1.65 * (rows - 1 - k // 2)) / height) for k in range(count)]
    grid: list[Axes] = []
    for x, y in places:
        first = grid[0] if grid else None
        grid.append(figure.add_axes((x, y, 0.41, 1.3 / height), sharex=first, sharey=first))
        grid[-1].tick_params(labelleft=x < 0.5, labelbottom=len(grid) + 1 >= count)
        grid[-1].locator_params(nbins=5)
    figure.text(0.54, 0.03 / height, "Classes seen", ha="center", va="bottom")
    figure.text(0.005, 0.5, "Mean accuracy, %", rotation=90, ha="left", va="center")
    return figure, grid


def _fan_lines(axes: Axes, entry: Entry, colour: str) -> None:
    axes.set_title(short(entry.name, 26))
    for x, y, stream in entry.curves():
        axes.plot(x, y, color=colour, linewidth=0.8, linestyle="-" if stream.random_order else "--", alpha=0.85)


def _strip(name: str, contest: Contest, styles: Styles) -> Picture | None:
    if all(entry.order_metrics is None for entry in contest.entries):
        return None
    entries = [entry for entry in contest.entries if entry.order_metrics is not None or entry.once]
    figure, axes = panel(contest.setting.full, height=1.0 + 0.27 * len(entries), left=1.75)
    for place, entry in enumerate(reversed(entries)):
        _strip_row(axes, place, entry, styles[entry.name].colour)
    axes.set(xlabel="A_N, %", ylim=(-0.6, len(entries) - 0.4))
    axes.set_yticks(range(len(entries)), [wrapped(entry.name, 24) for entry in reversed(entries)], size=8)
    axes.grid(visible=False, axis="y")
    words = [f"{e.name} {m.worst:.1f} to {m.worst + m.spread:.1f}" for e in entries if (m := e.order_metrics)]
    return render(figure, name, f"Range of A_N over class orders, {contest.setting.full}: {'; '.join(words)}.")


def _strip_row(axes: Axes, place: int, entry: Entry, colour: str) -> None:
    finals = [(stream.metrics["A_N"], stream) for stream in entry.streams if "A_N" in stream.metrics]
    values = [value for value, _ in finals]
    axes.plot([min(values), max(values)], [place, place], color=colour, linewidth=5, alpha=0.3, solid_capstyle="butt")
    for value, stream in finals:
        marker = "D" if entry.once else _order_marker(stream)
        axes.plot(value, place, marker=marker, color=colour, markersize=5, markerfacecolor="none")


def _order_marker(stream: Stream) -> str:
    if stream.random_order:
        return "o"
    return "^" if stream.order.startswith(("easiest", "similar apart")) else "v"
