"""Experiments in TOML files that hold only what differs from the defaults: every key is checked when it is read."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from gddsg.bench.experiment import ORDER_NAMES, Experiment, LearnerSpec, number_of_runs, seeds
from gddsg.bench.findings import FINDINGS
from gddsg.bench.json_values import Between, short, value_of
from gddsg.bench.methods import check_parameters, learner_class, takes_seed
from gddsg.errors import DataError
from gddsg.evaluation.protocol import HONEST, PROTOCOLS
from gddsg.learners import LEARNERS

MOST_RUNS = 100_000
"""An experiment that makes more runs is refused: nobody lives to see its end."""

_KINDS = tuple(FINDINGS)
_LARGEST_FILE = 1_000_000
_MOST_ENTRIES = 10_000
_MOST_CLASSES = 10**6
_SEEDS = 2**32
_LAW = "arrival_order_does_not_matter"

T = TypeVar("T")


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
        table = tomllib.loads(_text(Path(path)))
    except FileNotFoundError as error:
        raise DataError(f"There is no experiment file {path}. `gddsg bench list` shows those there are.") from error
    except RecursionError:  # its own trace would fill pages
        raise DataError(f"{path} cannot be read as TOML: it is nested too deeply. Mend the file.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as TOML: {error}. Mend the file.") from error
    try:
        return experiment_from(Path(path).stem, table)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise ValueError(f"it has more than {_LARGEST_FILE} bytes")
    return content.decode()


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
    _refuse_unknown(table, _EXPERIMENT_KEYS, "an experiment")
    given = {"datasets": None, "learners": _usual(), **table}
    whole = Experiment(_name(name, "name"), **{key: _EXPERIMENT_KEYS[key](given[key], key) for key in given})
    experiment = replace(whole, learners=tuple(_seeded(spec, whole) for spec in whole.learners))
    _check(experiment)
    return experiment


def _seeded(spec: LearnerSpec, experiment: Experiment) -> LearnerSpec:
    """A learner that takes no seed is run with one: another would change nothing, unless it changed the stream."""
    if experiment.seeds is None or spec.seeds is not None or _is_drawn(experiment):
        return spec
    return spec if takes_seed(spec.method, spec.parameters) else replace(spec, seeds=1)


def _is_drawn(experiment: Experiment) -> bool:
    """Whether a seed and the class order decide which samples there are to learn from."""
    return bool(experiment.blur) or experiment.imbalance != 1


def _usual() -> list[str]:
    """Learners that want neither all data at once nor photos, which a feature file does not hold."""
    return [name for name, cls in LEARNERS.items() if cls.incremental and cls.takes == "features"]


def _refuse_unknown(table: Any, allowed: Collection[str], what: str) -> None:
    if not isinstance(table, Mapping):
        raise DataError(f"{short(table)} was given for {what}; expected a table.")
    unknown = sorted(set(table) - set(allowed))
    if unknown:
        raise DataError(f"{short(unknown[0])} is no key of {what}; those are {', '.join(sorted(allowed))}.")


# Readers of keys: each takes a value of TOML and the name of the key, and gives what an experiment holds.


def _reader(wanted: Any) -> Reader:
    def read(value: Any, key: str) -> Any:
        value_of(value, wanted, key)
        return value  # as it was written: ids of recorded runs tell 10 from 10.0

    return read


def _name(value: Any, key: str) -> str:
    name: str = value_of(value, str, key)
    if "\0" in name or not name.strip():
        raise DataError(f"{key} = {short(name)} was given; expected text that is not empty and has no null character.")
    return name


def _list(value: Any, key: str) -> list[Any]:
    """The entries of a list, or a single one; at least one and not too many."""
    entries = value if isinstance(value, list) else [value]
    if not 1 <= len(entries) <= _MOST_ENTRIES:
        raise DataError(f"{key} has {len(entries)} entries; expected from 1 to {_MOST_ENTRIES}.")
    return entries


def _distinct(found: Iterable[T], key: str) -> tuple[T, ...]:
    counts = Counter(found)
    twice = next((one for one, count in counts.items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{key} has {short(twice)} more than once; expected each entry once.")
    return tuple(counts)


def _names(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise DataError(f"{key} = {short(value)} was given; expected a list of names, such as [{'cub200'!r}].")
    return _distinct((_name(one, key) for one in _list(value, key)), key)


def _orders(value: Any, key: str) -> tuple[int | str, ...]:
    if _is_whole(value) and 1 <= value <= _MOST_ENTRIES:
        return seeds(value)
    if isinstance(value, list) and value and all(map(_is_order, _list(value, key))):
        return _distinct(value, key)
    raise DataError(
        f"{key} = {short(value)} was given; expected how many, from 1 to {_MOST_ENTRIES}, or a list of seeds below "
        f"2³² and of {', '.join(ORDER_NAMES)}."
    )


def _is_order(value: Any) -> bool:
    return value in ORDER_NAMES if isinstance(value, str) else _is_whole(value) and 0 <= value < 2**32


def _seeds(value: Any, key: str) -> tuple[int, ...] | int:
    if _is_whole(value) and 1 <= value <= _MOST_ENTRIES:
        return int(value)
    if isinstance(value, list) and value and all(_is_whole(n) and 0 <= n < _SEEDS for n in _list(value, key)):
        found = _distinct(value, key)
        if found == tuple(sorted(found)):  # the report takes the smallest for the first
            return found
    raise DataError(
        f"{key} = {short(value)} was given; expected how many, from 1 to {_MOST_ENTRIES}, or a list of whole numbers "
        "below 2³², the smallest first."
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _tasks(value: Any, key: str) -> tuple[int | tuple[int, ...], ...]:
    found = tuple(tuple(_list(entry, key)) if isinstance(entry, list) else entry for entry in _list(value, key))
    numbers = [n for entry in found for n in (entry if isinstance(entry, tuple) else (entry,))]
    if not all(_is_whole(n) and 1 <= n <= _MOST_CLASSES for n in numbers):
        raise DataError(
            f"{key} = {short(value)} was given; expected a number of tasks from 1 to {_MOST_CLASSES}, or a list of "
            "lists of sizes."
        )
    return _distinct(found, key)


def _own_tasks(value: Any, key: str) -> int | tuple[int, ...]:
    found = _tasks(value, key)
    if len(found) > 1:
        raise DataError(
            f"{key} = {short(value)} was given for a learner; expected one number of tasks, or one list of sizes in a "
            "list. List the learner twice, under two names, to have both."
        )
    return found[0]


def _counts(value: Any, key: str) -> tuple[int, ...]:
    entries = _list(value, key)
    if not all(_is_whole(n) and 1 <= n <= _MOST_CLASSES for n in entries):
        raise DataError(
            f"{key} = {short(value)} was given; expected a whole number from 1 to {_MOST_CLASSES}, or a list of them."
        )
    return _distinct(entries, key)


def _learners(value: Any, key: str) -> tuple[LearnerSpec, ...]:
    if not isinstance(value, list):
        raise DataError(f"{key} = {short(value)} was given; expected a list of names, and of tables with a name.")
    found = tuple(_learner(entry) for entry in _list(value, key))
    (name, count), *_ = Counter(spec.name for spec in found).most_common(1)
    if count > 1:
        raise DataError(f"Two learners are called {short(name)}; give each a name of its own.")
    return found


def _learner(entry: Any) -> LearnerSpec:
    table: dict[str, Any] = {"name": entry} if isinstance(entry, str) else entry
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        raise DataError(f"The learner {short(entry)} was given; expected a name, or a table with a name.")
    _refuse_unknown(table, _LEARNER_KEYS, "a learner")
    given = {"method": table["name"], **table}
    spec = LearnerSpec(**{key: _LEARNER_KEYS[key](given[key], key) for key in given})
    if spec.protocol not in PROTOCOLS:
        raise DataError(f"There is no protocol {short(spec.protocol)}; those are {', '.join(PROTOCOLS)}.")
    check_parameters(spec.method, spec.parameters)
    if spec.orders_once:
        _check_law(spec)
    return spec


def _check_law(spec: LearnerSpec) -> None:
    """One order stands for all only where a law says so: anybody else's result has to be measured."""
    exempt = getattr(learner_class(spec.method), "exempt", None)
    if not isinstance(exempt, Mapping):
        why = "its class has no `exempt`, so no law of gddsg.checks is known to hold for it"
    elif _LAW in exempt:
        why = f"it is exempt from the law {_LAW} ({exempt[_LAW]})"
    else:
        return
    raise DataError(
        f"orders_once = true was given for {short(spec.name)}, but {why}: another order may give another result. Leave "
        "the key out and run it in several orders; a class of your own may subclass gddsg.learners.Learner instead, "
        "which holds it to the laws."
    )


