"""Tables of what is measured beside accuracy on a stream: invariance, classes in several batches, trust, memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TypeVar

from gddsg.bench.findings import InvarianceFindings, MemoryFindings, SplitFindings, TrustFindings
from gddsg.report.benchmark.document import Body, Cell, Table, row
from gddsg.report.benchmark.published import dataset_name
from gddsg.report.benchmark.records import ClassGraph, Measured, shown
from gddsg.report.benchmark.tables import plain, signed

F = TypeVar("F", InvarianceFindings, SplitFindings, TrustFindings, MemoryFindings)
Rows = list[tuple[Cell, ...]]


def measurement_tables(measured: Sequence[Measured]) -> list[Table]:
    """A table for each kind of measurement there is.

    Parameters
    ----------
    measured : sequence of Measured
        Of one experiment, sorted by data set and learner.

    Returns
    -------
    list of Table
        Those that have a row.
    """
    tables = (_invariance(measured), _split(measured), _trust(measured), _memory(measured))
    return [table for table in tables if table.bodies]


def graph_table(graphs: Sequence[ClassGraph]) -> Table | None:
    """How many look-alikes and groups there are, a row a graph.

    Parameters
    ----------
    graphs : sequence of ClassGraph
        Of one experiment, sorted by data set.

    Returns
    -------
    Table or None
        None where there is no graph.
    """
    caption = "Share of all pairs of classes that count as look-alikes, number of groups, and classes of the largest."
    bodies = [
        Body(dataset_name(dataset), tuple(_graph_row(graph) for graph in own))
        for dataset, own in groupby(graphs, key=lambda graph: graph.dataset)
    ]
    columns = ("Graph", "Classes", "Look-alikes, %", "Groups", "Largest group")
    return Table("Look-alikes and groups", caption, columns, tuple(bodies)) if bodies else None


def _graph_row(graph: ClassGraph) -> tuple[Cell, ...]:
    n, sizes = len(graph.classes), Counter(graph.groups)
    share = 100 * len(graph.edges) / max(n * (n - 1) / 2, 1)
    return row(graph.learner, str(n), plain(share, 1), str(len(sizes)), str(max(sizes.values(), default=0)))


def _bodies(
    measured: Sequence[Measured], kind: type[F], rows: Callable[[str, list[tuple[Measured, F]]], Rows]
) -> tuple[Body, ...]:
    """A part for each data set, with the rows of each learner; ``rows`` gets a learner's name and all it found."""
    found = [(one, one.found) for one in measured if isinstance(one.found, kind)]
    bodies = []
    for dataset, group in groupby(found, key=lambda pair: pair[0].dataset):
        by_learner = groupby(group, key=lambda pair: pair[0].learner)
        cells = [cell for learner, pairs in by_learner for cell in rows(learner, list(pairs))]
        bodies.append(Body(dataset_name(dataset), tuple(cells)))
    return tuple(bodies)


def _invariance(measured: Sequence[Measured]) -> Table:
    caption = (
        "Models learnt task by task, in different class orders and with tasks of different length, beside a model of "
        "all classes at once: class cards that are not the same bit by bit, test samples whose label differs, and the "
        "largest difference of a probability. Forget: the first class of the order forgotten, beside never learnt. "
        "Merge: two models of half of the classes each, merged. Sums and maxima over all runs."
    )
    columns = (
        *("Learner", "Runs", "Orders", "Tasks", "Cards that differ", "Labels that differ", "Largest gap"),
        *("Cards, forget", "Gap, forget", "Cards, merge", "Gap, merge"),
    )
    return Table("Invariance", caption, columns, _bodies(measured, InvarianceFindings, _invariance_rows))


def _invariance_rows(learner: str, pairs: list[tuple[Measured, InvarianceFindings]]) -> Rows:
    found = [one for _, one in pairs]
    orders = {one.order for one, _ in pairs}
    tasks = ", ".join(map(str, sorted({one.tasks for one in found})))
    return [
        row(
            learner,
            str(len(found)),
            str(len(orders)),
            tasks,
            str(sum(one.cards_that_differ for one in found)),
            str(sum(one.labels_that_differ for one in found)),
            _gap(one.probability_gap for one in found),
            str(sum(one.forget_cards_that_differ for one in found)),
            _gap(one.forget_probability_gap for one in found),
            str(sum(one.merge_cards_that_differ for one in found)),
            _gap(one.merge_probability_gap for one in found),
        )
    ]


def _gap(gaps: Iterable[float]) -> str:
    largest = max(gaps)
    return "0" if largest == 0 else f"{largest:.1e}"


def _split(measured: Sequence[Measured]) -> Table:
    caption = (
        "A_N in per cent when the samples of every class come in so many batches, and when they come in one; the "
        "difference in points."
    )
    columns = ("Learner", "Batches", "A_N in batches", "A_N in one", "Difference")
    return Table("Classes in several batches", caption, columns, _bodies(measured, SplitFindings, _split_rows))


def _split_rows(learner: str, pairs: list[tuple[Measured, SplitFindings]]) -> Rows:
    found = sorted((one for _, one in pairs), key=lambda one: one.parts)
    return [
        row(
            learner,
            str(one.parts),
            plain(one.A_N_split),
            plain(one.A_N_whole),
            signed(one.A_N_split - one.A_N_whole),
        )
        for one in found
    ]


def _trust(measured: Sequence[Measured]) -> Table:
    asked = sorted({share for one in measured if isinstance(one.found, TrustFindings) for share in one.found.kept})
    caption = (
        "ECE is the calibration error as a share, where probabilities are the method's own. AUROC tells known from "
        "unknown test samples by their novelty, with half of the classes learnt. Kept is the share of samples of known "
        "classes that is not rejected, when the share in the heading is asked for: with all classes learnt, and with "
        "half of them."
    )
    columns = ("Learner", "Class order", "ECE", "AUROC", *(f"Kept at {shown(share)}" for share in asked))
    columns += tuple(f"Kept at {shown(share)}, half" for share in asked)

    def rows(learner: str, pairs: list[tuple[Measured, TrustFindings]]) -> Rows:
        return [
            row(
                learner,
                one.order,
                plain(found.ece, 3),
                plain(found.auroc_unknown, 3),
                *(plain(found.kept.get(share), 3) for share in asked),
                *(plain(found.kept_half.get(share), 3) for share in asked),
            )
            for one, found in pairs
        ]

    return Table("Calibration and rejection", caption, columns, _bodies(measured, TrustFindings, rows))


def _memory(measured: Sequence[Measured]) -> Table:
    caption = (
        "A fresh process learns the data set task by task. Size of the model file in 10⁶ bytes, also by class in 10³ "
        "bytes; peak resident memory of the process in 2²⁰ bytes, with the features loaded and nothing learnt, and "
        "after the last task."
    )
    columns = ("Learner", "Classes", "Tasks", "File, MB", "A class, kB", "Peak before, MiB", "Peak, MiB")
    return Table("Model file and memory", caption, columns, _bodies(measured, MemoryFindings, _memory_rows))


def _memory_rows(learner: str, pairs: list[tuple[Measured, MemoryFindings]]) -> Rows:
    return [
        row(
            learner,
            str(found.classes),
            str(found.tasks),
            plain(found.file_megabytes, 1),
            plain(1000 * found.file_megabytes / max(found.classes, 1), 1),
            plain(found.loaded_mebibytes, 0),
            plain(found.peak_mebibytes, 0),
        )
        for _, found in pairs
    ]
