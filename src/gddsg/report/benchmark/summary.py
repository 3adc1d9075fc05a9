"""Numbers over class orders: every learner in every setting, with intervals, order metrics and comparisons.

A *setting* is what runs must share to be compared: data set, backbone and sizes of tasks. Within one, an *entry* is a
learner under a protocol, with all its runs. Means and intervals are over random class orders; orders built to be hard
or easy show only in the worst order and the range, since they are no sample of anything. Runs with other seeds of the
learner are kept apart from all of that: they show in the interval over seeds alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np

from gddsg.bench.record import first_seed
from gddsg.evaluation.intervals import PairedComparison, confidence_interval, paired_comparison
from gddsg.evaluation.order_metrics import (
    aopd,
    mopd,
    opd_after_tasks,
    opd_by_class,
    opd_by_position,
    opd_by_task,
    order_spread,
)
from gddsg.report.benchmark.published import DATASETS, dataset_name
from gddsg.report.benchmark.records import HONEST, Floats, Stream
from gddsg.wording import counted

LEVEL = 0.95
REFERENCE = "gddsg"
OWN_METHODS = ("gddsg", "discriminant", "gddsg_paper")
"""The default, parts of it and the paper's recipe: no peers to compare the default with."""

_IN_THE_END = ("A_N", "ECE", "group_accuracy", "accuracy_in_group")  # metrics of what has been learnt in the end
_SAME = 0.005  # points that do not show in a table


@dataclass(frozen=True)
class Estimate:
    """A mean over class orders; the interval is None where a single order leaves nothing to say about others.

    ``by_law`` marks a single order that stands for all, since the result in the end is the same in every order.
    """

    mean: float
    interval: tuple[float, float] | None
    count: int
    by_law: bool = False

    @property
    def half_width(self) -> float | None:
        """Half the length of the interval."""
        return None if self.interval is None else (self.interval[1] - self.interval[0]) / 2


@dataclass(frozen=True)
class OrderMetrics:
    """How much the class order matters; position and class metrics are None where orders cannot be compared.

    Attributes
    ----------
    mopd, aopd : float or None
        Largest and mean range over random orders of the final accuracy of the task at a position.
    class_max, class_mean : float or None
        Largest and mean range over random orders of the final accuracy of a class.
    worst, worst_order : float or str
        Lowest A_N over all orders, and where it was.
    spread : float
        Highest less lowest A_N over all orders.
    """

    mopd: float | None
    aopd: float | None
    class_max: float | None
    class_mean: float | None
    worst: float
    worst_order: str
    spread: float


@dataclass(frozen=True)
class Comparison:
    """The reference less another learner, over the class orders both were run on, and over classes."""

    difference: float
    interval: tuple[float, float] | None
    p_value: float | None
    wins: int
    count: int
    over_classes: tuple[float, float] | None
    classes_won: int
    classes: int


@dataclass(frozen=True)
class Setting:
    """What runs must share to be compared."""

    dataset: str
    backbone: str
    sizes: tuple[int, ...]
    variation: str = ""

    @property
    def tasks(self) -> str:
        """The stream of tasks in words."""
        if not self.sizes:
            return "unknown tasks"
        same = len(set(self.sizes)) == 1
        size = str(self.sizes[0]) if same else f"{min(self.sizes)} to {max(self.sizes)}"
        words = f"{counted(len(self.sizes), 'task')} of {size}"
        return f"{words}, {self.variation}" if self.variation else words

    @property
    def full(self) -> str:
        """All of it in words."""
        return f"{dataset_name(self.dataset)}, {self.backbone}, {self.tasks}"


