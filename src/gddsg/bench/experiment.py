"""An experiment: what is run on what, read from a TOML file that holds only what differs from the defaults."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from gddsg.bench.findings import FINDINGS
from gddsg.bench.methods import check_parameters, learner_class
from gddsg.errors import DataError
from gddsg.evaluation.protocol import HONEST, PROTOCOLS
from gddsg.learners import LEARNERS

PAPER_SEEDS = (1993, 2024, 4202)
"""The class orders of the paper's main table."""

KINDS = tuple(FINDINGS)
ORDER_NAMES = ("hardest", "easiest", "similar together", "similar apart", "searched")


@dataclass(frozen=True)
class LearnerSpec:
    """A learner in an experiment.

    Attributes
    ----------
    name : str
        What tables call it.
    method : str
        What it is, see :func:`gddsg.bench.methods.learner_class`.
    parameters : Mapping
        Of its constructor, as far as they differ from the defaults.
    protocol : str
        Its name in :data:`gddsg.evaluation.protocol.PROTOCOLS`.
    orders, tasks : tuple, int or None
        In place of the experiment's.
    only_last : bool
        Test after the last task only.
    """

    name: str
    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = HONEST.name
    orders: tuple[int | str, ...] | None = None
    tasks: tuple[int, ...] | int | None = None
    only_last: bool = False


@dataclass(frozen=True)
class Experiment:
    """What is run: every learner on every data set, backbone, number of tasks and class order.

    Attributes
    ----------
    name : str
        Of the file it was read from.
    datasets : tuple of str
        Names or paths, see :func:`gddsg.bench.datasets.locate`.
    learners : tuple of LearnerSpec
        All that are compared; unless told, every one in ``LEARNERS`` that is incremental.
    title, description : str
        For people.
    kinds : tuple of str
        ``stream``, the benchmark itself; ``invariance``, ``split``, ``trust`` and ``memory``, see
        :mod:`gddsg.bench.findings`; ``t-SNE``, ``UMAP`` and ``graph``, which collect what figures need.
    backbones : tuple of str
        Whose features are used.
    tasks : tuple of int or of tuples of int
        How many, in equal parts; a list of such numbers gives one run each, a list of lists names the sizes.
    lengths : tuple of int
        Classes a task, in place of ``tasks``: one run each; the last task may be shorter, and a length above the
        number of classes gives a single task.
    base : int
        Classes of a first, larger task.
    orders : tuple of int and str
        Seeds, or names of :data:`ORDER_NAMES`; a single number gives so many seeds, the paper's three first.
    parts : tuple of int
        Numbers of batches that every class comes in, one run each of kind ``split``.
    blur, imbalance : float
        See :func:`gddsg.data.class_stream`.
    search_steps : int
        Of the order ``searched``.
    seed : int
        Of learners, test order, blur and imbalance.
    """

    name: str
    datasets: tuple[str, ...]
    learners: tuple[LearnerSpec, ...]
    title: str = ""
    description: str = ""
    kinds: tuple[str, ...] = ("stream",)
    backbones: tuple[str, ...] = ("efficientnet-lite0",)
    tasks: tuple[int | tuple[int, ...], ...] = (10,)
    lengths: tuple[int, ...] = ()
    base: int = 0
    orders: tuple[int | str, ...] = (PAPER_SEEDS[0],)
    parts: tuple[int, ...] = (4,)
    blur: float = 0.0
    imbalance: float = 1.0
    search_steps: int = 30
    seed: int = 0


def seeds(count: int) -> tuple[int, ...]:
    """So many class orders: the paper's three, then 0, 1, 2 and so on.

    Parameters
    ----------
    count : int
        How many.

    Returns
    -------
    tuple of int
        Their seeds.

    Examples
    --------
    >>> seeds(5)
    (1993, 2024, 4202, 0, 1)
    """
    return (*PAPER_SEEDS, *range(max(count - len(PAPER_SEEDS), 0)))[:count]