def _parameters(value: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError(f"{key} = {short(value)} was given; expected a table, such as {{ rank = 32 }}.")
    found: Mapping[str, Any] = value_of(value, Mapping[str, Any], key)
    return found


Reader = Callable[[Any, str], Any]

_EXPERIMENT_KEYS: dict[str, Reader] = {
    "datasets": _names,
    "learners": _learners,
    "title": _reader(str),
    "description": _reader(str),
    "kinds": _names,
    "backbones": _names,
    "tasks": _tasks,
    "lengths": _counts,
    "base": _reader(Annotated[int, Between(0, _MOST_CLASSES)]),
    "orders": _orders,
    "parts": _counts,
    "blur": _reader(Annotated[float, Between(0, 0.9)]),
    "imbalance": _reader(Annotated[float, Between(1, 1e6)]),
    "search_steps": _reader(Annotated[int, Between(1, 10**6)]),
    "fixed_tasks": _reader(bool),
    "seed": _reader(Annotated[int, Between(0, _SEEDS - 1)]),
    "seeds": _seeds,
}
_LEARNER_KEYS: dict[str, Reader] = {
    "name": _name,
    "method": _name,
    "parameters": _parameters,
    "protocol": _name,
    "orders": _orders,
    "tasks": _own_tasks,
    "only_last": _reader(bool),
    "seeds": _seeds,
    "orders_once": _reader(bool),
    "once_on": _names,
}


def _check(experiment: Experiment) -> None:
    if not set(experiment.kinds) <= set(_KINDS):
        raise DataError(f"kinds = {short(list(experiment.kinds))} was given; expected some of {', '.join(_KINDS)}.")
    runs = number_of_runs(experiment)
    if runs > MOST_RUNS:
        raise DataError(
            f"This makes {runs} runs; expected at most {MOST_RUNS}. Leave out data sets, backbones, learners, orders "
            "or tasks, or make two experiments of it."
        )
    _check_kinds(experiment)
    _check_seeds(experiment)
    _check_once_on(experiment)
    if experiment.fixed_tasks:
        _check_fixed_tasks(experiment)


def _check_fixed_tasks(experiment: Experiment) -> None:
    """Tasks that are permuted have one size, and seeds to permute them."""
    specs = experiment.learners
    orders = [one for given in (experiment.orders, *(spec.orders or () for spec in specs)) for one in given]
    named = [one for one in orders if isinstance(one, str)]
    if named:
        raise DataError(
            f"fixed_tasks was given with the order {named[0]!r}; expected seeds, which permute tasks. Leave it out, or "
            "run an experiment of its own."
        )
    tasks = (*experiment.tasks, *(spec.tasks for spec in specs if spec.tasks is not None))
    unequal = next((sizes for sizes in tasks if isinstance(sizes, tuple) and len(set(sizes)) > 1), None)
    if experiment.base or unequal:
        raise DataError(
            f"fixed_tasks was given with tasks of {list(unequal) if unequal else f'base = {experiment.base}'}; "
            "expected tasks of one size, or no other could take the place of one. Name a number of tasks alone."
        )


def _check_seeds(experiment: Experiment) -> None:
    """Several seeds are for streams, one order for streams whose samples do not depend on it."""
    given = [experiment.seeds, *(spec.seeds for spec in experiment.learners)]
    others = [kind for kind in experiment.kinds if kind != "stream"]
    if others and any(seeds is not None for seeds in given):
        raise DataError(
            f"kinds = {others!r} was given with seeds; expected none, since only streams are run with several. Name "
            "one `seed`, or run an experiment of its own."
        )
    if experiment.seed and isinstance(experiment.seeds, tuple) and experiment.seeds[0] != experiment.seed:
        raise DataError(
            f"seed = {experiment.seed} was given with seeds = {short(list(experiment.seeds))}; expected one or the "
            "other. Drop one."
        )
    once = [spec.name for spec in experiment.learners if spec.orders_once]
    if once and _is_drawn(experiment):
        raise DataError(
            f"orders_once = true was given for {short(once[0])} with blur = {experiment.blur:g} and imbalance = "
            f"{experiment.imbalance:g}; expected neither, since the order then decides which samples there are."
        )


def _check_once_on(experiment: Experiment) -> None:
    """A name that is none of the data sets would be without effect."""
    for spec in experiment.learners:
        unknown = [name for name in spec.once_on if name not in experiment.datasets]
        if unknown:
            raise DataError(
                f"once_on of {short(spec.name)} has {short(unknown[0])}; expected some of the experiment's data sets: "
                f"{', '.join(experiment.datasets)}."
            )


def _check_kinds(experiment: Experiment) -> None:
    """Only streams are run with samples that are missing or come back, and by protocols that tell something."""
    others = [kind for kind in experiment.kinds if kind != "stream"]
    if others and _is_drawn(experiment):
        raise DataError(
            f"kinds = {others!r} was given with blur = {experiment.blur:g} and imbalance = {experiment.imbalance:g}; "
            "expected neither, which are for streams. Leave them out, or run an experiment of its own."
        )
    told = [spec.name for spec in experiment.learners if spec.protocol != HONEST.name]
    if others and told:
        raise DataError(
            f"kinds = {others!r} was given with a protocol for {short(told[0])}; expected none, since only streams are "
            "asked by protocols. Leave it out, or run an experiment of its own."
        )
    if experiment.lengths and experiment.base:
        raise DataError(f"lengths was given with base = {experiment.base}; expected one or the other. Drop one.")