@dataclass(frozen=True, eq=False)
class Entry:
    """A learner under a protocol in one setting: its runs over class orders, and apart those of other seeds."""

    learner: str
    protocol: str
    streams: tuple[Stream, ...]
    reseeded: tuple[Stream, ...] = ()

    @property
    def method(self) -> str:
        """Name of the method behind the variant."""
        return self.streams[0].method

    @property
    def name(self) -> str:
        """The learner, and the protocol where it is not the honest one."""
        return self.learner if self.protocol == HONEST else f"{self.learner} ({self.protocol})"

    @property
    def is_peer(self) -> bool:
        """Whether the method is somebody else's."""
        return self.method.lower() not in OWN_METHODS

    @property
    def competes(self) -> bool:
        """Whether all runs obey the rules."""
        return all(stream.competes for stream in self.streams)

    @property
    def apart(self) -> str:
        """Why the entry is set apart, in words; empty if it competes."""
        first = self.streams[0]
        if first.leaks:
            return f"Leaks: {first.leaks}"
        if not first.incremental:
            return "Not incremental: learns all classes at once"
        if not first.exemplar_free:
            return "Keeps exemplars: samples of old classes are stored"
        return "" if self.protocol == HONEST else f"Another protocol: {self.protocol}"

    @cached_property
    def drawn(self) -> tuple[Stream, ...]:
        """Runs on random orders; all runs where there is none."""
        return tuple(stream for stream in self.streams if stream.random_order) or self.streams

    @property
    def once(self) -> bool:
        """Whether it was run in a single order that stands for all."""
        return len(self.drawn) == 1 and self.drawn[0].order_invariant

    def estimate(self, metric: str) -> Estimate | None:
        """Mean and interval of a metric over random orders; None where nobody measured it."""
        found = estimate([stream.metrics[metric] for stream in self.drawn if metric in stream.metrics])
        return self._for_all_orders(found) if metric in _IN_THE_END else found

    def _for_all_orders(self, found: Estimate | None) -> Estimate | None:
        return replace(found, interval=(found.mean, found.mean), by_law=True) if found and self.once else found

    @cached_property
    def over_seeds(self) -> Estimate | None:
        """Mean and interval of A_N over seeds, in the one order that was run with several; None without such."""
        if not self.reseeded:
            return None
        counts = Counter(stream.order for stream in self.reseeded)
        order = min(counts, key=lambda order: (-counts[order], order))
        runs = [stream for stream in (*self.streams, *self.reseeded) if stream.order == order]
        found = estimate([stream.metrics["A_N"] for stream in runs if "A_N" in stream.metrics])
        return found if found and found.interval else None

    def mean(self, metric: str) -> float | None:
        """Mean of a metric over random orders."""
        found = self.estimate(metric)
        return None if found is None else found.mean

    @cached_property
    def final_groups(self) -> Estimate | None:
        """Number of groups after the last task."""
        return self._for_all_orders(estimate([float(stream.groups[-1]) for stream in self.drawn if stream.groups]))

    @cached_property
    def order_metrics(self) -> OrderMetrics | None:
        """How much the order matters; None with fewer than two orders."""
        finals = [(stream.metrics["A_N"], stream.order) for stream in self.streams if "A_N" in stream.metrics]
        if len(finals) < 2:
            return None
        spread = order_spread([value for value, _ in finals])
        positions, classes = _position_table(self.drawn), _class_table(self.drawn)
        by_class = None if classes is None or len(classes) < 2 else 100 * opd_by_class(classes / 100)
        return OrderMetrics(
            mopd=None if positions is None else 100 * mopd(positions / 100),
            aopd=None if positions is None else 100 * aopd(positions / 100),
            class_max=None if by_class is None else float(by_class.max()),
            class_mean=None if by_class is None else float(by_class.mean()),
            worst=spread.worst,
            worst_order=min(finals)[1] if spread.range > _SAME else "every order",
            spread=spread.range,
        )

    @property
    def steady(self) -> bool:
        """Whether its A_N is the same in every order, by a law or as far as it was run."""
        return self.once or (self.order_metrics is not None and self.order_metrics.spread <= _SAME)

    def order_metric(self, name: str) -> float | None:
        """One of the order metrics, where it is known."""
        value = None if self.order_metrics is None else getattr(self.order_metrics, name)
        return None if value is None else float(value)

    @cached_property
    def disparities(self) -> Mapping[str, Floats]:
        """OPD over random orders in points, by reading: ``position``, ``task``, ``after`` t tasks, ``class``.

        Only what can be told: ``task`` needs tasks that keep their classes.
        """
        positions, classes, after = (table(self.drawn) for table in (_position_table, _class_table, _after_table))
        tasks = _fixed_tasks(self.drawn, positions)
        found = {
            "position": None if positions is None else opd_by_position(positions / 100),
            "task": None if positions is None or tasks is None else opd_by_task(positions / 100, tasks),
            "after": None if after is None else opd_after_tasks(after / 100),
            "class": None if classes is None or len(classes) < 2 else opd_by_class(classes / 100),
        }
        return {reading: 100 * opd for reading, opd in found.items() if opd is not None}

    def curves(self) -> list[tuple[list[int], list[float], Stream]]:
        """Classes seen and mean accuracy after each task, for every run."""
        return [
            ([len(row) for row in rows], [mean_of_known(row) for row in rows], stream)
            for stream in self.streams
            if (rows := stream.class_accuracies)
        ]


