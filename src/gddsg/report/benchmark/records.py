"""Stored records, checked and typed: what one run of one learner over one stream of tasks left behind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gddsg.errors import InputError

Floats = np.ndarray[Any, np.dtype[np.float64]]

HONEST = "honest"
_ERROR_LENGTH = 300
_TOLD = {"released": "the test sample's task is told", "oracle-group": "the test sample's group is told"}


@dataclass(frozen=True, eq=False)
class Stream:
    """One learner, one class order: what was measured.

    Attributes
    ----------
    experiment, dataset, backbone, learner, method, protocol, order : the names of the record, made fit to be shown.
    exemplar_free, incremental : what sets a run apart from those that obey the rules.
    leaks : what the protocol tells that nobody knows in use; empty for an honest one.
    sizes : number of classes of each task.
    variation : how the stream differs from whole classes in equal numbers; empty if it does not.
    class_order : names of the classes as they came.
    metrics : those that were measured, in per cent, seconds or MB.
    class_accuracies : ``(n_classes seen,)`` after each task, or after the last alone, in per cent; NaN without samples.
    groups, seconds_per_task, state_per_task : after each task; empty where nobody measured.
    confusions : true class, predicted class, how often.
    error : why the run failed; empty if it did not.
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
    """Samples laid out in the plane, each with the group of its class."""

    experiment: str
    dataset: str
    method: str
    points: Floats
    groups: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ClassGraph:
    """Which classes are look-alikes, and the group of each."""

    experiment: str
    dataset: str
    classes: tuple[str, ...]
    groups: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    positions: Floats | None


@dataclass(frozen=True, eq=False)
class Records:
    """All records of a report by kind; ``unknown`` counts those of a kind this report cannot show."""

    streams: tuple[Stream, ...]
    failures: tuple[Stream, ...]
    embeddings: tuple[Embedding, ...]
    graphs: tuple[ClassGraph, ...]
    unknown: int


def read_records(records: Sequence[Mapping[str, Any]]) -> Records:
    """Check and sort records; where one run was recorded twice in an experiment, the later record counts.

    Raises
    ------
    InputError
        If a record is not a mapping, or lacks what every record of its kind has.
    """
    latest: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for position, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InputError(f"Record {position} is a {type(record).__name__}, expected a mapping as JSON objects are.")
        run = str(record.get("run") or f"record {position}")
        latest[str(record.get("experiment")), run] = {**record, "position": position}
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for record in latest.values():
        kinds.setdefault("failure" if record.get("error") else str(record.get("kind", "stream")), []).append(record)
    return Records(
        streams=_streams(kinds.pop("stream", [])),
        failures=_streams(kinds.pop("failure", [])),
        embeddings=tuple(sorted(map(_embedding, kinds.pop("embedding", [])), key=_place)),
        graphs=tuple(sorted(map(_graph, kinds.pop("graph", [])), key=_place)),
        unknown=sum(map(len, kinds.values())),
    )


def shown(value: object) -> str:
    """A name as one line of text that can be shown: no control characters, no halves of characters."""
    text = "".join(character if character.isprintable() else " " for character in str(value))
    return " ".join(text.split()) or "(no name)"


def _streams(records: Iterable[Mapping[str, Any]]) -> tuple[Stream, ...]:
    return tuple(sorted(map(_stream, records), key=_stream_place))


def _stream_place(stream: Stream) -> tuple[str, ...]:
    names = (stream.experiment, stream.dataset, stream.backbone, stream.learner, stream.protocol)
    return (*names, str(stream.sizes), _padded(stream.order), stream.seed, stream.run)


def _place(record: Embedding | ClassGraph) -> tuple[str, ...]:
    return record.experiment, record.dataset, record.method if isinstance(record, Embedding) else ""


def _padded(order: str) -> str:
    """Makes "seed 9" come before "seed 10"."""
    return " ".join(word.zfill(12) if word.isdigit() else word for word in order.split())


