"""An experiment: what is run on what, and the runs that come of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, product
from typing import Any

from gddsg.bench.json_values import short
from gddsg.errors import DataError
from gddsg.evaluation.protocol import HONEST

PAPER_SEEDS = (1993, 2024, 4202)
"""The class orders of the paper's main table."""

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
    seeds : tuple of int, int or None
        In place of the experiment's.
    orders_once : bool
        Run the first class order alone, since what is learnt in the end is the same in every order.
    once_on : tuple of str
        Data sets on which one run will do, in the first order with the first seed: where a row of the same method does
        better, intervals of this one tell nobody anything.
    """

    name: str
    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = HONEST.name
    orders: tuple[int | str, ...] | None = None
    tasks: tuple[int, ...] | int | None = None
    only_last: bool = False
    seeds: tuple[int, ...] | int | None = None
    orders_once: bool = False
    once_on: tuple[str, ...] = ()


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
        All that are compared; unless told, every one in ``LEARNERS`` that is incremental and takes features.
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
    fixed_tasks : bool
        The class order of the first seed is cut into tasks, and the other seeds permute these tasks instead of the
        classes: every task keeps its classes.
    seeds : tuple of int, int or None
        Several of them, the smallest first, or how many, counted up from ``seed``. All orders are run with the first,
        and the first order with the others, too; a learner that takes no seed is run with the first alone.
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
    fixed_tasks: bool = False
    seeds: tuple[int, ...] | int | None = None


def seeds(count: int) -> tuple[int, ...]:
    """So many class orders: the paper's three, then 0, 1, 2 and so on.

    Parameters
    ----------
    count : int
        How many.

    Returns
    -------
    tuple of int
        Their seeds, each once.

    Examples
    --------
    >>> seeds(5)
    (1993, 2024, 4202, 0, 1)
    """
    others = (seed for seed in range(count) if seed not in PAPER_SEEDS)
    return tuple(islice(chain(PAPER_SEEDS, others), count))


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
    tasks_of : int or None
        Seed of the class order that was cut into tasks, which ``order`` permutes; None where it permutes classes.
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
    tasks_of: int | None = None

    @property
    def order_name(self) -> str:
        """``seed 1993``, ``seed 2024 of tasks 1993``, or the name of the order."""
        name = f"seed {self.order}" if isinstance(self.order, int) else self.order
        return name if self.tasks_of is None else f"{name} of tasks {self.tasks_of}"


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
        parts = experiment.parts if kind == "split" else (None,)
        for (n_tasks, length), (order, seed), n_parts in product(
            _cuts(experiment, spec), _draws(experiment, spec, dataset), parts
        ):
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
                seed=seed,
                length=length,
                parts=n_parts,
                tasks_of=_tasks_of(experiment),
            )


def number_of_runs(experiment: Experiment) -> int:
    """How many runs an experiment makes, counted without planning them.

    Parameters
    ----------
    experiment : Experiment
        What is to be run.

    Returns
    -------
    int
        As many as :func:`planned_runs` yields.
    """
    parts = sum(len(experiment.parts) if kind == "split" else 1 for kind in experiment.kinds)
    streams = sum(
        len(_cuts(experiment, spec)) * len(_draws(experiment, spec, dataset))
        for dataset, spec in product(experiment.datasets, experiment.learners)
    )
    return len(experiment.backbones) * parts * streams


def _tasks_of(experiment: Experiment) -> int | None:
    """Seed of the class order whose tasks all orders permute."""
    first = experiment.orders[0]
    return first if experiment.fixed_tasks and isinstance(first, int) else None  # reading refuses names


def part_of(experiment: Experiment, datasets: Sequence[str] = (), learners: Sequence[str] = ()) -> Experiment:
    """A part of an experiment.

    Parameters
    ----------
    experiment : Experiment
        The whole.
    datasets, learners : sequence of str
        Names as the experiment has them, or several joined by commas; without any, all of them.

    Returns
    -------
    Experiment
        With those alone, in the order of the whole.

    Raises
    ------
    DataError
        If the experiment does not have one of them.
    """
    names = [spec.name for spec in experiment.learners]
    wanted = {name for text in datasets for name in _named(text, experiment.datasets, "data set", experiment.name)}
    chosen = {name for text in learners for name in _named(text, names, "learner", experiment.name)}
    return replace(
        experiment,
        datasets=tuple(name for name in experiment.datasets if name in wanted or not wanted),
        learners=tuple(spec for spec in experiment.learners if spec.name in chosen or not chosen),
    )


def _named(text: str, known: Collection[str], what: str, where: str) -> Iterator[str]:
    """Names joined by commas; a name may hold commas itself, so the longest that is known counts."""
    words = text.split(",")
    while words:
        tried = ((n, ",".join(words[:n]).strip()) for n in range(len(words), 0, -1))
        n, name = next(((n, name) for n, name in tried if name in known), (0, ""))
        if not n:
            raise DataError(
                f"There is no {what} {short(words[0].strip())} in {where}; those are {', '.join(map(repr, known))}."
            )
        yield name
        words = words[n:]


def _draws(experiment: Experiment, spec: LearnerSpec, dataset: str) -> list[tuple[int | str, int]]:
    """Class order and seed of every run: all orders with the first seed, the other seeds with the first order."""
    orders = experiment.orders if spec.orders is None else spec.orders
    first, *others = _own_seeds(experiment, spec)
    if dataset in spec.once_on:
        return [(orders[0], first)]
    kept = orders[:1] if spec.orders_once else orders
    return [*((order, first) for order in kept), *((orders[0], seed) for seed in others)]


def _own_seeds(experiment: Experiment, spec: LearnerSpec) -> tuple[int, ...]:
    found = experiment.seeds if spec.seeds is None else spec.seeds
    if isinstance(found, tuple):
        return found
    first = experiment.seeds[0] if isinstance(experiment.seeds, tuple) else experiment.seed
    return tuple(range(first, first + (found or 1)))


def _cuts(experiment: Experiment, spec: LearnerSpec) -> list[tuple[int | tuple[int, ...], int | None]]:
    """Number or sizes of tasks, and the length of a task where that is what counts."""
    if spec.tasks is not None:
        return [(spec.tasks, None)]
    if experiment.lengths:
        return [(1, length) for length in experiment.lengths]
    return [(tasks, None) for tasks in experiment.tasks]