@dataclass(frozen=True, eq=False)
class Contest:
    """All entries of one setting, those that compete first, each part from the best to the worst."""

    setting: Setting
    label: str
    entries: tuple[Entry, ...]

    @property
    def competitors(self) -> tuple[Entry, ...]:
        """Entries that obey the rules."""
        return tuple(entry for entry in self.entries if entry.competes)

    @property
    def reference(self) -> Entry | None:
        """The learner the others are compared with."""
        return next((entry for entry in self.competitors if entry.learner.lower() == REFERENCE), None)


def contests(streams: Iterable[Stream]) -> list[Contest]:
    """Runs of one experiment by setting; the label of a setting names what differs between them."""
    grouped: dict[Setting, list[Stream]] = {}
    for stream in streams:
        grouped.setdefault(_setting(stream), []).append(stream)
    settings = sorted(grouped, key=_setting_place)
    settings = [setting for setting in settings if not _guests(setting, grouped)]
    guests = {
        host: [run for other in grouped if host in _guests(other, grouped) for run in grouped[other]]
        for host in settings
    }
    return [Contest(s, _label(s, settings), _entries([*grouped[s], *guests[s]])) for s in settings]


def estimate(values: Sequence[float]) -> Estimate | None:
    """Mean and 95 % interval."""
    if not values:
        return None
    mean, half = confidence_interval(values, LEVEL)
    return Estimate(mean, None if math.isnan(half) else (mean - half, mean + half), len(values))


def compare(reference: Entry, other: Entry) -> Comparison | None:
    """A_N of the reference less that of another entry, order by order; None without a common order."""
    ours, theirs = _finals(reference), _finals(other)
    common = sorted(set(ours) & set(theirs))
    if not common:
        return None
    found = paired_comparison([ours[key] for key in common], [theirs[key] for key in common], LEVEL)
    over_classes = _over_classes(reference, other)
    return Comparison(
        difference=found.mean_difference,
        interval=(found.low, found.high) if len(common) > 1 else None,
        p_value=found.p_value if len(common) > 1 else None,
        wins=found.wins,
        count=len(common),
        over_classes=None if over_classes is None else (over_classes.low, over_classes.high),
        classes_won=0 if over_classes is None else over_classes.wins,
        classes=0 if over_classes is None else over_classes.wins + over_classes.ties + over_classes.losses,
    )


def _setting(stream: Stream) -> Setting:
    return Setting(stream.dataset, stream.backbone, stream.sizes, stream.variation)


def _setting_place(setting: Setting) -> tuple[int, str, str, str, int, tuple[int, ...]]:
    """Data sets in the order of the paper, then by name; short tasks before long ones."""
    known = list(DATASETS)
    place = known.index(setting.dataset) if setting.dataset in known else len(known)
    return place, setting.dataset, setting.backbone, setting.variation, max(setting.sizes, default=0), setting.sizes


def _guests(setting: Setting, grouped: Mapping[Setting, list[Stream]]) -> list[Setting]:
    """Settings that runs on all classes at once belong to: they have a task of their own, and no setting."""
    if any(stream.incremental for stream in grouped[setting]):
        return []
    return [
        other
        for other, runs in grouped.items()
        if (other.dataset, other.backbone, other.variation) == (setting.dataset, setting.backbone, setting.variation)
        and any(stream.incremental for stream in runs)
    ]


def _label(setting: Setting, settings: Sequence[Setting]) -> str:
    parts: list[tuple[str, Callable[[Setting], str]]] = [
        (dataset_name(setting.dataset), lambda other: other.dataset),
        (setting.backbone, lambda other: other.backbone),
        (setting.tasks, lambda other: other.tasks),
    ]
    differing = [text for k, (text, part) in enumerate(parts) if k == 0 or _differs(part, setting, settings)]
    return ", ".join(differing)


def _differs(part: Callable[[Setting], str], setting: Setting, settings: Sequence[Setting]) -> bool:
    """Whether the part tells settings of one data set apart; sizes of tasks differ between data sets anyway."""
    return len({part(other) for other in settings if other.dataset == setting.dataset}) > 1


def _entries(streams: list[Stream]) -> tuple[Entry, ...]:
    def key(stream: Stream) -> tuple[str, str]:
        return stream.learner, stream.protocol

    grouped = groupby(sorted(streams, key=key), key=key)
    entries = [_entry(learner, protocol, tuple(runs)) for (learner, protocol), runs in grouped]
    return tuple(sorted(entries, key=_rank))


