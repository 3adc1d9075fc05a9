"""All methods over class orders in one place, from several experiments on the same data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gddsg.report.benchmark.summary import Contest, Entry, Setting

JOINED = ("order-baselines", "order-robustness", "main-table")
"""Experiments that share data, tasks and class orders."""


def all_orders(experiments: Mapping[str, Sequence[Contest]]) -> list[Contest]:
    """Settings that several of the experiments have, each with every method that keeps to the rules, at its best.

    Parameters
    ----------
    experiments : mapping of str to sequence of Contest
        By name.

    Returns
    -------
    list of Contest
        In which a method has at most two rows: the best of those that move with the order, and of those that do not.
    """
    found: dict[Setting, list[Contest]] = {}
    for name in JOINED:
        for contest in experiments.get(name, ()):
            found.setdefault(contest.setting, []).append(contest)
    joined = {setting: _best([e for c in some for e in c.competitors]) for setting, some in found.items()}
    return [replace(found[s][0], entries=entries) for s, entries in joined.items() if len(found[s]) > 1]


def _best(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """By A_N over class orders; of equals the one that was run in most. One order says nothing, unless by a law."""

    def place(entry: Entry) -> tuple[float, int]:
        return round(entry.mean("A_N") or 0.0, 2), len(entry.streams)

    best: dict[tuple[str, bool], Entry] = {}
    for entry in entries:
        key, told = (entry.method, entry.steady), entry.once or entry.order_metrics is not None
        if told and (key not in best or place(entry) > place(best[key])):
            best[key] = entry
    return tuple(sorted(best.values(), key=place, reverse=True))
