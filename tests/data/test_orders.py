"""Orders hold every class once, do what their names say, and are the same every time."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gddsg.data import (
    FeatureDataset,
    adjacent_similarity,
    class_prototypes,
    dissimilar_order,
    extreme_order,
    given_order,
    permuted_tasks,
    searched_order,
    seeded_order,
    similarity_sorted_order,
    task_sizes,
)
from gddsg.errors import InputError


def families(n_families, n_members, noise=0.3, seed=0):
    """Prototypes of look-alike families; class ``f + n_families · m`` is member m of family f, so members are apart."""
    random = np.random.default_rng(seed)
    centres = np.eye(n_families)
    return np.tile(centres, (n_members, 1)) + noise * random.normal(size=(n_families * n_members, n_families))


def within(order, sizes, prototypes):
    """Sum of cosines between classes of one task."""
    units = prototypes / np.linalg.norm(prototypes, axis=1, keepdims=True)
    cosines, ends = units @ units.T, np.cumsum(sizes)
    tasks = [order[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    return sum(cosines[a, b] for task in tasks for a, b in combinations(task, 2))


# Random and given orders.


def test_seed_1993_is_the_order_of_the_field():
    """The CIFAR-100 order that class-incremental papers have used since iCaRL begins like this."""
    assert seeded_order(range(100), 1993)[:10] == (68, 56, 78, 8, 23, 84, 90, 65, 74, 76)


def test_a_seed_shuffles_places_whatever_the_names():
    names = [f"class {number:03}" for number in range(100)]
    assert seeded_order(names, 7) == tuple(names[place] for place in seeded_order(range(100), 7))
    assert seeded_order(names, 7) != seeded_order(names, 8)


def test_labels_come_out_plain():
    assert [type(label) for label in seeded_order(np.arange(3), 0)] == [int] * 3
    assert [type(label) for label in seeded_order(np.array(["a", "b"]), 0)] == [str] * 2


def test_a_given_order_is_kept():
    assert given_order(("a", "b", "c"), iter("cab")) == ("c", "a", "b")
    assert given_order(range(3), np.array([2, 0, 1])) == (2, 0, 1)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["a", "b"], "lacks classes: 1 of them, the first is 'c'"),
        (["a", "b", "c", "x"], "that there are not: 1 of them, the first is 'x'"),
        (["a", "b", "b", "c"], "'b' is there twice"),
        (["a", "b", 2], "that there are not.*first is 2"),
        ([], "nothing was given"),
        ([["a"], "b", "c"], "expected class labels"),
    ],
)
def test_a_given_order_that_does_not_fit_is_refused(wanted, message):
    with pytest.raises(InputError, match=message):
        given_order(["a", "b", "c"], wanted)


# Fixed tasks.


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_permuted_tasks_keep_their_classes(n_tasks, size, seed):
    order = seeded_order([f"class {c}" for c in range(n_tasks * size)], 1993)
    cut = [order[start : start + size] for start in range(0, len(order), size)]
    permuted = permuted_tasks(order, (size,) * n_tasks, seed)
    assert [permuted[start : start + size] for start in range(0, len(order), size)] == [
        cut[task] for task in np.random.RandomState(seed).permutation(n_tasks)
    ]


def test_a_seed_permutes_tasks_whatever_they_hold():
    numbers, letters = permuted_tasks(range(6), (2, 2, 2), 3), permuted_tasks("abcdef", (2, 2, 2), 3)
    assert letters == tuple("abcdef"[number] for number in numbers)
    assert len({permuted_tasks(range(20), (2,) * 10, seed) for seed in range(20)}) == 20


@pytest.mark.parametrize(
    ("order", "sizes", "message"),
    [
        ("abc", (2, 1), "of one size. Choose a number of tasks that divides the 3 classes"),
        ("abc", (2, 2), "add up to the 3 classes"),
        ("aba", (1, 1, 1), "'a' is there twice"),
    ],
)
def test_tasks_that_cannot_be_permuted_are_refused(order, sizes, message):
    with pytest.raises(InputError, match=message):
        permuted_tasks(order, sizes, 0)


# Prototypes.


def test_prototypes_are_means_of_the_training_part_alone():
    random = np.random.default_rng(0)
    train, labels = random.normal(size=(30, 4)).astype(np.float32), random.permutation(np.repeat(["b", "a", "c"], 10))
    test = np.full((2, 4), 1e6, dtype=np.float32)
    dataset = FeatureDataset("three", train, labels, test, np.array(["a", "d"]), ("a", "b", "c", "d"))
    classes, prototypes = class_prototypes(dataset)
    assert classes == ("a", "b", "c")
    assert prototypes.dtype == np.float64
    for label, prototype in zip(classes, prototypes, strict=True):
        assert prototype == pytest.approx(train[labels == label].astype(float).mean(0))


# Similar and dissimilar tasks.


def test_sorted_order_keeps_families_together():
    order = similarity_sorted_order(range(20), families(4, 5))
    tasks = [{label % 4 for label in order[start : start + 5]} for start in range(0, 20, 5)]
    assert all(len(task) == 1 for task in tasks)


def test_sorted_order_follows_an_arc():
    angles = np.random.default_rng(0).permutation(np.linspace(0, 1.5, 12))
    order = similarity_sorted_order(range(12), np.stack([np.cos(angles), np.sin(angles)], 1))
    assert list(order) in (np.argsort(angles).tolist(), np.argsort(-angles).tolist())
    assert order[0] < order[-1]


def test_dissimilar_order_parts_families():
    order = dissimilar_order(range(20), families(4, 5), (4,) * 5)
    assert all({label % 4 for label in order[start : start + 4]} == {0, 1, 2, 3} for start in range(0, 20, 4))


@pytest.mark.parametrize("seed", range(5))
def test_dissimilar_order_is_as_good_as_all_orders_tried(seed):
    prototypes, sizes = np.random.default_rng(seed).normal(size=(7, 3)), (3, 2, 2)
    best = min(within(order, sizes, prototypes) for order in permutations(range(7)))
    found = within(dissimilar_order(range(7), prototypes, sizes), sizes, prototypes)
    typical = np.mean([within(seeded_order(range(7), s), sizes, prototypes) for s in range(50)])
    assert found <= best + 0.25 * (typical - best)


def test_no_swap_improves_a_dissimilar_order():
    prototypes, sizes = np.random.default_rng(3).normal(size=(18, 5)) + 0.5, (8, 5, 5)
    order = list(dissimilar_order(range(18), prototypes, sizes))
    found = within(order, sizes, prototypes)
    for one, other in combinations(range(18), 2):
        swapped = order.copy()
        swapped[one], swapped[other] = order[other], order[one]
        assert within(swapped, sizes, prototypes) >= found - 1e-8


# Extreme orders.


def test_adjacent_similarity_by_hand():
    prototypes = [[1, 0], [0, 2], [3, 3]]
    # cosines: 0 between the first two, √½ between the third and either
    assert adjacent_similarity((0, 1, 2), (1, 1, 1), range(3), prototypes) == pytest.approx(np.sqrt(0.5) / 2)
    assert adjacent_similarity((0, 2, 1), (1, 1, 1), range(3), prototypes) == pytest.approx(np.sqrt(0.5))
    assert adjacent_similarity((0, 1, 2), (1, 2), range(3), prototypes) == pytest.approx(np.sqrt(0.5) / 2)
    assert np.isnan(adjacent_similarity((0, 1, 2), (3,), range(3), prototypes))


@pytest.mark.parametrize(
    "sizes", [(5,) * 8, (1,) * 40, (20, 4, 4, 4, 4, 4), (7, 13, 1, 19), (20, 20)], ids=lambda sizes: f"{len(sizes)}"
)
@pytest.mark.parametrize("seed", range(3))
def test_extremes_lie_beyond_random_and_sorted_orders(sizes, seed):
    classes, prototypes = range(40), families(8, 5, noise=0.4, seed=seed) + 0.1
    orders = [seeded_order(classes, s) for s in range(100)]
    orders += [similarity_sorted_order(classes, prototypes), dissimilar_order(classes, prototypes, sizes)]
    typical = [adjacent_similarity(order, sizes, classes, prototypes) for order in orders]
    hardest, easiest = (extreme_order(classes, prototypes, sizes, kind) for kind in ("hardest", "easiest"))
    assert adjacent_similarity(hardest, sizes, classes, prototypes) <= min(typical)
    assert adjacent_similarity(easiest, sizes, classes, prototypes) >= max(typical) - 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_extremes_are_near_those_of_all_orders(seed):
    classes, prototypes, sizes = range(6), np.random.default_rng(seed).normal(size=(6, 4)), (2, 2, 2)
    every = [adjacent_similarity(order, sizes, classes, prototypes) for order in permutations(classes)]
    low, high, share = min(every), max(every), 0.15 * np.ptp(every)
    hardest, easiest = (extreme_order(classes, prototypes, sizes, kind) for kind in ("hardest", "easiest"))
    assert low - 1e-9 <= adjacent_similarity(hardest, sizes, classes, prototypes) <= low + share
    assert high - share <= adjacent_similarity(easiest, sizes, classes, prototypes) <= high + 1e-9


@pytest.mark.parametrize(("kind", "sign"), [("hardest", 1), ("easiest", -1)])
def test_no_swap_improves_an_extreme_order(kind, sign):
    classes, prototypes, sizes = range(14), np.random.default_rng(4).normal(size=(14, 5)) + 0.5, (6, 3, 4, 1)
    order = list(extreme_order(classes, prototypes, sizes, kind))
    found = adjacent_similarity(order, sizes, classes, prototypes)
    for one, other in combinations(classes, 2):
        swapped = order.copy()
        swapped[one], swapped[other] = order[other], order[one]
        assert sign * (adjacent_similarity(swapped, sizes, classes, prototypes) - found) >= -1e-8


@pytest.mark.parametrize("kind", ["hard", "", None])
def test_an_unknown_extreme_is_refused(kind):
    with pytest.raises(InputError, match="one of hardest, easiest"):
        extreme_order(range(2), np.eye(2), (1, 1), kind)


# What all orders from prototypes share.

FROM_PROTOTYPES = {
    "sorted": lambda classes, prototypes, sizes: similarity_sorted_order(classes, prototypes),
    "dissimilar": dissimilar_order,
    "hardest": lambda *arguments: extreme_order(*arguments, "hardest"),
    "easiest": lambda *arguments: extreme_order(*arguments, "easiest"),
}
every_method = pytest.mark.parametrize("method", FROM_PROTOTYPES.values(), ids=FROM_PROTOTYPES)


@every_method
@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 12), st.integers(0, 100), st.data())
def test_every_class_comes_once_and_names_change_nothing(method, n_classes, seed, data):
    # few whole numbers: ties, equal prototypes and zero vectors are common
    prototypes = np.random.default_rng(seed).integers(-1, 2, size=(n_classes, 3))
    sizes = task_sizes(n_classes, data.draw(st.integers(1, n_classes)))
    order = method(range(n_classes), prototypes, sizes)
    assert sorted(order) == list(range(n_classes))
    names = [f"name {(5 * label) % 13}" for label in range(n_classes)]
    assert method(names, prototypes.tolist(), sizes) == tuple(names[label] for label in order)


@every_method
def test_length_of_prototypes_does_not_matter(method):
    prototypes = families(4, 3)
    lengths = np.random.default_rng(0).uniform(0.1, 10, size=(12, 1))
    assert method(range(12), prototypes, (6, 3, 3)) == method(range(12), lengths * prototypes, (6, 3, 3))


@every_method
@pytest.mark.parametrize("prototypes", [np.eye(2), np.ones(3), [[1.0], [np.nan], [2.0]]], ids=["rows", "1-D", "NaN"])
def test_prototypes_that_do_not_fit_are_refused(method, prototypes):
    with pytest.raises(InputError, match="for 3 classes"):
        method(range(3), prototypes, (2, 1))


@pytest.mark.parametrize("method", [FROM_PROTOTYPES[name] for name in ("dissimilar", "hardest", "easiest")])
def test_sizes_that_do_not_fit_are_refused(method):
    with pytest.raises(InputError, match="add up to the 3 classes"):
        method(range(3), np.eye(3), (2, 2))


# Search.


def misplaced(order):
    """How far the labels 0, 1, 2, … are from their sorted places."""
    return sum(abs(place - label) for place, label in enumerate(order))


def test_search_gets_lower_step_by_step():
    start, asked = tuple(reversed(range(10))), []
    order, scores = searched_order(start, (2,) * 5, lambda order: asked.append(order) or misplaced(order), 300)
    assert len(scores) == len(asked) == 301
    assert asked[0] == start
    assert scores[0] == misplaced(start)
    assert scores[-1] == misplaced(order) == min(map(misplaced, asked)) < scores[0] / 2
    assert (np.diff(scores) <= 0).all()
    assert all(sorted(tried) == list(range(10)) for tried in asked)


def test_search_finds_the_best_of_few():
    wanted = ({4, 1}, {0, 5}, {2, 3})

    def wrong(order):
        return sum(len(set(order[2 * task : 2 * task + 2]) - wanted[task]) for task in range(3))

    assert searched_order(range(6), (2, 2, 2), wrong, 200)[1][-1] == 0


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (1, 2, 5), (1,) * 8, (4, 2, 2)], ids=str)
def test_steps_swap_classes_of_different_tasks_or_tasks_of_one_size(sizes):
    start, tried = tuple(range(8)), []
    searched_order(start, sizes, lambda order: tried.append(order) or 0.0, 200)
    assert set(tried) != {start}
    tasks = np.split(np.arange(8), np.cumsum(sizes)[:-1])
    sets = {frozenset(task.tolist()) for task in tasks}
    whole = 0
    for order in tried[1:]:  # never better, so that every step starts at the start
        moved = [place for place in range(8) if order[place] != start[place]]
        hit = [task for task in tasks if set(task.tolist()) & set(moved)]
        assert len(hit) == 2
        swapped = {frozenset(np.array(order)[task].tolist()) for task in tasks} == sets
        assert swapped or len(moved) == 2
        whole += swapped and len(moved) > 2
    assert (whole > 0) == (sizes in {(2, 2, 2, 2), (4, 2, 2)})


def test_a_seed_fixes_the_search():
    first, again, other = (searched_order(range(9), (3, 3, 3), misplaced_squares, 40, seed) for seed in (5, 5, 6))
    assert first == again
    assert first[1] != other[1]


def misplaced_squares(order):
    return -sum((place - label) ** 2 for place, label in enumerate(order))


def test_no_steps_score_the_start():
    assert searched_order("ab", (1, 1), lambda order: 3, 0) == (("a", "b"), (3.0,))


@pytest.mark.parametrize(
    ("start", "sizes", "score", "steps", "message"),
    [
        ("ab", (2,), misplaced, 1, "at least two tasks"),
        ("ab", (1, 1), misplaced, -1, "steps from 0"),
        ("ab", (1, 2), lambda order: 0.0, 1, "add up"),
        ("aa", (1, 1), lambda order: 0.0, 1, "twice"),
        ("ab", (1, 1), lambda order: float("nan"), 1, "NaN"),
    ],
)
def test_a_search_that_cannot_be_is_refused(start, sizes, score, steps, message):
    with pytest.raises(InputError, match=message):
        searched_order(start, sizes, score, steps)
