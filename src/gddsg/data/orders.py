"""Class orders: random, by whole tasks, given, sorted by similarity, extreme, or searched with a learner's own results.

Three random orders say little about the range over all orders: Lai et al., "The Lie of the Average: How Class
Incremental Learning Evaluation Deceives You?" (arXiv 2509.22580) look for extreme ones instead. Here this is done on
class prototypes, for tasks of any sizes.

An order is a tuple of labels. Similarities are cosines of prototypes, which are ``(n_classes, feature_dim)`` arrays in
the order of ``classes``; where two candidates tie, the one that comes first in ``classes`` wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gddsg.data.dataset import FeatureDataset
from gddsg.data.stream import distinct_labels, task_sizes
from gddsg.errors import InputError

if TYPE_CHECKING:  # the module of Label imports torch, which data sets do without
    from gddsg.core.label import Label

    Order = tuple[Label, ...]

__all__ = [
    "adjacent_similarity",
    "class_prototypes",
    "dissimilar_order",
    "extreme_order",
    "given_order",
    "permuted_tasks",
    "searched_order",
    "seeded_order",
    "similarity_sorted_order",
]

Extreme = Literal["hardest", "easiest"]
Matrix = NDArray[np.float64]
Places = NDArray[np.intp]

_DECIMALS = 12
_LEAST_GAIN = 1e-9


def seeded_order(classes: Sequence[Label], seed: int) -> Order:
    """The classes as ``RandomState(seed).permutation`` shuffles them.

    Give the classes sorted, and a seed means what it means in the field's published results, such as 1993.

    Examples
    --------
    >>> seeded_order(range(100), 1993)[:5]
    (68, 56, 78, 8, 23)
    """
    names = distinct_labels(classes, "classes")
    # the old generator is meant: a newer one would give other orders for the seeds that papers name
    shuffled = np.random.RandomState(seed).permutation(len(names))
    return tuple(names[place] for place in shuffled)


def given_order(classes: Sequence[Label], wanted: Iterable[Label]) -> Order:
    """The order ``wanted``, if it has every class once and nothing else.

    Examples
    --------
    >>> given_order(["ant", "bee", "cat"], ["cat", "ant", "bee"])
    ('cat', 'ant', 'bee')
    """
    names, order = distinct_labels(classes, "classes"), distinct_labels(wanted, "The order")
    for problem, labels in (
        ("names classes that there are not", [label for label in order if label not in set(names)]),
        ("lacks classes", [label for label in names if label not in set(order)]),
    ):
        if labels:
            raise InputError(
                f"The order {problem}: {len(labels)} of them, the first is {labels[0]!r}. Expected each of the "
                f"{len(names)} classes once, written as in the data set, such as {names[0]!r}."
            )
    return order


def permuted_tasks(order: Sequence[Label], sizes: Iterable[int], seed: int) -> Order:
    """The same tasks in another order, as ``RandomState(seed).permutation`` shuffles them.

    What a task holds stays as it is, so that one task can be followed from order to order. Yoon et al., "Scalable and
    Order-robust Continual Learning with Additive Parameter Decomposition" (ICLR 2020), compare orders in this way.

    Parameters
    ----------
    order : sequence of int or str
        The classes, task by task.
    sizes : iterable of int
        How many each task has: all equally many, or a place in the stream would not hold any task.
    seed : int
        Of the permutation.

    Examples
    --------
    >>> permuted_tasks("aAbBcC", (2, 2, 2), 1)
    ('a', 'A', 'c', 'C', 'b', 'B')
    """
    names = distinct_labels(order, "order")
    counts = task_sizes(len(names), sizes=sizes)
    if len(set(counts)) > 1:
        raise InputError(
            f"Tasks of sizes {counts} were to be permuted; expected tasks of one size. Choose a number of tasks that "
            f"divides the {len(names)} classes."
        )
    shuffled = np.random.RandomState(seed).permutation(len(counts))  # as in seeded_order
    return tuple(names[place] for task in shuffled for place in range(task * counts[0], (task + 1) * counts[0]))


def class_prototypes(dataset: FeatureDataset) -> tuple[Order, Matrix]:
    """Sorted classes of the training part, and the mean feature vector of each, ``(n_classes, feature_dim)``.

    Examples
    --------
    >>> train, test = np.array([[1, 0], [3, 0], [0, 5]], dtype=np.float32), np.zeros((1, 2), dtype=np.float32)
    >>> dataset = FeatureDataset("three", train, np.array(["b", "b", "a"]), test, np.array(["a"]), ("a", "b"))
    >>> classes, prototypes = class_prototypes(dataset)
    >>> classes, prototypes.tolist()
    (('a', 'b'), [[0.0, 5.0], [2.0, 0.0]])
    """
    classes = np.unique(dataset.train_labels)
    # class by class: sorting all rows by class would copy the data set
    means = [dataset.train_features[dataset.train_labels == c].mean(0, dtype=np.float64) for c in classes]
    return tuple(classes.tolist()), np.stack(means)


def adjacent_similarity(
    order: Sequence[Label], sizes: Iterable[int], classes: Sequence[Label], prototypes: ArrayLike
) -> float:
    """Mean over neighbouring tasks of the mean cosine between their classes; NaN for a single task.

    Examples
    --------
    >>> round(adjacent_similarity("acbd", (1, 1, 1, 1), "abcd", [[1, 0], [1, 0], [0, 1], [0, 1]]), 2)
    0.0
    >>> round(adjacent_similarity("abcd", (1, 1, 1, 1), "abcd", [[1, 0], [1, 0], [0, 1], [0, 1]]), 2)
    0.67
    """
    names, similarity = _similarities(classes, prototypes)
    counts = task_sizes(len(names), sizes=sizes)
    place_of = {label: place for place, label in enumerate(names)}
    places = np.array([place_of[label] for label in given_order(names, order)], dtype=np.intp)
    if len(counts) == 1:
        return float("nan")
    return float(np.diagonal(_between(similarity, _cut(places, counts)), 1).mean())


def similarity_sorted_order(classes: Sequence[Label], prototypes: ArrayLike) -> Order:
    """An order in which neighbours look alike, so that a task of any size holds classes that are hard to tell apart.

    These are the leaves of an average-linkage tree on cosine distance, turned so that neighbouring leaves are as alike
    as the tree allows (Bar-Joseph et al., 2001).

    Examples
    --------
    >>> similarity_sorted_order(["cat", "car", "dog", "bus"], [[9, 1], [1, 9], [8, 2], [2, 8]])
    ('cat', 'dog', 'bus', 'car')
    """
    names, similarity = _similarities(classes, prototypes)
    return tuple(names[place] for place in _chain(similarity))


def dissimilar_order(classes: Sequence[Label], prototypes: ArrayLike, sizes: Iterable[int]) -> Order:
    """An order whose tasks hold classes as unlike as possible.

    Look-alikes are dealt to different tasks, then classes are swapped for as long as this lowers the sum of cosines
    between classes of one task. No single swap improves the result; a global optimum it need not be.

    Examples
    --------
    >>> dissimilar_order(["cat", "car", "dog", "bus"], [[9, 1], [1, 9], [8, 2], [2, 8]], (2, 2))
    ('dog', 'bus', 'cat', 'car')
    """
    names, similarity = _similarities(classes, prototypes)
    counts = task_sizes(len(names), sizes=sizes)
    return tuple(names[place] for place in _mixed(similarity, counts))


def extreme_order(classes: Sequence[Label], prototypes: ArrayLike, sizes: Iterable[int], kind: Extreme) -> Order:
    """The order expected to be hardest or easiest: neighbouring tasks as unlike, or as alike, as can be found.

    Candidates are clusterings of the classes (complete linkage, once of like and once of unlike classes, with several
    numbers of clusters), strung together and cut to the task sizes, and the tasks of :func:`similarity_sorted_order`
    and :func:`dissimilar_order`. The tasks of each are taken as they come and in a greedy order from every
    possible first one; a task only takes a place of its own size. The candidate of least (hardest) or greatest
    (easiest) :func:`adjacent_similarity` is improved by swaps of two classes for as long as there is one that helps,
    which matters when tasks differ in size. That accuracy rises with this similarity is an observation of
    the paper named above, not a law; :func:`searched_order` asks a learner itself.

    Examples
    --------
    >>> prototypes = [[9, 1], [1, 9], [8, 2], [2, 8]]
    >>> extreme_order(["cat", "car", "dog", "bus"], prototypes, (1, 1, 1, 1), "hardest")
    ('dog', 'car', 'cat', 'bus')
    >>> extreme_order(["cat", "car", "dog", "bus"], prototypes, (1, 1, 1, 1), "easiest")
    ('cat', 'dog', 'bus', 'car')
    """
    if kind not in get_args(Extreme):
        raise InputError(f"kind={kind!r} was given; expected one of {', '.join(get_args(Extreme))}.")
    names, similarity = _similarities(classes, prototypes)
    counts = task_sizes(len(names), sizes=sizes)
    sign = 1.0 if kind == "hardest" else -1.0
    found = [_greedy_path(sign * _between(similarity, tasks), tasks) for tasks in _candidates(similarity, counts)]
    best = min(found, key=lambda candidate: candidate[0])[1]  # the first of equals
    task_of = np.empty(len(names), dtype=np.intp)
    task_of[np.concatenate(best)] = np.repeat(np.arange(len(counts)), counts)
    task_of = _swapped(similarity, task_of, sign * _adjacency(counts))
    return tuple(names[place] for place in np.argsort(task_of, kind="stable"))


def searched_order(
    start: Sequence[Label], sizes: Iterable[int], score: Callable[[Order], float], steps: int, seed: int = 0
) -> tuple[Order, tuple[float, ...]]:
    """The best order a local search finds, and the best score so far after each step, the start's first.

    A step swaps two classes of different tasks, or two tasks of equal size, and is taken back unless the score gets
    lower. ``score`` is called ``steps + 1`` times; it may run the learner itself: its final accuracy as the score
    looks for the worst order, minus that for the best.

    Examples
    --------
    >>> order, scores = searched_order("dcba", (1, 1, 1, 1), lambda order: sum(order.index(c) for c in "ab"), 30)
    >>> sorted(order[:2]), scores[0], scores[-1]
    (['a', 'b'], 5.0, 1.0)
    """
    best = distinct_labels(start, "start")
    counts = task_sizes(len(best), sizes=sizes)
    if steps < 0 or len(counts) < 2:
        raise InputError(
            f"steps={steps!r} and sizes={counts} were given; expected steps from 0 and at least two tasks: the "
            "order of classes within a task does not matter."
        )
    random = np.random.default_rng(seed)
    scores = [_score(score, best)]
    for _ in range(steps):
        order = tuple(best[place] for place in _neighbour(counts, random))
        found = _score(score, order)
        best = order if found < scores[-1] else best
        scores.append(min(found, scores[-1]))
    return best, tuple(scores)


# Steps of a search.


def _score(score: Callable[[Order], float], order: Order) -> float:
    found = float(score(order))
    if np.isnan(found):
        raise InputError("score returned NaN for an order; expected a number, lower for what is looked for.")
    return found


def _neighbour(sizes: tuple[int, ...], random: np.random.Generator) -> Places:
    """Places ``(n_classes,)`` after swapping two tasks of equal size or two classes of different tasks."""
    task_of = np.repeat(np.arange(len(sizes)), sizes)
    places = np.arange(len(task_of))
    one = random.integers(len(places))
    rivals = np.flatnonzero(task_of != task_of[one])
    other = random.choice(rivals)
    twins = rivals[np.asarray(sizes)[task_of[rivals]] == sizes[task_of[one]]]
    if len(twins) and random.random() < 0.5:
        a, b = places[task_of == task_of[one]], places[task_of == task_of[random.choice(twins)]]
        places[a], places[b] = b, a
    else:
        places[[one, other]] = places[[other, one]]
    return places


# Similar classes.


def _similarities(classes: Sequence[Label], prototypes: ArrayLike) -> tuple[Order, Matrix]:
    """The classes, and the cosines ``(n_classes, n_classes)`` of their prototypes; a zero vector is like nothing."""
    names, vectors = distinct_labels(classes, "classes"), np.asarray(prototypes, dtype=np.float64)
    if vectors.ndim != 2 or len(vectors) != len(names) or not np.isfinite(vectors).all():
        raise InputError(
            f"Prototypes of shape {vectors.shape} were given for {len(names)} classes; expected (n_classes, "
            "feature_dim), finite numbers, one row a class."
        )
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.where(norms > 0, norms, 1.0)
    cosines = np.clip(units @ units.T, -1.0, 1.0)
    # the last bits differ from machine to machine and must not decide which of two equals comes first
    return names, np.round((cosines + cosines.T) / 2, _DECIMALS)


def _chain(similarity: Matrix) -> Places:
    """Places ``(n_classes,)`` with like classes side by side, starting at the end that comes first in ``classes``."""
    if len(similarity) == 1:
        return np.zeros(1, dtype=np.intp)
    from scipy.cluster.hierarchy import leaves_list, linkage  # takes longer to import than the rest of this package

    leaves: Places = leaves_list(linkage(_condensed(1 - similarity), "average", optimal_ordering=True))
    return leaves if leaves[0] < leaves[-1] else leaves[::-1]


def _condensed(distances: Matrix) -> Matrix:
    """The upper triangle, row by row, as SciPy wants distances."""
    return distances[np.triu_indices(len(distances), 1)]


# Unlike classes in one task.


def _mixed(similarity: Matrix, sizes: tuple[int, ...]) -> Places:
    """Places ``(n_classes,)`` with unlike classes in each task."""
    return np.argsort(_swapped(similarity, _dealt(similarity, sizes), np.eye(len(sizes))), kind="stable")


def _dealt(similarity: Matrix, sizes: tuple[int, ...]) -> Places:
    """Tasks ``(n_classes,)`` of the classes: one after the other goes where it finds least similar company."""
    task_of = np.full(len(similarity), -1, dtype=np.intp)
    room, company = np.array(sizes), np.zeros((len(similarity), len(sizes)))
    for place in _chain(similarity):
        task = int(np.argmin(np.where(room > 0, company[place], np.inf)))
        task_of[place] = task
        room[task] -= 1
        company[:, task] += similarity[:, place]
    return task_of


def _swapped(similarity: Matrix, task_of: Places, weights: Matrix) -> Places:
    """Tasks ``(n_classes,)`` after swaps of two classes, until none lowers the cost.

    The cost is ``Σ_ij weights[t_i, t_j] · similarity[i, j]``: ``weights``, ``(n_tasks, n_tasks)`` and symmetric, says
    what similarity costs within a task and between tasks.
    """
    task_of, everyone = task_of.copy(), np.arange(len(task_of))
    price = similarity @ weights[task_of]  # (n_classes, n_tasks): half of what a class costs in a task
    own_weight, own_similarity = np.diagonal(weights), np.diagonal(similarity)
    improved = True
    while improved:
        improved = False
        for one in everyone.tolist():
            task = int(task_of[one])
            change = price[one, task_of] - price[one, task] + price[:, task] - price[everyone, task_of]
            # the two meet each other no longer, or elsewhere
            apart = (own_similarity[one] + own_similarity) / 2 - similarity[one]
            change += apart * (own_weight[task] + own_weight[task_of] - 2 * weights[task, task_of])
            other = int(np.argmin(np.where(task_of == task, np.inf, change)))
            if task_of[other] != task and change[other] < -_LEAST_GAIN:
                difference = weights[task] - weights[task_of[other]]
                touched = np.flatnonzero(difference)
                price[:, touched] += np.outer(similarity[:, other] - similarity[:, one], difference[touched])
                task_of[[one, other]] = task_of[[other, one]]
                improved = True
    return task_of


# Extreme orders.


def _candidates(similarity: Matrix, sizes: tuple[int, ...]) -> Iterator[list[Places]]:
    """Different ways to part the classes into tasks of these sizes."""
    seen = set()
    for places in (*_clusterings(similarity, len(sizes)), _chain(similarity), _mixed(similarity, sizes)):
        tasks = _cut(places, sizes)
        parts = frozenset(frozenset(task.tolist()) for task in tasks)
        if parts not in seen:
            seen.add(parts)
            yield tasks


def _clusterings(similarity: Matrix, n_tasks: int) -> Iterator[Places]:
    """Places ``(n_classes,)`` with the members of a cluster side by side, large clusters first."""
    n_classes = len(similarity)
    if n_classes == 1:
        return
    from scipy.cluster.hierarchy import fcluster, linkage  # takes longer to import than the rest of this package

    numbers = sorted({2**power for power in range(1, n_classes.bit_length())} | {n_tasks})
    for distances in (1 - similarity, 1 + similarity):  # clusters of like classes, then of unlike ones
        tree = linkage(_condensed(distances), "complete")
        for number in numbers:
            yield _strung(np.unique(fcluster(tree, number, "maxclust"), return_inverse=True)[1])


def _strung(cluster_of: Places) -> Places:
    n_members = np.bincount(cluster_of)
    first = np.array([np.argmax(cluster_of == cluster) for cluster in range(len(n_members))])
    return np.lexsort((np.arange(len(cluster_of)), first[cluster_of], -n_members[cluster_of]))


def _cut(places: Places, sizes: tuple[int, ...]) -> list[Places]:
    return np.split(places, np.cumsum(sizes)[:-1])


def _between(similarity: Matrix, tasks: list[Places]) -> Matrix:
    """Mean similarity ``(n_tasks, n_tasks)`` between the classes of two tasks."""
    belongs = np.zeros((len(similarity), len(tasks)))
    for task, members in enumerate(tasks):
        belongs[members, task] = 1 / len(members)
    return np.round(belongs.T @ similarity @ belongs, _DECIMALS)


def _adjacency(sizes: tuple[int, ...]) -> Matrix:
    """Weights ``(n_tasks, n_tasks)`` that turn similarities of classes into means between neighbouring tasks."""
    shares = 1 / np.array(sizes, dtype=np.float64)
    above = np.diag(shares[:-1] * shares[1:], 1)
    return np.asarray(above + above.T)


def _greedy_path(costs: Matrix, tasks: list[Places]) -> tuple[float, list[Places]]:
    """Cost and tasks of the cheapest path: greedy ones from every possible first task, and the tasks as they are.

    ``costs[a, b]`` is that of having b after a. A task keeps to the places of its own size.
    """
    sizes = np.array([len(task) for task in tasks])
    paths = np.empty((int((sizes == sizes[0]).sum()), len(tasks)), dtype=np.intp)
    paths[:, 0] = np.flatnonzero(sizes == sizes[0])
    every = np.arange(len(paths))
    free = np.ones(paths.shape, dtype=bool)
    free[every, paths[:, 0]] = False
    totals = np.zeros(len(paths))
    for step in range(1, len(tasks)):
        prices = np.where(free & (sizes == sizes[step]), costs[paths[:, step - 1]], np.inf)
        paths[:, step] = prices.argmin(1)
        free[every, paths[:, step]] = False
        totals += prices[every, paths[:, step]]
    totals = np.round([*totals, np.diagonal(costs, 1).sum()], _DECIMALS - 2)
    best = int(totals.argmin())
    return float(totals[best]), [tasks[task] for task in np.vstack([paths, np.arange(len(tasks))])[best]]
