"""Figures with a bar for each learner: order metrics, identification, protocols, intra-task similarity, confusions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from gddsg.report.benchmark.curves import figure_of
from gddsg.report.benchmark.document import Figure, Picture
from gddsg.report.benchmark.drawing import COLOURS, HATCHES, INK, add_legend, panel, render, short, wrapped
from gddsg.report.benchmark.records import Stream
from gddsg.report.benchmark.summary import Contest, Entry
from gddsg.report.benchmark.tables import by_order

SIMILAR = ("similar together", "similar apart")
_PAIRS = 10
_BAR = 0.19

Measure = tuple[str, Callable[[Entry], float | None]]


def order_bars(name: str, contests: Sequence[Contest]) -> Figure | None:
    """MOPD and AOPD, and beside them the mean range by class."""
    measures: list[Measure] = [
        ("MOPD", lambda entry: entry.order_metric("mopd")),
        ("AOPD", lambda entry: entry.order_metric("aopd")),
        ("OPD by class, mean", lambda entry: entry.order_metric("class_mean")),
    ]
    caption = (
        "How far final accuracy moves over random class orders, in points; shorter is more robust. MOPD is the largest "
        "and AOPD the mean range of the task at a position, as the paper defines them: under another order that task "
        "holds other classes, so both are above zero even for a learner that ignores the order. OPD by class follows "
        "each class instead and is zero for such a learner."
    )
    return _bars(f"{name}-opd", "Robustness to class order", caption, contests, measures, "Points of accuracy")


def identification_bars(name: str, contests: Sequence[Contest]) -> Figure | None:
    """How often the right group is found, and what follows."""
    measures: list[Measure] = [
        ("Right group found", lambda entry: entry.mean("group_accuracy")),
        ("Class right, given the group", lambda entry: entry.mean("accuracy_in_group")),
        ("A_N", lambda entry: entry.mean("A_N")),
    ]
    caption = (
        "How often each way of identifying the group of a test sample is right, how often the class is right where the "
        "group is, and the accuracy that comes of both. Longer is better; the last bar cannot be much longer than the "
        "first, since a wrong group hardly ever leads to the right class."
    )
    chosen = [
        contest
        for contest in contests
        if any("group_accuracy" in s.metrics for e in contest.entries for s in e.streams)
    ]
    return _bars(f"{name}-identification", "Identification of groups", caption, chosen, measures, "Per cent")


_TOLD = {
    "released": "“Released” is the evaluation of the code released with the paper, which tells the task of every test "
    "sample.",
    "oracle-group": "“Oracle-group” tells its group.",
    "batch-wise-prompts": "“Batch-wise-prompts” is the evaluation of code released with L2P and DualPrompt: test "
    "samples come class by class, and those of a batch vote on the prompts of all of them.",
    "task-aware": "“Task-aware” is the evaluation that APD and HALRP were published with: the task of every test "
    "sample is told, so that only its classes are possible.",
}


def protocol_bars(name: str, contests: Sequence[Contest]) -> Figure | None:
    """The same learners under protocols that tell them more and less."""
    measures: list[Measure] = [("A_N", lambda entry: entry.mean("A_N"))]
    used = {entry.protocol for contest in contests for entry in contest.entries}
    told = [sentence for protocol, sentence in _TOLD.items() if protocol in used]
    caption = (
        "A_N of all learners under all protocols side by side. A name without parentheses was judged honestly, told "
        f"nothing at test time. {' '.join(told)} What is told something is cross-hatched, is no result one gets in "
        "use, and shows only how much of an accuracy comes from being told."
    )
    return _bars(f"{name}-protocols", "What being told is worth", caption, contests, measures, "A_N, %")


def similarity_bars(name: str, contests: Sequence[Contest]) -> Figure | None:
    """Look-alikes in one task against look-alikes spread over tasks."""
    measures: list[Measure] = [(order, lambda entry, order=order: by_order(entry, order)) for order in SIMILAR]  # type: ignore[misc]
    caption = (
        "A_N when look-alikes come in one task, and when they are spread over tasks. Bars of equal length mean that "
        "look-alikes within a task do no harm; the paper shows the same in its figure 1b."
    )
    return _bars(f"{name}-similarity", "Look-alikes within a task", caption, contests, measures, "A_N, %")


def confusion_bars(name: str, contests: Sequence[Contest]) -> Figure | None:
    """The pairs of classes that are taken for each other most often."""
    pictures = [_confusions(f"{name}-confusions-{k}", contest) for k, contest in enumerate(contests, 1)]
    caption = (
        "The classes taken for each other most often after the last task: true class → predicted class, and how often "
        "in a run, averaged over random class orders. The second bar is the same mistake made by the best other "
        "learner; no bar means that it is not among the mistakes recorded for it. Pairs that people would confuse, "
        "too, are look-alikes; a pair that has nothing in common would be a fault."
    )
    return figure_of("Look-alikes taken for each other", caption, pictures)


def _bars(
    name: str, title: str, caption: str, contests: Sequence[Contest], measures: list[Measure], label: str
) -> Figure | None:
    pictures = [_bar_picture(f"{name}-{k}", contest, measures, label) for k, contest in enumerate(contests, 1)]
    return figure_of(title, caption, pictures)


def _bar_picture(name: str, contest: Contest, measures: list[Measure], label: str) -> Picture | None:
    entries = [entry for entry in contest.entries if any(value(entry) is not None for _, value in measures)]
    if not entries:
        return None
    rows = [entry.name for entry in entries]
    hatched = [bool(entry.apart) for entry in entries]
    columns = [(title, [value(entry) for entry in entries]) for title, value in measures]
    kept = [(title, values) for title, values in columns if any(value is not None for value in values)]
    return _horizontal(name, contest.setting.full, rows, kept, label, hatched)


def _horizontal(
    name: str,
    title: str,
    rows: Sequence[str],
    columns: Sequence[tuple[str, Sequence[float | None]]],
    label: str,
    hatched: Sequence[bool] = (),
    left: float = 1.75,
) -> Picture:
    """Bars side by side in every row, with their values behind them."""
    legend = [text for text, _ in columns] if len(columns) > 1 else []
    height = 0.95 + len(rows) * (0.1 + _BAR * len(columns))
    figure, axes = panel(title, height=height, left=left, legend=legend)
    places = np.arange(len(rows), dtype=float)[::-1]
    thickness = 0.86 / len(columns)
    for k, (text, values) in enumerate(columns):
        lengths = [0.0 if value is None else value for value in values]
        where = places + 0.43 - (k + 0.5) * thickness
        bars = axes.barh(where, lengths, thickness, color=COLOURS[k], edgecolor=INK, linewidth=0.6, label=text)
        for bar, value, apart in zip(bars, values, hatched or [False] * len(rows), strict=True):
            bar.set_hatch(HATCHES[3 + k % 3] if apart else HATCHES[k])
            written = "" if value is None else f"{value:.1f}"
            axes.text(bar.get_width(), bar.get_y() + thickness / 2, f" {written}", va="center", size=7)
    axes.set(xlabel=label, ylim=(-0.6, len(rows) - 0.4))
    axes.set_xlim(0, 1.12 * max((v for _, values in columns for v in values if v is not None), default=1.0) or 1.0)
    axes.set_yticks(places, [wrapped(text, int(left * 14)) for text in rows], size=8)
    axes.grid(visible=False, axis="y")
    if legend:
        add_legend(figure, axes)
    return render(figure, name, _in_words(title, rows, columns))


def _in_words(title: str, rows: Sequence[str], columns: Sequence[tuple[str, Sequence[float | None]]]) -> str:
    parts = []
    for k, text in enumerate(rows):
        values = [f"{column} {found:.1f}" for column, numbers in columns if (found := numbers[k]) is not None]
        parts.append(f"{text}: {', '.join(values)}")
    return f"Bars, {title}. {'; '.join(parts)}."


def _confusions(name: str, contest: Contest) -> Picture | None:
    chosen = [entry for entry in contest.competitors if any(stream.confusions for stream in entry.drawn)]
    if not chosen:
        return None
    first = next((entry for entry in chosen if entry is contest.reference), chosen[0])
    others = [entry for entry in chosen if entry is not first][:1]
    counts = _mean_confusions(first.drawn)
    pairs = sorted(counts, key=lambda pair: (-counts[pair], pair))[:_PAIRS]
    columns: list[tuple[str, list[float | None]]] = [(first.name, [counts[pair] for pair in pairs])]
    for other in others:
        theirs = _mean_confusions(other.drawn)
        columns.append((other.name, [theirs.get(pair) for pair in pairs]))
    rows = [f"{short(truth, 14)} → {short(taken, 14)}" for truth, taken in pairs]
    return _horizontal(name, contest.setting.full, rows, columns, "Mistakes in a run", left=2.2)


def _mean_confusions(streams: Sequence[Stream]) -> dict[tuple[str, str], float]:
    counts: Counter[tuple[str, str]] = Counter()
    for stream in streams:
        for truth, taken, times in stream.confusions:
            counts[truth, taken] += times  # type: ignore[assignment]
    return {pair: count / len(streams) for pair, count in counts.items()}
