"""Tables of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from gddsg.evaluation import protocol
from gddsg.report.benchmark.document import BEST, SECOND, Body, Cell, Table, row
from gddsg.report.benchmark.published import Published, dataset_name
from gddsg.report.benchmark.records import HONEST, Stream
from gddsg.report.benchmark.summary import (
    REFERENCE,
    Comparison,
    Contest,
    Entry,
    Estimate,
    compare,
)

ABSENT = "–"
ONCE = "†"
_MARKS = "Bold is the best value and underlined the second best of the learners that keep to the rules."
_MERGED_ENTRIES = 3

Ours = tuple[Contest, Entry]


@dataclass(frozen=True)
class Column:
    """One column: what it is called, which direction is better (+1, −1, 0 for neither) and what it shows.

    ``over_orders`` marks a value that can only get worse with more class orders, so that it ranks a learner beside
    those run in as many.
    """

    title: str
    better: int
    value: Callable[[Entry], float | None]
    show: Callable[[Entry], str]
    digits: int = 2
    over_orders: bool = False


def plain(value: float | None, digits: int = 2) -> str:
    """A number; zero never has a sign."""
    if value is None:
        return ABSENT
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def with_interval(value: Estimate | None, digits: int = 2) -> str:
    """A mean, and half the length of its interval; `ONCE` marks an interval that is zero by a law."""
    if value is None:
        return ABSENT
    half = value.half_width
    text = plain(value.mean, digits) + ("" if half is None else f" ± {plain(half, digits)}")
    return f"{text}{ONCE}" if value.by_law else text


def _measured(title: str, better: int, metric: str, digits: int = 2) -> Column:
    return Column(
        title,
        better,
        value=lambda entry: entry.mean(metric),
        show=lambda entry: with_interval(entry.estimate(metric), digits),
        digits=digits,
    )


def _of_orders(title: str, better: int, name: str) -> Column:
    return Column(
        title,
        better,
        value=lambda entry: entry.order_metric(name),
        show=lambda entry: plain(entry.order_metric(name)),
        over_orders=True,
    )


def _disparity(title: str, reading: str, maximum: bool) -> Column:
    def value(entry: Entry) -> float | None:
        found = entry.disparities.get(reading)
        return None if found is None else float(found.max() if maximum else found.mean())

    return Column(title, -1, value, lambda entry: plain(value(entry)), over_orders=True)


def _worst(entry: Entry) -> str:
    found = entry.order_metrics
    return ABSENT if found is None else f"{plain(found.worst)} ({found.worst_order})"


def _groups(entry: Entry) -> float | None:
    return None if entry.final_groups is None else entry.final_groups.mean


def _half_over_seeds(entry: Entry) -> float | None:
    return None if entry.over_seeds is None else entry.over_seeds.half_width


def _over_seeds(entry: Entry) -> str:
    half = _half_over_seeds(entry)
    return ABSENT if half is None else f"± {plain(half)}"


ACCURACY = _measured("A_N\u00a0↑", 1, "A_N")
SEEDS = Column("± seeds", 0, value=_half_over_seeds, show=_over_seeds)
FORGETTING = _measured("F_N\u00a0↓", -1, "F_N")
RESULTS = (
    ACCURACY,
    SEEDS,
    FORGETTING,
    _measured("AIA\u00a0↑", 1, "AIA"),
    _measured("BWT\u00a0↑", 1, "BWT"),
    _measured("ECE\u00a0↓", -1, "ECE"),
    _measured("Group accuracy\u00a0↑", 1, "group_accuracy"),
    _measured("Accuracy in group\u00a0↑", 1, "accuracy_in_group"),
    Column("Groups", 0, _groups, lambda entry: with_interval(entry.final_groups, 1), 1),
)
ORDERS_AND_COST = (
    Column("Orders", 0, lambda entry: float(len(entry.drawn)), lambda entry: str(len(entry.drawn)), 0),
    _of_orders("MOPD\u00a0↓", -1, "mopd"),
    _of_orders("AOPD\u00a0↓", -1, "aopd"),
    _of_orders("OPD by class, max\u00a0↓", -1, "class_max"),
    _of_orders("OPD by class, mean\u00a0↓", -1, "class_mean"),
    Column("Worst A_N\u00a0↑", 1, lambda entry: entry.order_metric("worst"), _worst, over_orders=True),
    _of_orders("Range of A_N\u00a0↓", -1, "spread"),
    _measured("Learning, s\u00a0↓", -1, "seconds_learning", 1),
    _measured("Predicting, s\u00a0↓", -1, "seconds_predicting", 1),
    _measured("State, MB\u00a0↓", -1, "state_MB", 1),
)
_COST = -3  # columns that tell what it costs

DISPARITIES = tuple(
    _disparity(f"{title}, {which}\u00a0↓", reading, which in ("MOPD", "max"))
    for title, reading, names in (
        ("Position", "position", ("MOPD", "AOPD")),
        ("Same task", "task", ("MOPD", "AOPD")),
        ("After t tasks", "after", ("MOPD", "AOPD")),
        ("Class", "class", ("max", "mean")),
    )
    for which in names
)


_NOTE_ONCE = (
    f"{ONCE} Run in one order, since what it has learnt in the end is the same in every order (a law that every "
    "learner is held to by the tests)."
)
_NOTE_SEEDS = (
    "± seeds is half of the 95 % interval of A_N over seeds of the learner, in the first class order; a dash where "
    "nothing of the learner is drawn at random, or one seed was run."
)


def noted(table: Table) -> Table:
    """The table, with a note below it on every mark that it has."""
    values = (cell.text for body in table.bodies for _, *cells in body.rows for cell in cells)
    seeds = any(column.endswith(SEEDS.title) for column in table.columns)
    once = any(text.endswith(ONCE) for text in values)
    return replace(table, notes=(*table.notes, *[_NOTE_ONCE] * once, *[_NOTE_SEEDS] * seeds))


def result_tables(contests: Sequence[Contest]) -> list[Table]:
    """What was reached, and how much the order matters and what it costs."""
    parts = [
        ("Results", RESULTS, "Means over random class orders, ± half of their 95 % interval."),
        (
            "Class orders and cost",
            ORDERS_AND_COST,
            "How far results move with the class order, what the whole stream takes and what is carried on in the end. "
            "Ranges only grow with more orders, so learners run in fewer are not ranked by them.",
        ),
    ]
    if len(contests) > 2 and all(len(contest.entries) <= _MERGED_ENTRIES for contest in contests):
        return [table for part in parts if (table := _merged_table(contests, *part)) is not None]
    return [table for contest in contests for part in parts if (table := _contest_table(contest, *part)) is not None]


def disparity_tables(contests: Sequence[Contest]) -> list[Table]:
    """The order-normalised performance disparity in every reading."""
    caption = (
        "OPD is how far accuracy moves over random orders, in points, MOPD its maximum and AOPD its mean over t. By "
        "position, t is the t-th task of each order, tested in the end, as the paper has it; after t tasks it is all "
        "classes seen by then. Both compare classes with other classes, so they are above zero even for a learner that "
        "ignores order. The same task, as Yoon et al. (ICLR 2020) have it, can be followed where tasks keep their "
        "classes, and the same class always: both are zero for such a learner."
    )
    found = (_contest_table(contest, "Disparity between orders", DISPARITIES, caption) for contest in contests)
    return [table for table in found if table is not None]


def worst_order_tables(contests: Sequence[Contest]) -> list[Table]:
    """Accuracy over class orders, and how far it moves."""
    caption = (
        "A_N is the mean over random class orders, ± half of its 95 % interval; the worst order may be one that was "
        "built to be hard. Ranges only grow with more orders, so learners run in fewer are not ranked by them."
    )
    columns = (ACCURACY, *ORDERS_AND_COST[:_COST])
    found = (_contest_table(contest, "Over class orders", columns, caption) for contest in contests)
    return [table for table in found if table is not None]


def overview_table(contests: Sequence[Contest], columns: Sequence[Column]) -> Table | None:
    """Learners down, settings across; None where there is only one setting or one learner."""
    names = _overall_order(contests)
    if len(contests) < 2 or len(names) < 2:
        return None
    shown = [(c, col) for c in contests for col in columns if _filled(col, c.entries)]
    marks = {(id(c), col.title): _marks(c.competitors, col) for c, col in shown}
    bodies = []
    for apart, group in groupby(names, key=lambda name: name[0]):
        rows = [(Cell(name), *(_found(c, col, name, marks) for c, col in shown)) for _, name in group]
        bodies.append(Body(apart, tuple(rows)))
    titles = tuple(f"{c.label} {col.title}" for c, col in shown)
    caption = f"Means over random class orders, ± half of their 95 % interval, for every setting side by side. {_MARKS}"
    return Table("Overview", caption, ("Learner", *titles), tuple(bodies))


def comparison_table(contests: Sequence[Contest]) -> Table | None:
    """Every learner against the reference, order by order; None where nothing can be compared."""
    bodies = [Body(contest.label, tuple(_comparison_rows(contest))) for contest in contests]
    filled = tuple(body for body in bodies if body.rows)
    if not filled:
        return None
    caption = (
        f"A_N of {REFERENCE} less A_N of the other learner on the same class orders, in points: above zero "
        f"{REFERENCE} is better. p is the chance of a difference at least as large if the two were equal over class "
        f"orders; wins are class orders on which {REFERENCE} is ahead, classes won those whose mean final accuracy is "
        "higher. The first interval and p need two orders or more; they speak of class orders alone. The interval over "
        "classes tells what other classes of the same kind may change, and is the one to judge a lead by where the "
        "order changes nothing. p values are not corrected for the number of comparisons."
    )
    columns = (
        *(f"{REFERENCE} against", "Difference", "95 % interval over orders", "p", "Wins"),
        *("95 % interval over classes", "Classes won"),
    )
    return Table(f"Paired comparison with {REFERENCE}", caption, columns, filled)


def published_table(title: str, pairs: Iterable[tuple[Published, Ours | None]]) -> Table | None:
    """Our value and the printed one side by side, each with its backbone and protocol."""
    by_dataset: dict[str, list[tuple[Cell, ...]]] = {}
    with_groups = False
    for printed, ours in pairs:
        by_dataset.setdefault(printed.dataset, []).append(_published_row(printed, ours))
        with_groups = with_groups or printed.groups is not None
    if not by_dataset:
        return None
    caption = (
        "Left what was measured here, right what the paper (GDDSG, CVPR 2025) prints. The two are not comparable: "
        "backbones differ unless both columns name the same, and the paper's own values of GDDSG come from the "
        f"released protocol, which leaks: {protocol.RELEASED.leaks}."
    )
    columns = ["Learner", "Our A_N", "Our F_N", "Our groups", "Our backbone", "Our protocol"]
    columns += ["Published A_N", "Published F_N", "Published groups", "Published backbone", "Published protocol"]
    bodies = tuple(Body(dataset_name(dataset), tuple(rows)) for dataset, rows in by_dataset.items())
    table = Table(title, caption, tuple(columns), bodies)
    return table if with_groups else _without(table, (3, 8))


def failure_table(failures: Sequence[Stream]) -> Table:
    """Runs that ended in an error."""
    rows = tuple(row(f.learner, f.experiment, dataset_name(f.dataset), f.protocol, f.order, f.error) for f in failures)
    caption = "These runs ended in an error, so they are missing from every table and figure of this report."
    columns = ("Learner", "Experiment", "Data set", "Protocol", "Class order", "Error")
    return Table("Runs that failed", caption, columns, (Body("", rows),))


def similarity_table(contests: Sequence[Contest], orders: tuple[str, str]) -> Table | None:
    """A_N where look-alikes come together, where they come apart, and the difference."""
    bodies = []
    for contest in contests:
        rows = [cells for entry in contest.entries if (cells := _similarity_row(entry, orders))]
        bodies.append(Body(contest.label, tuple(rows)))
    filled = tuple(body for body in bodies if body.rows)
    if not filled:
        return None
    caption = (
        "A_N when look-alikes come in one task, when they are spread over tasks, and the former less the latter in "
        "points; a learner that does not care about the order of classes has 0.00."
    )
    return Table("Look-alikes in one task", caption, ("Learner", *(f"{o}, A_N" for o in orders), "Difference"), filled)


def by_order(entry: Entry, order: str, metric: str = "A_N") -> float | None:
    """Mean of a metric over runs whose class order has the given name."""
    found = [s.metrics[metric] for s in entry.streams if s.order.startswith(order) and metric in s.metrics]
    return sum(found) / len(found) if found else None


def _similarity_row(entry: Entry, orders: tuple[str, str]) -> tuple[Cell, ...] | None:
    together, apart = (by_order(entry, order) for order in orders)
    if together is None or apart is None:
        return None
    return row(entry.name, plain(together), plain(apart), plain(together - apart))


def _contest_table(contest: Contest, title: str, columns: Sequence[Column], caption: str) -> Table | None:
    shown = [column for column in columns if _filled(column, contest.entries)]
    if not shown:
        return None
    marks = {column.title: _marks(contest.competitors, column) for column in shown}
    bodies = [
        Body(apart, tuple(_entry_row(entry, shown, marks) for entry in group))
        for apart, group in groupby(contest.entries, key=lambda entry: entry.apart)
    ]
    text = f"{caption} {_runs_text(contest)} {_MARKS}"
    titles = ("Learner", *(column.title for column in shown))
    return Table(f"{title}: {contest.setting.full}", text, titles, tuple(bodies))


def _merged_table(contests: Sequence[Contest], title: str, columns: Sequence[Column], caption: str) -> Table | None:
    """One table with a part for every setting, where tables of a few rows would fill pages."""
    shown = [column for column in columns if any(_filled(column, contest.entries) for contest in contests)]
    if not shown:
        return None
    bodies = []
    for contest in contests:
        marks = {column.title: _marks(contest.competitors, column) for column in shown}
        rows = [_entry_row(entry, shown, marks, told=True) for entry in contest.entries]
        bodies.append(Body(contest.label, tuple(rows)))
    columns_shown = tuple(column.title for column in shown)
    if all(len(body.rows) == 1 for body in bodies):
        return Table(title, caption, ("Setting", *columns_shown), (_one_body(bodies),))
    text = f"{caption} Every part is a setting of its own. {_MARKS}"
    return Table(title, text, ("Learner", *columns_shown), tuple(bodies))


def _one_body(bodies: Sequence[Body]) -> Body:
    """Parts of a single row as rows of one part, named by setting, and by learner where these differ."""
    same = len({body.rows[0][0].text for body in bodies}) == 1
    rows = [(Cell(b.label if same else f"{b.label}: {b.rows[0][0].text}"), *b.rows[0][1:]) for b in bodies]
    return Body(bodies[0].rows[0][0].text if same else "", tuple(rows))


def _runs_text(contest: Contest) -> str:
    """How many class orders stand behind a table."""
    counts = sorted({len(entry.drawn) for entry in contest.entries})
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{number} class {'order' if counts == [1] else 'orders'} a learner."


def _entry_row(
    entry: Entry, columns: Sequence[Column], marks: dict[str, dict[str, str]], told: bool = False
) -> tuple[Cell, ...]:
    name = f"{entry.name} – {entry.apart}" if told and entry.apart else entry.name
    values = (Cell(column.show(entry), marks[column.title].get(entry.name, "")) for column in columns)
    return (Cell(name), *values)


def _filled(column: Column, entries: Sequence[Entry]) -> bool:
    return any(column.value(entry) is not None for entry in entries)


def _marks(competitors: Sequence[Entry], column: Column) -> dict[str, str]:
    """Names of the best and the second best; values that look the same rank the same, and if all do, none is best."""
    most = max((len(entry.drawn) for entry in competitors), default=0)
    ranked = [entry for entry in competitors if not column.over_orders or len(entry.drawn) == most]
    values = {entry.name: column.value(entry) for entry in ranked}
    rounded = {name: round(value, column.digits) for name, value in values.items() if value is not None}
    ranking = sorted(set(rounded.values()), reverse=column.better > 0)
    if not column.better or len(ranking) < 2:
        return {}
    marks = dict(zip(ranking, (BEST, SECOND), strict=False))
    return {name: marks.get(value, "") for name, value in rounded.items()}


def _overall_order(contests: Sequence[Contest]) -> list[tuple[str, str]]:
    """Reason to be set apart and name of every entry; those in most settings first, then by mean A_N over settings."""
    found: dict[tuple[str, str], list[float]] = {}
    for contest in contests:
        for entry in contest.entries:
            found.setdefault((entry.apart, entry.name), []).append(entry.mean("A_N") or 0.0)
    return sorted(found, key=lambda key: (key[0], -len(found[key]), -sum(found[key]) / len(found[key]), key[1]))


def _found(contest: Contest, column: Column, name: str, marks: dict[tuple[int, str], dict[str, str]]) -> Cell:
    entry = next((entry for entry in contest.entries if entry.name == name), None)
    if entry is None:
        return Cell(ABSENT)
    return Cell(column.show(entry), marks[id(contest), column.title].get(name, ""))


def _comparison_rows(contest: Contest) -> list[tuple[Cell, ...]]:
    if contest.reference is None:
        return []
    rows = []
    for entry in contest.entries:
        found = compare(contest.reference, entry) if entry is not contest.reference else None
        if found is not None:
            rows.append(_comparison_row(f"{entry.name} – {entry.apart}" if entry.apart else entry.name, found))
    return rows


def _comparison_row(name: str, found: Comparison) -> tuple[Cell, ...]:
    return row(
        name,
        signed(found.difference),
        interval_text(found.interval),
        p_text(found.p_value),
        f"{found.wins} of {found.count}",
        interval_text(found.over_classes),
        f"{found.classes_won} of {found.classes}" if found.classes else ABSENT,
    )


def signed(value: float) -> str:
    """A difference, with its sign."""
    text = plain(value)
    return f"+{text}" if float(f"{value:.2f}") > 0 else text


def interval_text(interval: tuple[float, float] | None) -> str:
    """From where to where."""
    return ABSENT if interval is None else f"{signed(interval[0])} to {signed(interval[1])}"


def p_text(p_value: float | None) -> str:
    """A p value with as many digits as say something."""
    if p_value is None:
        return ABSENT
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _published_row(printed: Published, ours: Ours | None) -> tuple[Cell, ...]:
    right = (
        _printed(printed.accuracy, printed.accuracy_spread),
        _printed(printed.forgetting, printed.forgetting_spread),
        ABSENT if printed.groups is None else str(printed.groups),
        printed.backbone,
        printed.protocol,
    )
    if ours is None:
        return row(printed.method, *[ABSENT] * 5, *right)
    contest, entry = ours
    left = (
        with_interval(entry.estimate("A_N")),
        with_interval(entry.estimate("F_N")),
        with_interval(entry.final_groups, 1),
        contest.setting.backbone,
        HONEST if entry.competes else f"{entry.protocol}; {entry.apart.lower()}",
    )
    return row(entry.learner, *left, *right)


def _printed(value: float, spread: float | None) -> str:
    return plain(value) + ("" if spread is None else f" ± {plain(spread)}")


def _without(table: Table, left_out: tuple[int, ...]) -> Table:
    def kept(items: tuple[Cell, ...]) -> tuple[Cell, ...]:
        return tuple(item for k, item in enumerate(items) if k not in left_out)

    columns = tuple(title for k, title in enumerate(table.columns) if k not in left_out)
    bodies = tuple(Body(body.label, tuple(kept(cells) for cells in body.rows)) for body in table.bodies)
    return Table(table.title, table.caption, columns, bodies)
