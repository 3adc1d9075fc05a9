"""What a run found, one frozen dataclass a kind of run. The benchmark writes them, the report reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated, Any

from gddsg.bench.json_values import Between, short
from gddsg.errors import InputError

Percent = Annotated[float, Between(0, 100)]
Share = Annotated[float, Between(0, 1)]
Amount = Annotated[float, Between(0, 1e12)]
Coordinate = Annotated[float, Between(-1e9, 1e9)]
Count = Annotated[int, Between(0, 10**9)]
Size = Annotated[int, Between(1, 10**9)]

METRICS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("A_N", "AIA", "ECE", "group_accuracy", "accuracy_in_group"), (0, 100)),
    **dict.fromkeys(("F_N", "BWT"), (-100, 100)),
    **dict.fromkeys(("seconds_learning", "seconds_predicting", "state_MB"), (0, 1e12)),
}
"""Metrics of a stream and the range of each; one that is not among them can have any value."""


@dataclass(frozen=True)
class StreamFindings:
    """What a learner reached on a stream of tasks, and what it cost.

    Attributes
    ----------
    class_order : tuple of str
        Names of the classes in the order they came.
    sizes : tuple of int
        Number of classes of each task.
    metrics : Mapping of str to float
        Those that were measured: accuracies in per cent, seconds, MB.
    class_accuracies : tuple of tuple of float or None
        Accuracy in per cent of the classes seen, after each task or after the last alone; None without test samples.
    seconds_per_task : tuple of float
        Learning and testing.
    state_megabytes : tuple of float
        What the learner carries from each task to the next.
    confusions : tuple of (str, str, int)
        Truth, what it was taken for and how often.
    groups : tuple of int
        Number of class groups after each task; empty for a learner without groups.
    """

    class_order: tuple[str, ...] = ()
    sizes: tuple[Size, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    class_accuracies: tuple[tuple[Percent | None, ...], ...] = ()
    seconds_per_task: tuple[Amount, ...] = ()
    state_megabytes: tuple[Amount, ...] = ()
    confusions: tuple[tuple[str, str, Count], ...] = ()
    groups: tuple[Count, ...] = ()

    def __post_init__(self) -> None:
        _check_classes(self)
        for name in ("seconds_per_task", "state_megabytes", "groups"):
            _check_tasks(self, name)
        for name, value in self.metrics.items():
            low, high = METRICS.get(name, (value, value))
            if not low <= value <= high:
                raise InputError(f"metrics: {name} is {value:g}; expected a number from {low:g} to {high:g}.")


def _check_classes(found: StreamFindings) -> None:
    """As many names of classes as the tasks have, all different, and accuracies of those seen after each task."""
    seen = list(accumulate(found.sizes))
    rows = [len(row) for row in found.class_accuracies]
    # tests after the last task alone leave one row
    fits = not rows or (len(rows) <= len(seen) and rows == seen[-len(rows) :])
    if not fits or len(found.class_order) != sum(found.sizes):
        raise InputError(
            f"There are accuracies of {short(rows)} classes after its tasks and {len(found.class_order)} names of "
            f"classes; with tasks of {short(list(found.sizes))} classes {short(seen)} and as many names were expected. "
            "Measure it again."
        )
    names = set(found.class_order)
    if len(names) < len(found.class_order):
        raise InputError("class_order names a class twice; expected each class once. Measure it again.")
    stray = next((truth for truth, _, _ in found.confusions if truth not in names), None)
    if stray is not None:
        raise InputError(f"confusions names {short(stray)}; expected classes of class_order. Measure it again.")


def _check_tasks(found: StreamFindings, name: str) -> None:
    """A value for every test, of which there is one after each task or after the last alone."""
    count, tests, tasks = len(getattr(found, name)), len(found.class_accuracies), len(found.sizes)
    if count and (count > tasks or (tests and count != tests)):
        raise InputError(
            f"{name} has {count} values; expected none, or one for each of the {tests or tasks} tests. Measure it "
            "again."
        )


@dataclass(frozen=True)
class EmbeddingFindings:
    """Test samples laid out in the plane.

    Attributes
    ----------
    points : tuple of (float, float)
        Where the samples are.
    groups : tuple of int
        Group of each sample's class.
    labels : tuple of str
        Class of each sample; empty where nobody noted it.
    """

    points: tuple[tuple[Coordinate, Coordinate], ...] = ()
    groups: tuple[Count, ...] = ()
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.groups) != len(self.points) or len(self.labels) not in (0, len(self.points)):
            raise InputError(
                f"There are {len(self.points)} points, {len(self.groups)} groups and {len(self.labels)} labels; "
                "expected as many groups as points, and as many labels or none."
            )


@dataclass(frozen=True)
class GraphFindings:
    """Which classes are look-alikes, and the group of each.

    Attributes
    ----------
    classes : tuple of str
        Their names.
    group_of_class : tuple of int
        Group of each.
    edges : tuple of (int, int)
        Places of two classes that are look-alikes.
    positions : tuple of (float, float) or None
        Where to draw the classes, if that is prescribed.
    """

    classes: tuple[str, ...] = ()
    group_of_class: tuple[Count, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    positions: tuple[tuple[Coordinate, Coordinate], ...] | None = None

    def __post_init__(self) -> None:
        stray = [edge for edge in self.edges if not 0 <= min(edge) < max(edge) < len(self.classes)]
        if len(self.group_of_class) != len(self.classes) or stray:
            raise InputError(
                f"There are {len(self.classes)} classes, {len(self.group_of_class)} groups of classes and {len(stray)} "
                "lines that do not join two of the classes; expected a group a class, and lines between two of them."
            )
        if self.positions is not None and len(self.positions) != len(self.classes):
            raise InputError(
                f"There are {len(self.positions)} positions for {len(self.classes)} classes; expected one each."
            )


@dataclass(frozen=True)
class InvarianceFindings:
    """A model learnt task by task beside one that learnt all classes at once, and what it forgets and merges to.

    Attributes
    ----------
    classes, tasks, queries : int
        How many there were; probabilities of the queries are compared.
    cards_that_differ, labels_that_differ : int
        Cards that are not the same bytes, and queries whose most probable class is another.
    probability_gap : float
        Largest difference of a probability.
    forget_cards_that_differ, forget_probability_gap : int, float
        The same after forgetting the first class, beside never having learnt it.
    merge_cards_that_differ, merge_probability_gap : int, float
        The same for two models of half of the classes each, merged.
    """

    classes: Size
    tasks: Size
    queries: Count
    cards_that_differ: Count
    labels_that_differ: Count
    probability_gap: Share
    forget_cards_that_differ: Count
    forget_probability_gap: Share
    merge_cards_that_differ: Count
    merge_probability_gap: Share

    def __str__(self) -> str:
        cards = self.cards_that_differ + self.forget_cards_that_differ + self.merge_cards_that_differ
        gap = max(self.probability_gap, self.forget_probability_gap, self.merge_probability_gap)
        return f"{cards} cards and {self.labels_that_differ} labels differ, gap {gap:.1g} (tasks: {self.tasks})"


@dataclass(frozen=True)
class SplitFindings:
    """Accuracy when every class comes in several batches instead of one.

    Attributes
    ----------
    parts : int
        Number of batches.
    A_N_whole, A_N_split : float
        Mean accuracy over classes in per cent, of one batch and of several.
    """

    parts: Size
    A_N_whole: Percent
    A_N_split: Percent

    def __str__(self) -> str:
        return f"A_N {self.A_N_split:.2f} in {self.parts} batches, {self.A_N_whole:.2f} in one"


@dataclass(frozen=True)
class TrustFindings:
    """How far probabilities and rejection can be trusted.

    Attributes
    ----------
    ece : float or None
        Calibration error over 15 bins, as a share, after the last task; None for a learner whose score scale is not its
        method's own.
    auroc_unknown : float
        Area under the curve of known against unknown test samples by novelty, with half of the classes learnt.
    kept, kept_half : Mapping of str to float
        Share of known test samples that is not rejected, by the share that was asked for: with all classes learnt,
        and with half of them.
    """

    ece: Share | None
    auroc_unknown: Share
    kept: Mapping[str, Share]
    kept_half: Mapping[str, Share]

    def __str__(self) -> str:
        kept = ", ".join(f"{share:.3f} for {asked}" for asked, share in self.kept.items())
        calibration = "" if self.ece is None else f"calibration error {self.ece:.3f}, "
        return f"{calibration}AUROC {self.auroc_unknown:.2f}, kept {kept}"


@dataclass(frozen=True)
class MemoryFindings:
    """Memory of a fresh process that learns task by task, and size of the model file.

    Attributes
    ----------
    classes, tasks : int
        How many were learnt, and in how many tasks.
    file_megabytes : float
        Size of the model file, in 10⁶ bytes.
    loaded_mebibytes : float
        Peak resident memory with the features loaded and nothing learnt, in 2²⁰ bytes.
    peak_mebibytes : float
        Peak resident memory after the last task.
    """

    classes: Size
    tasks: Size
    file_megabytes: Amount
    loaded_mebibytes: Amount
    peak_mebibytes: Amount

    def __str__(self) -> str:
        peaks = f"peak {self.peak_mebibytes:.0f} MiB ({self.loaded_mebibytes:.0f} before learning)"
        return f"file {self.file_megabytes:.1f} MB, {peaks}"


@dataclass(frozen=True)
class OtherFindings:
    """Findings of a kind of run that this version does not know, kept as they are.

    Attributes
    ----------
    values : Mapping
        As JSON has them.
    """

    values: Mapping[str, Any]


Measurement = InvarianceFindings | SplitFindings | TrustFindings | MemoryFindings
"""What is shown in a table of its own; as text, each says the most important in a line."""

Findings = StreamFindings | EmbeddingFindings | GraphFindings | Measurement | OtherFindings

FINDINGS: dict[str, type[Findings]] = {
    "stream": StreamFindings,
    "t-SNE": EmbeddingFindings,
    "UMAP": EmbeddingFindings,
    "graph": GraphFindings,
    "invariance": InvarianceFindings,
    "split": SplitFindings,
    "trust": TrustFindings,
    "memory": MemoryFindings,
}
"""What each kind of run finds."""
