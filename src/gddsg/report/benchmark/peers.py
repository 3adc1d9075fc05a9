"""The default beside every peer at its best: a table, and who is ahead of whom."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from gddsg.report.benchmark.document import Body, Cell, Table, row
from gddsg.report.benchmark.summary import REFERENCE, Contest, Entry, compare
from gddsg.report.benchmark.tables import ABSENT, interval_text, signed, with_interval


def best_rows(contest: Contest) -> list[Entry]:
    """Of every method of somebody else the entry with the highest A_N; those that compete first."""
    best: dict[tuple[str, str], Entry] = {}
    for entry in contest.entries:  # from the best to the worst
        if entry.is_peer and entry.mean("A_N") is not None:
            best.setdefault((entry.apart, entry.method), entry)
    return list(best.values())


def peer_table(contests: Sequence[Contest]) -> Table | None:
    """The default against the best row of every peer; None where there is no default or no peer."""
    bodies = [body for contest in contests for body in _bodies(contest)]
    if not bodies:
        return None
    caption = (
        f"Every peer with the best of its rows, chosen by A_N on the test samples, which favours the peer. The lead is "
        f"A_N of {REFERENCE} less that of the row, in points, on the class orders both were run in; its interval is "
        f"over classes, and tells what other classes of the same kind may change. {REFERENCE} is above or below where "
        "zero is outside of it. Intervals are not corrected for the number of peers."
    )
    columns = ("Peer", "Best row", "A_N", f"Lead of {REFERENCE}", "95 % interval over classes", f"{REFERENCE} is")
    return Table(f"{REFERENCE} against every peer at its best", caption, columns, tuple(bodies))


def _bodies(contest: Contest) -> list[Body]:
    """Peers that keep to the rules under the name of the setting, others under the reason why they do not."""
    reference = contest.reference
    if reference is None:
        return []
    return [
        Body(f"{contest.label} – {apart}" if apart else contest.label, tuple(_row(reference, one) for one in group))
        for apart, group in groupby(best_rows(contest), key=lambda entry: entry.apart)
    ]


def _row(reference: Entry, peer: Entry) -> tuple[Cell, ...]:
    found = compare(reference, peer)
    lead, interval = (None, None) if found is None else (found.difference, found.over_classes)
    return row(
        peer.method,
        peer.name,
        with_interval(peer.estimate("A_N")),
        ABSENT if lead is None else signed(lead),
        interval_text(interval),
        verdict(interval),
    )


def verdict(interval: tuple[float, float] | None) -> str:
    """What an interval of a lead says.

    Examples
    --------
    >>> verdict((0.2, 1.0)), verdict((-0.2, 1.0)), verdict((-1.0, -0.2)), verdict(None)
    ('above', 'not told apart', 'below', '–')
    """
    if interval is None:
        return ABSENT
    low, high = interval
    return "above" if low > 0 else "below" if high < 0 else "not told apart"
