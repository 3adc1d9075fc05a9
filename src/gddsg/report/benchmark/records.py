"""Records as the report shows them: sorted by kind, names made fit to be shown, numbers as arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gddsg.bench.findings import (
    EmbeddingFindings,
    GraphFindings,
    Measurement,
    StreamFindings,
)
from gddsg.bench.record import Head, Record
from gddsg.evaluation import protocol

Floats = np.ndarray[Any, np.dtype[np.float64]]

HONEST = protocol.HONEST.name
_ERROR_LENGTH = 300


@dataclass(frozen=True, eq=False)
class Stream:
    """One learner, one class order: what was measured.

    Attributes
    ----------
    experiment, dataset, backbone, learner, method, protocol, order : str
        The names of the record, made fit to be shown.
    exemplar_free, incremental : bool
        What sets a run apart from those that obey the rules.
    leaks : str
        What the protocol tells that nobody knows in use; empty for an honest one.
    sizes : tuple of int
        Number of classes of each task.
    variation : str
        How the stream differs from whole classes in equal numbers; empty if it does not.
    class_order : tuple of str
        Names of the classes as they came.
    metrics : Mapping of str to float
        Those that were measured, in per cent, seconds or MB.
    class_accuracies : tuple of array
        ``(n_classes seen,)`` after each task, or after the last alone, in per cent; NaN without samples.
    groups, seconds_per_task, state_per_task : tuple
        After each task; empty where nobody measured.
    confusions : tuple of (str, str, float)
        True class, predicted class, how often.
    error : str
        Why the run failed; empty if it did not.
    order_invariant : bool
        Whether one class order stands for all, since what is learnt in the end is the same in every order.
    view : str
        Features as they are, ``raw``, or their square root, ``root``.
    width : int or None
        Of the random projection, where the experiment names it.
    run, seed, fingerprint, revision, versions
        Where the numbers come from.
    """

    experiment: str
    dataset: str
    backbone: str
    learner: str
    method: str
    protocol: str
    order: str
    exemplar_free: bool
    incremental: bool
    leaks: str
    sizes: tuple[int, ...]
    variation: str
    class_order: tuple[str, ...]
    metrics: Mapping[str, float]
    class_accuracies: tuple[Floats, ...]
    groups: tuple[int, ...]
    seconds_per_task: tuple[float, ...]
    state_per_task: tuple[float, ...]
    confusions: tuple[tuple[str, str, float], ...]
    error: str
    order_invariant: bool
    view: str
    width: int | None
    run: str
    seed: str
    fingerprint: str
    revision: str
    versions: Mapping[str, str]

    @property
    def random_order(self) -> bool:
        """Whether the class order was drawn, rather than built to be easy or hard."""
        return self.order.lower().startswith("seed")

    @property
    def competes(self) -> bool:
        """Whether the run obeys the rules: no exemplars, task after task, and nothing told at test time."""
        return self.exemplar_free and self.incremental and not self.leaks and self.protocol == HONEST


@dataclass(frozen=True, eq=False)
class Embedding:
    """Samples laid out in the plane, each with the group of its class.

    Attributes
    ----------
    experiment, dataset, method : str
        Names, made fit to be shown; the method is t-SNE or UMAP.
    points : array
        ``(n_samples, 2)``.
    groups : tuple of int
        Group of each sample.
    """

    experiment: str
    dataset: str
    method: str
    points: Floats
    groups: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ClassGraph:
    """Which classes are look-alikes, and the group of each.

    Attributes
    ----------
    experiment, dataset, learner : str
        Names, made fit to be shown.
    classes : tuple of str
        Their names.
    groups : tuple of int
        Group of each class.
    edges : tuple of (int, int)
        Places of two look-alikes.
    positions : array or None
        ``(n_classes, 2)``, where to draw them, if that is prescribed.
    """

    experiment: str
    dataset: str
    learner: str
    classes: tuple[str, ...]
    groups: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    positions: Floats | None


@dataclass(frozen=True, eq=False)
class Measured:
    """A measurement that is shown in a table of its own.

    Attributes
    ----------
    experiment, dataset, learner, order : str
        The names of the record, made fit to be shown.
    found : Measurement
        What was measured.
    seed, revision, versions
        Where the numbers come from.
    """

    experiment: str
    dataset: str
    learner: str
    order: str
    found: Measurement
    seed: str
    revision: str
    versions: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Records:
    """All records of a report by kind.

    Attributes
    ----------
    streams, embeddings, graphs, measurements : tuple
        What was found, sorted.
    failures : tuple of Stream
        Runs of all kinds that ended in an error.
    unknown : int
        Number of records of a kind this report cannot show.
    """

    streams: tuple[Stream, ...]
    failures: tuple[Stream, ...]
    embeddings: tuple[Embedding, ...]
    graphs: tuple[ClassGraph, ...]
    measurements: tuple[Measured, ...]
    unknown: int


def sorted_records(records: Sequence[Record]) -> Records:
    """Sort records by kind; where one run was recorded twice in an experiment, the later record counts.

    Parameters
    ----------
    records : sequence of Record
        As :func:`gddsg.bench.read_records` gives them.

    Returns
    -------
    Records
        What the report shows.
    """
    latest = {(record.head.experiment, record.head.run): record for record in records}
    known = StreamFindings | EmbeddingFindings | GraphFindings | Measurement
    done = [record for record in latest.values() if not record.error]
    heads = [(record.head, record.found) for record in done]
    return Records(
        streams=_sorted_streams(_stream(head, found) for head, found in heads if isinstance(found, StreamFindings)),
        failures=_sorted_streams(
            _stream(record.head, StreamFindings(), record.error) for record in latest.values() if record.error
        ),
        embeddings=tuple(
            sorted(
                (_embedding(head, found) for head, found in heads if isinstance(found, EmbeddingFindings)), key=_place
            )
        ),
        graphs=tuple(
            sorted((_graph(head, found) for head, found in heads if isinstance(found, GraphFindings)), key=_place)
        ),
        measurements=tuple(
            sorted(
                (_measured(head, found) for head, found in heads if isinstance(found, Measurement)), key=_measured_place
            )
        ),
        unknown=sum(not isinstance(record.found, known) for record in done),
    )


def shown(value: object) -> str:
    """A name as one line of text that can be shown: no control characters, no halves of characters.

    Parameters
    ----------
    value : object
        The name.

    Returns
    -------
    str
        Never empty.
    """
    text = "".join(character if character.isprintable() else " " for character in str(value))
    return " ".join(text.split()) or "(no name)"


def _sorted_streams(streams: Iterable[Stream]) -> tuple[Stream, ...]:
    return tuple(sorted(streams, key=_stream_place))


def _stream_place(stream: Stream) -> tuple[str, ...]:
    names = (stream.experiment, stream.dataset, stream.backbone, stream.learner, stream.protocol)
    return (*names, str(stream.sizes), _padded(stream.order), stream.seed, stream.run)


def _place(record: Embedding | ClassGraph) -> tuple[str, ...]:
    return record.experiment, record.dataset, record.method if isinstance(record, Embedding) else record.learner


def _measured_place(measured: Measured) -> tuple[str, ...]:
    return (
        measured.experiment,
        measured.dataset,
        measured.learner,
        _padded(measured.order),
        _padded(str(measured.found)),
    )


def _padded(order: str) -> str:
    """Makes "seed 9" come before "seed 10"."""
    return " ".join(word.zfill(12) if word.isdigit() else word for word in order.split())


def _stream(head: Head, found: StreamFindings, error: str = "") -> Stream:
    return Stream(
        experiment=shown(head.experiment),
        dataset=shown(head.dataset),
        backbone=shown(head.backbone),
        learner=shown(head.learner),
        method=shown(head.method or head.learner),
        protocol=shown(head.protocol),
        order=shown(head.order),
        exemplar_free=head.exemplar_free,
        incremental=head.incremental,
        leaks=shown(head.leaks) if head.leaks else "",
        sizes=found.sizes,
        variation=_variation(head),
        class_order=tuple(map(shown, found.class_order)),
        metrics=found.metrics,
        class_accuracies=tuple(_floats(row) for row in found.class_accuracies),
        groups=found.groups,
        seconds_per_task=found.seconds_per_task,
        state_per_task=found.state_megabytes,
        confusions=tuple((shown(a), shown(b), float(count)) for a, b, count in found.confusions),
        error=shown(error)[:_ERROR_LENGTH] if error else "",
        order_invariant=head.order_invariant,
        view=shown(head.parameters.get("view", "raw")),
        width=width if isinstance(width := head.parameters.get("projection_dim"), int) else None,
        run=shown(head.run),
        seed=str(head.seed),
        fingerprint=shown(head.data_fingerprint),
        revision=shown(head.revision),
        versions=_versions(head),
    )


def _variation(head: Head) -> str:
    parts = [f"blur {head.blur:g}"] if head.blur else []
    return ", ".join([*parts, f"imbalance {head.imbalance:g}"] if head.imbalance != 1 else parts)


def _versions(head: Head) -> dict[str, str]:
    return {shown(name): shown(version) for name, version in head.versions.items()}


def _floats(row: Iterable[float | None]) -> Floats:
    return np.array([math.nan if value is None else value for value in row], dtype=np.float64)


def _embedding(head: Head, found: EmbeddingFindings) -> Embedding:
    return Embedding(
        experiment=shown(head.experiment),
        dataset=shown(head.dataset),
        method=shown(head.kind),
        points=np.array(found.points, dtype=np.float64).reshape(-1, 2),
        groups=found.groups,
    )


def _graph(head: Head, found: GraphFindings) -> ClassGraph:
    return ClassGraph(
        experiment=shown(head.experiment),
        dataset=shown(head.dataset),
        learner=shown(head.learner),
        classes=tuple(map(shown, found.classes)),
        groups=found.group_of_class,
        edges=found.edges,
        positions=None if found.positions is None else np.array(found.positions, dtype=np.float64).reshape(-1, 2),
    )


def _measured(head: Head, found: Measurement) -> Measured:
    return Measured(
        experiment=shown(head.experiment),
        dataset=shown(head.dataset),
        learner=shown(head.learner),
        order=shown(head.order),
        found=found,
        seed=str(head.seed),
        revision=shown(head.revision),
        versions=_versions(head),
    )
