"""What a reader should know first: what does the work, what groups add, and how peers were run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from gddsg.report.benchmark.summary import REFERENCE, Contest, Entry, compare
from gddsg.report.benchmark.tables import interval_text, plain, signed

AUTHORS_WIDTHS = {
    "acil": 8_192,
    "anacp": 5_000,
    "gacl": 5_000,
    "klda": 5_000,
    "loranpac": 100_000,
    "ranpac": 10_000,
}
"""Widths of random projections that authors recommend; others recommend none."""

_DISCRIMINANT = "discriminant"
_LITTLE = 1.0  # points

Pair = tuple[Contest, Entry, Entry]


def headlines(contests: Sequence[Contest]) -> list[str]:
    """Up to three sentences; what has no record is left out.

    Parameters
    ----------
    contests : sequence of Contest
        Those to judge by.

    Returns
    -------
    list of str
        On the discriminant alone, on groups and on peers.
    """
    pairs = [pair for contest in contests if (pair := _pair(contest)) is not None]
    sentences = [_what_does_the_work(pairs), _what_groups_add(pairs), _how_peers_were_run(contests)]
    return [sentence for sentence in sentences if sentence]


def _pair(contest: Contest) -> Pair | None:
    """The default, and the best row of the discriminant without groups."""
    alone = (entry for entry in contest.competitors if entry.method == _DISCRIMINANT)
    first, reference = next(alone, None), contest.reference
    if first is None or reference is None or first.mean("A_N") is None or reference.mean("A_N") is None:
        return None
    return contest, reference, first


def _what_does_the_work(pairs: Sequence[Pair]) -> str:
    if not pairs:
        return ""
    shown = [(c.label, plain(alone.mean("A_N")), plain(ours.mean("A_N"))) for c, ours, alone in pairs]
    gaps = [abs((ours.mean("A_N") or 0.0) - (alone.mean("A_N") or 0.0)) for _, ours, alone in pairs]
    start = "The discriminant does the work" if max(gaps) <= _LITTLE else "The discriminant is a part of it"
    numbers = "; ".join(f"{first} on {label}, where {REFERENCE} has {second}" for label, first, second in shown)
    return f"{start}: alone, without groups, it has A_N = {numbers}."


def _what_groups_add(pairs: Sequence[Pair]) -> str:
    found = [(contest.label, compare(ours, alone)) for contest, ours, alone in pairs]
    parts = [
        f"{signed(one.difference)} points on {label} (95 % interval over classes {interval_text(one.over_classes)})"
        for label, one in found
        if one is not None and one.over_classes is not None
    ]
    if not parts:
        return ""
    return (
        f"What groups add to it, A_N of {REFERENCE} less that of the discriminant alone: {', '.join(parts)}; where the "
        "interval holds zero, that is nothing one can tell."
    )


def _how_peers_were_run(contests: Sequence[Contest]) -> str:
    rows = [entry for contest in contests for entry in contest.competitors if entry.is_peer]
    grouped = groupby(sorted(rows, key=lambda entry: entry.method), key=lambda entry: entry.method)
    by_method = {method: list(found) for method, found in grouped}
    single = [method for method, found in by_method.items() if len(_views(found)) < 2]
    if len(single) == len(by_method):
        return ""
    others = [method for method, found in by_method.items() if not _is_recommended(method, found)]
    width = "at the width its authors recommend" + (f" ({', '.join(others)} at another)" if others else "")
    if others and not (by_method.keys() & AUTHORS_WIDTHS.keys()) - set(others):
        width = "at the widths that its rows name"
    apart = f" ({', '.join(single)} on one of them)" if single else ""
    return (
        f"Each peer was run {width}, on features as they are and on their square root{apart}; of its rows the better "
        "one counts."
    )


def _views(rows: Sequence[Entry]) -> set[str]:
    return {stream.view for entry in rows for stream in entry.streams}


def _is_recommended(method: str, rows: Sequence[Entry]) -> bool:
    """Whether a row is as wide as its authors recommend, or names no width where they recommend none."""
    return AUTHORS_WIDTHS.get(method) in {stream.width for entry in rows for stream in entry.streams}