def _entry(learner: str, protocol: str, runs: tuple[Stream, ...]) -> Entry:
    first = str(first_seed((stream.order, int(stream.seed)) for stream in runs))
    ours, others = (tuple(run for run in runs if (run.seed == first) is same) for same in (True, False))
    return Entry(learner, protocol, ours, others)


def _rank(entry: Entry) -> tuple[str, float, str]:
    mean = entry.mean("A_N")
    return entry.apart, -np.inf if mean is None else -mean, entry.name


def _finals(entry: Entry) -> dict[str, float]:
    return {stream.order: stream.metrics["A_N"] for stream in entry.drawn if "A_N" in stream.metrics}


def _over_classes(reference: Entry, other: Entry) -> PairedComparison | None:
    """Mean final accuracies class by class; None with fewer than two classes."""
    ours, theirs = _class_means(reference), _class_means(other)
    common = [name for name in ours if name in theirs]
    if len(common) < 2:
        return None
    return paired_comparison([ours[name] for name in common], [theirs[name] for name in common], LEVEL)


def _class_means(entry: Entry) -> dict[str, float]:
    table = _class_table(entry.drawn)
    if table is None:
        return {}
    return dict(zip(_by_name(entry.drawn[0]), table.mean(0).tolist(), strict=True))


def _position_table(streams: Sequence[Stream]) -> Floats | None:
    """Final accuracy of every task, ``(n_orders, n_tasks)``; None where it was not recorded for two orders or more.

    None, too, where tasks differ: a learner may have been run once task by task and once on all classes at once.
    """
    tested = [stream for stream in streams if stream.class_accuracies]
    if len(tested) < 2 or len(tested) < len(streams) or len({stream.sizes for stream in tested}) > 1:
        return None
    return _complete(np.array([_final_tasks(stream) for stream in tested]))


def _after_table(streams: Sequence[Stream]) -> Floats | None:
    """Mean accuracy of the classes seen after every task, ``(n_orders, n_tasks)``; None where it was not recorded."""
    if len(streams) < 2 or len({stream.sizes for stream in streams}) > 1:
        return None
    if any(len(stream.class_accuracies) != len(stream.sizes) for stream in streams):
        return None
    table = np.array([[mean_of_known(row) for row in stream.class_accuracies] for stream in streams])
    return table if table.size and not np.isnan(table).any() else None


def _fixed_tasks(streams: Sequence[Stream], positions: Floats | None) -> list[list[int]] | None:
    """Which task was at each place of each order; None where tasks do not keep their classes from order to order."""
    numbers: dict[frozenset[str], int] = {}
    found = [[numbers.setdefault(task, len(numbers)) for task in _task_sets(stream)] for stream in streams]
    known = positions is not None and positions.shape == (len(streams), len(numbers))  # a task may lack test samples
    return found if known and all(len(numbers) == len(tasks) > 1 for tasks in found) else None


def _task_sets(stream: Stream) -> list[frozenset[str]]:
    ends = np.cumsum(stream.sizes).tolist()
    return [frozenset(stream.class_order[a:b]) for a, b in zip([0, *ends], ends, strict=False)]


def _final_tasks(stream: Stream) -> list[float]:
    parts = np.split(stream.class_accuracies[-1], np.cumsum(stream.sizes)[:-1])
    return [mean_of_known(part) for part in parts]


def mean_of_known(values: Floats) -> float:
    """Mean over classes that have test samples; NaN where none has."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def _class_table(streams: Sequence[Stream]) -> Floats | None:
    """Final accuracy of every class by name, ``(n_orders, n_classes)``; None where orders have other classes."""
    named = [_by_name(stream) for stream in streams if stream.class_accuracies]
    if len(named) < len(streams) or len({tuple(accuracies) for accuracies in named}) != 1:
        return None
    return _complete(np.array([list(accuracies.values()) for accuracies in named]))


def _by_name(stream: Stream) -> dict[str, float]:
    """Final accuracy of every class that has test samples, sorted by name."""
    final = zip(stream.class_order, stream.class_accuracies[-1].tolist(), strict=True)
    return {name: accuracy for name, accuracy in sorted(final) if not math.isnan(accuracy)}


def _complete(table: Floats) -> Floats | None:
    """The columns that are known in all rows; None where there is none."""
    known = table[:, ~np.isnan(table).any(0)]
    return known if known.size else None