def read_experiment(path: Path) -> Experiment:
    """The experiment in a TOML file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    Experiment
        Checked.

    Raises
    ------
    DataError
        If the file cannot be read; it says what is wrong with it.
    """
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"There is no experiment file {path}. `gddsg bench list` shows those there are.") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path} cannot be read as TOML: {error}. Mend the file.") from error
    try:
        return experiment_from(Path(path).stem, table)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def experiment_from(name: str, table: Mapping[str, Any]) -> Experiment:
    """The experiment that a table describes.

    Parameters
    ----------
    name : str
        What records call it.
    table : Mapping
        As TOML has it.

    Returns
    -------
    Experiment
        Checked.

    Raises
    ------
    DataError
        If something in the table is wrong.
    """
    allowed = {one.name for one in fields(Experiment)} - {"name"}
    _refuse_unknown(table, allowed, "an experiment")
    values: dict[str, Any] = {**table}
    values["datasets"] = _strings(table, "datasets")
    values |= {key: _strings(table, key) for key in ("backbones", "kinds") if key in table}
    if "orders" in table:
        values["orders"] = _orders(table["orders"])
    if "tasks" in table:
        values["tasks"] = _tasks(table["tasks"])
    values |= {key: _counts(table[key], key) for key in ("lengths", "parts") if key in table}
    values["learners"] = tuple(_learner(entry) for entry in table.get("learners", _incremental()))
    experiment = Experiment(name=name, **values)
    _check(experiment)
    return experiment


def _incremental() -> list[str]:
    return [name for name, cls in LEARNERS.items() if cls.incremental]


def _refuse_unknown(table: Mapping[str, Any], allowed: set[str], what: str) -> None:
    unknown = sorted(set(table) - allowed)
    if unknown:
        raise DataError(f"{unknown[0]!r} is no key of {what}; those are {', '.join(sorted(allowed))}.")


def _strings(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise DataError(f"{key} = {value!r} was given; expected a list of names, such as [{'cub200'!r}].")
    return tuple(value)


def _orders(value: Any) -> tuple[int | str, ...]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return seeds(value)
    if isinstance(value, list) and value and all(_is_order(one) for one in value):
        return tuple(value)
    raise DataError(
        f"orders = {value!r} was given; expected how many, or a list of seeds and of {', '.join(ORDER_NAMES)}."
    )


def _is_order(value: Any) -> bool:
    return value in ORDER_NAMES or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32)


def _tasks(value: Any) -> tuple[int | tuple[int, ...], ...]:
    entries = value if isinstance(value, list) else [value]
    found = tuple(tuple(entry) if isinstance(entry, list) else entry for entry in entries)
    numbers = [n for entry in found for n in (entry if isinstance(entry, tuple) else (entry,))]
    if not numbers or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in numbers):
        raise DataError(f"tasks = {value!r} was given; expected a number of tasks, or a list of lists of sizes.")
    return found


def _counts(value: Any, key: str) -> tuple[int, ...]:
    entries = value if isinstance(value, list) else [value]
    if not entries or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in entries):
        raise DataError(f"{key} = {value!r} was given; expected a whole number from 1, or a list of them.")
    return tuple(entries)


def _learner(entry: Any) -> LearnerSpec:
    table: dict[str, Any] = {"name": entry} if isinstance(entry, str) else entry
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        raise DataError(f"The learner {entry!r} was given; expected a name, or a table with a name.")
    _refuse_unknown(table, {one.name for one in fields(LearnerSpec)}, "a learner")
    values = {"method": table["name"], **table}
    if "orders" in table:
        values["orders"] = _orders(table["orders"])
    if "tasks" in table:
        values["tasks"] = _tasks(table["tasks"])[0]
    spec = LearnerSpec(**values)
    _check_learner(spec)
    return spec


def _check_learner(spec: LearnerSpec) -> None:
    learner_class(spec.method)
    if spec.protocol not in PROTOCOLS:
        raise DataError(f"There is no protocol {spec.protocol!r}; those are {', '.join(PROTOCOLS)}.")
    if not isinstance(spec.parameters, Mapping):
        raise DataError(f"parameters = {spec.parameters!r} was given; expected a table, such as {{ rank = 32 }}.")
    check_parameters(spec.method, spec.parameters)


