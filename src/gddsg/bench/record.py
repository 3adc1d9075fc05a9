"""One record: what was run, and what came out or why it failed. JSON of all versions is read, the newest is written."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any

from gddsg.bench.findings import FINDINGS, Findings, OtherFindings, Share
from gddsg.bench.json_values import Between, dataclass_from, short, value_of
from gddsg.errors import DataError, InputError
from gddsg.evaluation.protocol import HONEST, PROTOCOLS

VERSION = 2
"""Of the format. Version 1 had no number, one flat object, and said of a leak only that there was one."""


@dataclass(frozen=True)
class Head:
    """What identifies a run.

    Attributes
    ----------
    kind : str
        Kind of run, a name in :data:`gddsg.bench.findings.FINDINGS`.
    run : str
        The same for the same run on the same data.
    experiment, dataset, backbone, learner : str
        Names, as tables show them.
    data_fingerprint : str
        Of the features.
    method : str
        The learner's class, as the experiment names it.
    parameters : Mapping
        Of its constructor, as far as they differ from the defaults.
    exemplar_free, incremental : bool
        What sets a learner apart from those that keep to the rules.
    protocol : str
        How it was asked.
    leaks : str
        What the protocol tells that nobody knows in use; empty for an honest one.
    order : str
        ``seed 1993``, or the name of the class order.
    blur, imbalance : float
        See :func:`gddsg.data.class_stream`.
    seed : int
        Of learner, test order, blur and imbalance.
    versions : Mapping of str to str
        Of the packages that took part.
    revision : str
        Commit of this code.
    order_invariant : bool
        Whether the experiment runs the learner in one class order, since what it has learnt in the end is the same in
        every order.
    """

    kind: str
    run: str
    experiment: str
    dataset: str
    learner: str
    backbone: str = "unknown"
    data_fingerprint: str = ""
    method: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    exemplar_free: bool = True
    incremental: bool = True
    protocol: str = HONEST.name
    leaks: str = ""
    order: str = "unknown"
    blur: Share = 0.0
    imbalance: Annotated[float, Between(1, 1e9)] = 1.0
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    revision: str = ""
    order_invariant: bool = False


@dataclass(frozen=True)
class Record:
    """A run that was done, or tried.

    Attributes
    ----------
    head : Head
        What identifies it.
    found : Findings or None
        What came out; None if it failed.
    error : str
        Why it failed; empty if it did not.
    traceback : str
        Where it failed.
    """

    head: Head
    found: Findings | None = None
    error: str = ""
    traceback: str = ""


def first_seed(drawn: Iterable[tuple[str, int]]) -> int:
    """The seed that a learner was run with in all class orders; its runs with others are no part of their mean.

    Parameters
    ----------
    drawn : iterable of (str, int)
        Class order and seed of each run of one learner.

    Returns
    -------
    int
        That of most orders, and among those the smallest.

    Examples
    --------
    >>> first_seed([("seed 1993", 3), ("seed 2024", 3), ("seed 1993", 0)]), first_seed([("easiest", 1), ("easiest", 0)])
    (3, 0)
    """
    orders = Counter(seed for _, seed in set(drawn))
    return min(orders, key=lambda seed: (-orders[seed], seed))


_HEAD = tuple(one.name for one in fields(Head))
_FAILURE = ("error", "traceback")


def record_to_json(record: Record) -> dict[str, Any]:
    """The record as an object of JSON.

    Parameters
    ----------
    record : Record
        What to write.

    Returns
    -------
    dict
        Version, head, and ``found`` or ``error`` and ``traceback``.
    """
    found = record.found
    if isinstance(found, OtherFindings):
        body: dict[str, Any] = {"found": dict(found.values)}
    elif found is not None:
        body = {"found": asdict(found)}
    else:
        body = {"error": record.error, "traceback": record.traceback}
    return {"version": VERSION, **asdict(record.head), **body}


def record_from_json(value: Any, where: str) -> Record:
    """The record that an object of JSON stands for.

    Parameters
    ----------
    value : Any
        What was read, of any version.
    where : str
        Where it was read, as an error is to name it.

    Returns
    -------
    Record
        The record, checked.

    Raises
    ------
    DataError
        If it is no record, or one of a version to come.
    """
    if not isinstance(value, Mapping) or not ("run" in value or "kind" in value):
        raise DataError(f"{where} is no record of a run. Expected what `gddsg bench run` wrote.")
    values = upgraded(value, where)
    head = dataclass_from(Head, {name: one for name, one in values.items() if name not in ("found", *_FAILURE)}, where)
    error, traceback = (value_of(values.get(name, ""), str, f"{where}: {name}") for name in _FAILURE)
    if bool(error) == ("found" in values):
        raise DataError(f"{where} was given a result and an error, or neither; expected one of them. Measure it again.")
    return Record(head, None, error, traceback) if error else Record(head, _findings(head.kind, values["found"], where))


def _findings(kind: str, values: Any, where: str) -> Findings:
    if not isinstance(values, Mapping):
        raise DataError(f"{where}: found is of type {type(values).__name__}; expected an object. Measure it again.")
    if kind not in FINDINGS:
        return OtherFindings(value_of(values, Mapping[str, Any], f"{where}: found"))
    try:
        return dataclass_from(FINDINGS[kind], values, where)
    except InputError as error:
        raise DataError(f"{where}: {error}") from error


def upgraded(value: Mapping[str, Any], where: str) -> dict[str, Any]:
    """An object of JSON of any version as one of today's, without its version.

    Parameters
    ----------
    value : Mapping
        As it was read.
    where : str
        Where it was read, as an error is to name it.

    Returns
    -------
    dict
        Fields of the head, and ``found``, or ``error`` and ``traceback``.

    Raises
    ------
    DataError
        If the version is not known.
    """
    version = value.get("version", 1)
    if version not in (1, VERSION) or isinstance(version, bool):
        raise DataError(
            f"{where} is a record of version {short(version)}; expected a version from 1 to {VERSION}. Update gddsg to "
            "read records of newer versions."
        )
    values = {str(name): one for name, one in value.items() if name != "version"}
    return values if version == VERSION else _from_version_1(values)


def _from_version_1(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Version 1 was flat, had null for what nobody measured, and called both embeddings' kind ``embedding``."""
    values = {"kind": "stream", **{name: one for name, one in flat.items() if one is not None}}
    if values["kind"] == "embedding":
        values |= {"kind": values.get("method", "t-SNE"), "method": values.get("learner", "")}
    head = {name: values.pop(name) for name in _HEAD if name in values}
    head["leaks"] = _told(head.get("leaks", False), head.get("protocol", HONEST.name))
    failure = {name: values.pop(name) for name in _FAILURE if name in values}
    if failure.get("error"):
        return {**head, **failure}
    if "state_MB_per_task" in values:
        values["state_megabytes"] = values.pop("state_MB_per_task")
    if isinstance(values.get("metrics"), Mapping):
        values["metrics"] = {name: one for name, one in values["metrics"].items() if _is_measured(one)}
    return {**head, "found": values}


def _told(leaks: Any, protocol: Any) -> str:
    """The sentence that a record of version 1 only hints at; some name a protocol that always tells."""
    if isinstance(protocol, str) and protocol in PROTOCOLS:
        return PROTOCOLS[protocol].leaks
    return "something nobody knows in use is told" if leaks else ""


def _is_measured(value: Any) -> bool:
    """Whether a metric of version 1 was measured: those that were not are null or NaN."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))
