"""What a run found, one frozen dataclass a kind of run. The benchmark writes them, the report reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from gddsg.errors import InputError


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
    sizes: tuple[int, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    class_accuracies: tuple[tuple[float | None, ...], ...] = ()
    seconds_per_task: tuple[float, ...] = ()
    state_megabytes: tuple[float, ...] = ()
    confusions: tuple[tuple[str, str, int], ...] = ()
    groups: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        found = [len(row) for row in self.class_accuracies]
        if not found:
            return
        expected = list(accumulate(self.sizes))
        # tests after the last task alone leave one row
        fits = len(found) <= len(expected) and found == expected[-len(found) :]
        if not fits or len(self.class_order) != expected[-1]:
            raise InputError(
                f"There are accuracies of {found} classes after its tasks and {len(self.class_order)} names of classes;"
                f" with tasks of {list(self.sizes)} classes {expected} and as many names were expected. Measure it "
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

    points: tuple[tuple[float, float], ...] = ()
    groups: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.groups) != len(self.points):
            raise InputError(
                f"There are {len(self.points)} points and {len(self.groups)} groups; expected as many groups as points."
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
    group_of_class: tuple[int, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    positions: tuple[tuple[float, float], ...] | None = None

    def __post_init__(self) -> None:
        stray = [edge for edge in self.edges if not 0 <= min(edge) <= max(edge) < len(self.classes)]
        if len(self.group_of_class) != len(self.classes) or stray:
            raise InputError(
                f"There are {len(self.classes)} classes, {len(self.group_of_class)} groups of classes and {len(stray)} "
                "lines to classes without a name; expected a group a class and lines between named classes only."
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

    classes: int
    tasks: int
    queries: int
    cards_that_differ: int
    labels_that_differ: int
    probability_gap: float
    forget_cards_that_differ: int
    forget_probability_gap: float
    merge_cards_that_differ: int
    merge_probability_gap: float

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

    parts: int
    A_N_whole: float
    A_N_split: float

    def __str__(self) -> str:
        return f"A_N {self.A_N_split:.2f} in {self.parts} batches, {self.A_N_whole:.2f} in one"


@dataclass(frozen=True)
class TrustFindings:
    """How far probabilities and rejection can be trusted.

    Attributes
    ----------
    ece : float
        Calibration error over 15 bins, as a share, after the last task.
    auroc_unknown : float
        Area under the curve of known against unknown test samples by novelty, with half of the classes learnt.
    kept, kept_half : Mapping of str to float
        Share of known test samples that is not rejected, by the share that was asked for: with all classes learnt,
        and with half of them.
    """

    ece: float
    auroc_unknown: float
    kept: Mapping[str, float]
    kept_half: Mapping[str, float]

    def __str__(self) -> str:
        kept = ", ".join(f"{share:.3f} for {asked}" for asked, share in self.kept.items())
        return f"calibration error {self.ece:.3f}, AUROC {self.auroc_unknown:.2f}, kept {kept}"


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

    classes: int
    tasks: int
    file_megabytes: float
    loaded_mebibytes: float
    peak_mebibytes: float

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