def _stream(record: Mapping[str, Any]) -> Stream:
    protocol = shown(record.get("protocol", HONEST))
    error = shown(record["error"])[:_ERROR_LENGTH] if record.get("error") else ""
    learner = _required(record, "learner")
    return Stream(
        experiment=_required(record, "experiment"),
        dataset=_required(record, "dataset"),
        backbone=shown(record.get("backbone", "unknown")),
        learner=learner,
        method=shown(record.get("method", learner)),
        protocol=protocol,
        order=shown(record.get("order", "unknown")),
        exemplar_free=bool(record.get("exemplar_free", True)),
        incremental=bool(record.get("incremental", True)),
        leaks=_leak(record.get("leaks", False), protocol),
        sizes=tuple(int(size) for size in record.get("sizes") or ()),
        variation=_variation(record),
        class_order=tuple(shown(name) for name in record.get("class_order") or ()),
        metrics=_metrics(record.get("metrics") or {}),
        class_accuracies=_accuracies(record) if not error else (),
        groups=tuple(int(count) for count in record.get("groups") or ()),
        seconds_per_task=_floats(record.get("seconds_per_task")),
        state_per_task=_floats(record.get("state_MB_per_task")),
        confusions=tuple((shown(a), shown(b), float(count)) for a, b, count in record.get("confusions") or ()),
        error=error,
        run=shown(record.get("run", "")),
        seed=shown(record.get("seed", "")),
        fingerprint=shown(record.get("data_fingerprint", "")),
        revision=shown(record.get("revision", "")),
        versions={shown(name): shown(version) for name, version in (record.get("versions") or {}).items()},
    )


def _leak(given: Any, protocol: str) -> str:
    """What is told, in words; a record may say only that something is, or name a protocol that always tells."""
    if isinstance(given, str) and given:
        return shown(given)
    return _TOLD.get(protocol, "something nobody knows in use is told" if given else "")


def _variation(record: Mapping[str, Any]) -> str:
    blur, imbalance = _number(record.get("blur")) or 0.0, _number(record.get("imbalance")) or 1.0
    parts = [f"blur {blur:g}"] if blur else []
    return ", ".join([*parts, f"imbalance {imbalance:g}"] if imbalance != 1 else parts)


def _which(record: Mapping[str, Any]) -> str:
    return f"Record {record['position']}"


def _required(record: Mapping[str, Any], field: str) -> str:
    if field in record:
        return shown(record[field])
    fields = {*map(str, record)} - {"position"}
    raise InputError(
        f"{_which(record)} has no {field!r} (it has {', '.join(sorted(fields)) or 'nothing'}), expected "
        " the fields every record of its kind has; leave it out or measure it again."
    )


def _metrics(given: Mapping[str, Any]) -> dict[str, float]:
    """Those that are numbers; null and NaN mean that nobody measured."""
    numbers = ((str(name), _number(value)) for name, value in given.items())
    return {name: value for name, value in numbers if value is not None}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _floats(values: Iterable[Any] | None) -> tuple[float, ...]:
    return tuple(math.nan if value is None else float(value) for value in values or ())


def _accuracies(record: Mapping[str, Any]) -> tuple[Floats, ...]:
    """Accuracies after each task, checked against the sizes of the tasks."""
    rows = tuple(np.array(_floats(row)) for row in record.get("class_accuracies") or ())
    if not rows:
        return ()
    sizes = [int(size) for size in record.get("sizes") or ()]
    expected = np.cumsum(sizes).tolist()
    found = [len(row) for row in rows]
    named = len(record.get("class_order") or ())
    # tests after the last task alone leave one row
    if len(found) <= len(sizes) and found == expected[-len(found) :] and named == expected[-1]:
        return rows
    raise InputError(
        f"{_which(record)} has accuracies of {found} classes after its tasks and {named} names of classes; "
        f"with tasks of {sizes} classes {expected} and as many names were expected. Measure it again."
    )


def _embedding(record: Mapping[str, Any]) -> Embedding:
    points = np.asarray(record.get("points") or [], dtype=np.float64).reshape(-1, 2)
    groups = tuple(int(group) for group in record.get("groups") or [0] * len(points))
    if len(groups) != len(points):
        raise InputError(f"{_which(record)} has {len(points)} points and {len(groups)} groups, expected as many.")
    return Embedding(
        experiment=_required(record, "experiment"),
        dataset=_required(record, "dataset"),
        method=shown(record.get("method", "embedding")),
        points=points,
        groups=groups,
    )


def _graph(record: Mapping[str, Any]) -> ClassGraph:
    classes = tuple(shown(name) for name in record.get("classes") or ())
    groups = tuple(int(group) for group in record.get("group_of_class") or ())
    edges = tuple((int(i), int(j)) for i, j in record.get("edges") or ())
    stray = [edge for edge in edges if not 0 <= min(edge) <= max(edge) < len(classes)]
    if len(groups) != len(classes) or stray:
        raise InputError(
            f"{_which(record)} has {len(classes)} classes, {len(groups)} groups of classes and {len(stray)} lines to "
            "classes it does not name, expected a group a class and lines between named classes only."
        )
    positions = record.get("positions")
    return ClassGraph(
        experiment=_required(record, "experiment"),
        dataset=_required(record, "dataset"),
        classes=classes,
        groups=groups,
        edges=edges,
        positions=None if positions is None else np.asarray(positions, dtype=np.float64).reshape(len(classes), 2),
    )
