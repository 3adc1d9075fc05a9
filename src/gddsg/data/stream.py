"""Task streams: a data set cut into tasks, handed out one at a time.

Equal tasks, a large first one, one class a task or any other sizes; classes that come back in later tasks (``blur``)
and classes with fewer and fewer samples (``imbalance``).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gddsg.data.dataset import Dataset, Inputs
from gddsg.data.images import Images
from gddsg.errors import DataError, InputError

if TYPE_CHECKING:  # the module of Label imports torch, which data sets do without
    from gddsg.core.label import Label

__all__ = ["Stream", "Task", "class_stream", "task_sizes"]

_MOST_BLUR = 0.9
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Task:
    """What a learner gets at one step: training rows and nothing else, not even a way to what they were picked from.

    Attributes
    ----------
    inputs : Inputs
        Features or images, as in the data set.
    labels : ndarray
        ``(n_samples,)``, as they are in the data set, in a type no wider than they need.
    """

    inputs: Inputs
    labels: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Stream:
    """Tasks in a certain order, and the test samples that go with them.

    The training rows stay where they are in the data set; a task is picked out when it is asked for.

    Attributes
    ----------
    order : tuple of int or str
        The classes in order of first appearance.
    sizes : tuple of int
        How many classes appear for the first time in each task.
    test_inputs, test_labels : Inputs, ndarray
        The whole test part of the data set.
    train_inputs, train_labels : Inputs, ndarray
        The whole training part.
    rows : tuple of ndarray
        For each task, the places of its rows in the training part, ascending.
    """

    order: tuple[Label, ...]
    sizes: tuple[int, ...]
    test_inputs: Inputs
    test_labels: NDArray[Any]
    train_inputs: Inputs
    train_labels: NDArray[Any]
    rows: tuple[NDArray[np.intp], ...]

    def tasks(self) -> Iterator[Task]:
        """The tasks, each built when it is its turn; every call starts again with the first."""
        for rows in self.rows:
            yield Task(own_rows(self.train_inputs, rows), own_labels(self.train_labels, rows))

    def seen(self, step: int) -> tuple[Label, ...]:
        """The classes seen after task ``step``, counted from 0: always the beginning of ``order``."""
        if not 0 <= step < len(self.sizes):
            raise InputError(f"step={step!r} was given; the tasks go from 0 to {len(self.sizes) - 1}.")
        return self.order[: sum(self.sizes[: step + 1])]


def own_rows(inputs: Inputs, rows: Any) -> Inputs:
    """Some rows of the inputs from which nobody can get to the others: what a learner may be handed.

    Parameters
    ----------
    inputs : Inputs
        An array; or images, which lose their labels and names as well. Anything else is trusted to part by itself.
    rows : array_like
        Which of them.

    Examples
    --------
    >>> features = np.eye(3)
    >>> own_rows(features, slice(0, 2)).base is None
    True
    """
    found: Inputs = inputs[rows]
    if isinstance(found, Images):
        return found.bare()
    return found.copy() if isinstance(found, np.ndarray) and found.base is not None else found


def own_labels(labels: NDArray[Any], rows: Any) -> NDArray[Any]:
    """Labels of some rows, in a type that tells nothing of the others: ``<U12`` would tell of a long name to come.

    Examples
    --------
    >>> own_labels(np.array(["ant", "bumblebee"]), [0])
    array(['ant'], dtype='<U3')
    """
    return np.array(labels[rows].tolist(), dtype=object if labels.dtype == object else None)


def task_sizes(
    n_classes: int, n_tasks: int | None = None, *, base: int = 0, sizes: Iterable[int] | None = None
) -> tuple[int, ...]:
    """How many classes each task brings.

    Parameters
    ----------
    n_classes : int
        Number of classes in all.
    n_tasks : int, optional
        Number of tasks in all, a base task included. Where they cannot be equal, the first are one larger.
    base : int
        Number of classes in the first task; 0 for a first task like the others.
    sizes : iterable of int, optional
        The sizes themselves, instead of ``n_tasks`` and ``base``; they are only checked.

    Examples
    --------
    >>> task_sizes(10, 4)
    (3, 3, 2, 2)
    >>> task_sizes(100, 6, base=50)
    (50, 10, 10, 10, 10, 10)
    >>> task_sizes(5, sizes=[1, 3, 1])
    (1, 3, 1)
    """
    if sizes is not None and n_tasks is None and not base:
        found = _whole_numbers(sizes)
    elif sizes is None and n_tasks is not None:
        found = _equal_sizes(n_classes, n_tasks, base)
    else:
        raise InputError(
            f"n_tasks={n_tasks!r}, base={base!r} and sizes={sizes!r} were given; expected either n_tasks, with a "
            "base if you like, or sizes alone."
        )
    if not found or min(found) < 1 or sum(found) != n_classes:
        raise InputError(
            f"Tasks of sizes {found} were asked for; expected whole numbers from 1 that add up to the "
            f"{n_classes} classes."
        )
    return found


def _equal_sizes(n_classes: int, n_tasks: int, base: int) -> tuple[int, ...]:
    most = n_classes - base + (base > 0)
    if not (0 <= base <= n_classes and 1 <= n_tasks <= most and (n_tasks > 1 or base in (0, n_classes))):
        raise InputError(
            f"n_tasks={n_tasks!r} with base={base!r} was given; {n_classes} classes make from 1 to {n_classes} tasks, "
            "and a base task leaves at least one class to each of the others."
        )
    others = n_tasks - (base > 0)
    each, larger = divmod(n_classes - base, others) if others else (0, 0)
    return (base,) * (base > 0) + (each + 1,) * larger + (each,) * (others - larger)


def _whole_numbers(sizes: Iterable[int]) -> tuple[int, ...]:
    try:
        return tuple(operator.index(size) for size in sizes)
    except TypeError as error:
        raise InputError(f"sizes={sizes!r} was given; expected whole numbers, such as (50, 10, 10).") from error


def class_stream(
    dataset: Dataset,
    order: Sequence[Label],
    sizes: Iterable[int],
    *,
    blur: float = 0.0,
    imbalance: float = 1.0,
    seed: int = 0,
) -> Stream:
    """A data set as a stream of tasks.

    Parameters
    ----------
    dataset : Dataset
        Of features or of images; its labels are the names of the classes, as they are, be they numbers or text.
    order : sequence of int or str
        The classes in order of first appearance; one that is not named has no part in the stream.
    sizes : iterable of int
        How many of them each task brings, as :func:`task_sizes` gives it.
    blur : float
        Share, from 0 to 0.9, of each class's training samples that is spread evenly at random over the tasks after its
        first, rounded down; classes of the last task keep all theirs. A class never appears before its own task.
    imbalance : float
        From 1; class i of C keeps ``n · imbalance^(−i / (C − 1))`` of its n training samples, rounded down and at least
        one. It comes before ``blur``; test samples all stay.
    seed : int
        Of both draws. A class draws alike in every order, so that orders are compared on the same samples.

    Examples
    --------
    >>> from gddsg.data import FeatureDataset
    >>> features, labels = np.eye(6, dtype=np.float32), np.array(["a", "a", "b", "b", "c", "c"])
    >>> dataset = FeatureDataset("letters", features, labels, features, labels, ("a", "b", "c"))
    >>> stream = class_stream(dataset, ("c", "a", "b"), (1, 2))
    >>> [task.labels.tolist() for task in stream.tasks()]
    [['c', 'c'], ['a', 'a', 'b', 'b']]
    >>> stream.seen(0)
    ('c',)
    >>> [task.labels.tolist() for task in class_stream(dataset, ("c", "a", "b"), (1, 2), blur=0.5).tasks()]
    [['c'], ['a', 'a', 'b', 'b', 'c']]
    """
    _check_draws(blur, imbalance)
    names = distinct_labels(order, "order")
    counts = task_sizes(len(names), sizes=sizes)
    rows_of = _rows_by_class(dataset.train_labels)
    _check_classes(dataset, names, rows_of)
    ranks = {label: rank for rank, label in enumerate(rows_of)}
    first_task = np.repeat(np.arange(len(counts)), counts)
    shares: list[list[NDArray[np.intp]]] = [[] for _ in counts]
    for place, label in enumerate(names):
        random = np.random.default_rng([seed, ranks[label]])
        kept = random.permutation(rows_of[label])[: _kept(len(rows_of[label]), place, len(names), imbalance)]
        for task, part in _spread(kept, int(first_task[place]), len(counts), blur, random):
            shares[task].append(part)
    rows = tuple(np.sort(np.concatenate(parts)) for parts in shares)
    return Stream(
        names, counts, dataset.test_inputs, dataset.test_labels, dataset.train_inputs, dataset.train_labels, rows
    )


def _kept(n: int, place: int, n_classes: int, imbalance: float) -> int:
    """``n · imbalance^(−place / (n_classes − 1))``, rounded down, at least 1."""
    share = float(imbalance) ** (-place / max(n_classes - 1, 1))
    return max(int(n * share + _ROUNDING), 1)  # 5.0 may come out as 4.999…


def _spread(
    rows: NDArray[np.intp], first: int, n_tasks: int, blur: float, random: np.random.Generator
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Rows of one class by task: most in its first one, a share ``blur`` in later ones."""
    n_later = int(len(rows) * blur + _ROUNDING) if first < n_tasks - 1 else 0
    yield first, rows[n_later:]  # blur is below 1, so that some are left
    if n_later:
        tasks = random.integers(first + 1, n_tasks, n_later)
        yield from ((task, rows[:n_later][tasks == task]) for task in np.unique(tasks).tolist())