def _check(experiment: Experiment) -> None:
    if not set(experiment.kinds) <= set(KINDS):
        raise DataError(f"kinds = {list(experiment.kinds)!r} was given; expected some of {', '.join(KINDS)}.")
    names = [spec.name for spec in experiment.learners]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"Two learners are called {twice[0]!r}; give each a name of its own.")
    for key, low, high in (("blur", 0.0, 0.9), ("imbalance", 1.0, 1e6), ("base", 0, 10**6), ("search_steps", 1, 10**6)):
        value = getattr(experiment, key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise DataError(f"{key} = {value!r} was given; expected a number from {low:g} to {high:g}.")
    _check_kinds(experiment)


def _check_kinds(experiment: Experiment) -> None:
    """Only streams are run with samples that are missing or come back, and by protocols that tell something."""
    others = [kind for kind in experiment.kinds if kind != "stream"]
    if others and (experiment.blur or experiment.imbalance != 1):
        raise DataError(
            f"kinds = {others!r} was given with blur = {experiment.blur:g} and imbalance = {experiment.imbalance:g}; "
            "expected neither, which are for streams. Leave them out, or run an experiment of its own."
        )
    told = [spec.name for spec in experiment.learners if spec.protocol != HONEST.name]
    if others and told:
        raise DataError(
            f"kinds = {others!r} was given with a protocol for {told[0]!r}; expected none, since only streams are "
            "asked by protocols. Leave it out, or run an experiment of its own."
        )
    if experiment.lengths and experiment.base:
        raise DataError(f"lengths was given with base = {experiment.base}; expected one or the other. Drop one.")


@dataclass(frozen=True)
class Run:
    """One line of the records to be: a learner on a data set in one class order.

    Attributes
    ----------
    experiment, kind, dataset, backbone, learner, order, base, blur, imbalance, search_steps, seed
        See :class:`Experiment`, of whose lists it has one each.
    tasks : int or tuple of int
        How many, or their sizes.
    length : int or None
        Classes a task, in place of ``tasks``.
    parts : int or None
        Batches that every class comes in; None unless the kind is ``split``.
    """

    experiment: str
    kind: str
    dataset: str
    backbone: str
    learner: LearnerSpec
    tasks: int | tuple[int, ...]
    base: int
    order: int | str
    blur: float
    imbalance: float
    search_steps: int
    seed: int
    length: int | None = None
    parts: int | None = None

    @property
    def order_name(self) -> str:
        """``seed 1993``, or the name of the order."""
        return f"seed {self.order}" if isinstance(self.order, int) else self.order


def planned_runs(experiment: Experiment) -> Iterator[Run]:
    """All runs of an experiment, data set by data set.

    Parameters
    ----------
    experiment : Experiment
        What is to be run.

    Yields
    ------
    Run
        One after the other.
    """
    for dataset, backbone, spec, kind in product(
        experiment.datasets, experiment.backbones, experiment.learners, experiment.kinds
    ):
        orders = experiment.orders if spec.orders is None else spec.orders
        parts = experiment.parts if kind == "split" else (None,)
        for (n_tasks, length), order, n_parts in product(_cuts(experiment, spec), orders, parts):
            yield Run(
                experiment=experiment.name,
                kind=kind,
                dataset=dataset,
                backbone=backbone,
                learner=spec,
                tasks=n_tasks,
                base=experiment.base,
                order=order,
                blur=experiment.blur,
                imbalance=experiment.imbalance,
                search_steps=experiment.search_steps,
                seed=experiment.seed,
                length=length,
                parts=n_parts,
            )


def _cuts(experiment: Experiment, spec: LearnerSpec) -> list[tuple[int | tuple[int, ...], int | None]]:
    """Number or sizes of tasks, and the length of a task where that is what counts."""
    if spec.tasks is not None:
        return [(spec.tasks, None)]
    if experiment.lengths:
        return [(1, length) for length in experiment.lengths]
    return [(tasks, None) for tasks in experiment.tasks]


def experiment_files(folder: Path) -> Sequence[Path]:
    """The TOML files in a folder.

    Parameters
    ----------
    folder : Path
        Where to look.

    Returns
    -------
    sequence of Path
        Sorted.
    """
    return sorted(Path(folder).glob("*.toml"))