def distinct_labels(labels: Iterable[Any], name: str) -> tuple[Label, ...]:
    """Labels as plain numbers or text; an :class:`InputError` if there are none, or one of them twice."""
    found = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    strange = [label for label in found if not isinstance(label, int | str) or isinstance(label, bool)]
    if strange or not found:
        given = repr(strange[0]) if strange else "nothing"
        raise InputError(f"{name}: {given} was given; expected class labels, whole numbers or text.")
    if len(set(found)) != len(found):
        twice = next(label for place, label in enumerate(found) if label in found[:place])
        raise InputError(f"{name}: the class {twice!r} is there twice; expected every class once: drop one of them.")
    return found


def _rows_by_class(labels: NDArray[Any]) -> dict[Label, NDArray[np.intp]]:
    """The places of each class's rows, classes sorted."""
    classes, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    places = np.split(np.argsort(inverse, kind="stable"), np.cumsum(counts)[:-1])
    return dict(zip(classes.tolist(), places, strict=True))


def _check_draws(blur: float, imbalance: float) -> None:
    if not 0 <= blur <= _MOST_BLUR:
        raise InputError(f"blur={blur!r} was given; expected a share from 0 (none) to {_MOST_BLUR}.")
    if not 1 <= imbalance < np.inf:
        raise InputError(f"imbalance={imbalance!r} was given; expected a ratio from 1 (none), such as 100.")


def _check_classes(dataset: Dataset, order: tuple[Label, ...], trained: dict[Label, Any]) -> None:
    """Every class can be learnt and judged: better told now than after hours of learning."""
    for part, known in (("training", set(trained)), ("test", set(np.unique(dataset.test_labels).tolist()))):
        missing = [label for label in order if label not in known]
        if missing:
            raise DataError(
                f"{dataset.name}: {len(missing)} of the {len(order)} classes in the order have no {part} sample, the "
                f"first is {missing[0]!r}. Expected labels as in the data set, such as "
                f"{next(iter(trained), None)!r}; leave such classes out of the order."
            )
