"""Streams hand out every training sample once, in the tasks they promise, and nothing a learner should not see."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gddsg.data import FeatureDataset, Stream, Task, class_stream, seeded_order, task_sizes
from gddsg.errors import DataError, InputError


def dataset_of(counts, names=None, n_test=2, seed=0):
    """A data set with ``counts[i]`` training samples of class i, shuffled; the one feature is the row's number."""
    labels = np.repeat(np.arange(len(counts)), counts)
    labels = np.random.default_rng(seed).permutation(labels)
    tests = np.repeat(np.arange(len(counts)), n_test)
    if names is not None:
        labels, tests = np.array(names)[labels], np.array(names)[tests]
    rows = np.arange(len(labels), dtype=np.float32)[:, None]
    classes = tuple(names or map(str, range(len(counts))))
    return FeatureDataset("rows", rows, labels, np.zeros((len(tests), 1), dtype=np.float32), tests, classes)


def rows_of(task):
    return task.inputs[:, 0].astype(int).tolist()


def own_rows(task, label):
    return [row for row, found in zip(rows_of(task), task.labels.tolist(), strict=True) if found == label]


# Sizes.


@pytest.mark.parametrize(
    ("arguments", "options", "expected"),
    [
        ((10, 5), {}, (2, 2, 2, 2, 2)),
        ((10, 3), {}, (4, 3, 3)),
        ((4, 4), {}, (1, 1, 1, 1)),
        ((7, 1), {}, (7,)),
        ((100, 6), {"base": 50}, (50, 10, 10, 10, 10, 10)),
        ((10, 4), {"base": 3}, (3, 3, 2, 2)),
        ((5, 1), {"base": 5}, (5,)),
        ((6,), {"sizes": [1, 3, 2]}, (1, 3, 2)),
        ((6,), {"sizes": np.array([5, 1])}, (5, 1)),
        ((6,), {"sizes": (size for size in (4, 2))}, (4, 2)),
    ],
)
def test_sizes_by_hand(arguments, options, expected):
    sizes = task_sizes(*arguments, **options)
    assert sizes == expected
    assert all(type(size) is int for size in sizes)


@given(st.integers(1, 300), st.data())
def test_equal_sizes_are_those_of_array_split(n_classes, data):
    n_tasks = data.draw(st.integers(1, n_classes))
    assert task_sizes(n_classes, n_tasks) == tuple(len(part) for part in np.array_split(range(n_classes), n_tasks))


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((10,), {}),
        ((10, 2), {"sizes": (5, 5)}),
        ((10,), {"sizes": (5, 5), "base": 5}),
        ((10, 0), {}),
        ((10, 11), {}),
        ((0, 0), {}),
        ((10, 2), {"base": -1}),
        ((10, 2), {"base": 10}),
        ((10, 1), {"base": 4}),
        ((10, 8), {"base": 4}),
        ((10,), {"sizes": (5, 4)}),
        ((10,), {"sizes": (5, 0, 5)}),
        ((10,), {"sizes": (12, -2)}),
        ((10,), {"sizes": (5.0, 5.0)}),
        ((0,), {"sizes": ()}),
    ],
)
def test_sizes_that_do_not_fit_are_refused(arguments, options):
    with pytest.raises(InputError, match=r"expected|make from"):
        task_sizes(*arguments, **options)


# Tasks.


def test_tasks_hold_their_classes_and_the_rows_of_the_data_set():
    dataset = dataset_of([3, 2, 4], names=["ant", "bee", "cat"])
    stream = class_stream(dataset, ("cat", "ant", "bee"), (2, 1))
    first, second = stream.tasks()
    assert set(first.labels) == {"cat", "ant"}
    assert set(second.labels) == {"bee"}
    for task in (first, second):
        assert rows_of(task) == sorted(rows_of(task))
        assert (dataset.train_labels[rows_of(task)] == task.labels).all()
        assert task.inputs.dtype == np.float32
    assert stream.order == ("cat", "ant", "bee")
    assert stream.sizes == (2, 1)


@settings(deadline=None, derandomize=True)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.1, 0.5, 0.9]),
    st.integers(0, 5),
    st.data(),
)
def test_every_sample_arrives_once_and_no_class_too_early(counts, blur, seed, data):
    dataset, n_tasks = dataset_of(counts), data.draw(st.integers(1, len(counts)))
    sizes = task_sizes(len(counts), n_tasks)
    stream = class_stream(dataset, seeded_order(range(len(counts)), seed), sizes, blur=blur, seed=seed)
    tasks, so_far = list(stream.tasks()), set()
    assert len(tasks) == n_tasks
    assert sorted(row for task in tasks for row in rows_of(task)) == list(range(sum(counts)))
    for step, task in enumerate(tasks):
        so_far |= set(task.labels.tolist())
        assert so_far == set(stream.seen(step))
    assert stream.seen(n_tasks - 1) == stream.order


def test_tasks_are_built_lazily_and_can_be_asked_for_again():
    stream = class_stream(dataset_of([4, 4]), (0, 1), (1, 1))
    tasks = stream.tasks()
    assert iter(tasks) is tasks
    kept = next(tasks)
    kept.inputs[:] = -1  # a learner that spoils its input spoils its own copy
    assert min(rows_of(next(stream.tasks()))) >= 0


def test_a_task_tells_nothing_but_inputs_and_labels():
    assert [field.name for field in dataclasses.fields(Task)] == ["inputs", "labels"]


def test_the_training_part_is_not_copied_and_the_test_part_is_whole():
    dataset = dataset_of([4, 4, 4])
    stream = class_stream(dataset, (2, 0), (1, 1))
    assert isinstance(stream, Stream)
    assert stream.train_inputs is dataset.train_features
    assert stream.test_inputs is dataset.test_features
    assert stream.test_labels is dataset.test_labels
    assert {label for task in stream.tasks() for label in task.labels.tolist()} == {0, 2}


def test_order_comes_out_as_plain_labels():
    stream = class_stream(dataset_of([2, 2]), np.array([1, 0]), (1, 1))
    assert [type(label) for label in stream.order] == [int, int]
    names = class_stream(dataset_of([2, 2], names=["a", "b"]), np.array(["b", "a"]), (1, 1))
    assert [type(label) for label in names.order] == [str, str]


@pytest.mark.parametrize("step", [-1, 2])
def test_there_is_nothing_seen_beyond_the_tasks(step):
    with pytest.raises(InputError, match="from 0 to 1"):
        class_stream(dataset_of([2, 2]), (0, 1), (1, 1)).seen(step)


# Classes that come back.


def test_blur_moves_its_share_to_later_tasks():
    dataset = dataset_of([40, 40, 40, 40])
    tasks = list(class_stream(dataset, (3, 1, 0, 2), (1, 1, 1, 1), blur=0.3).tasks())
    per_task = np.array([np.bincount(task.labels, minlength=4) for task in tasks])
    assert per_task[:, 3][0] == 28
    assert per_task[:, 1][:2].tolist() == [0, 28]
    assert per_task[:, 0].tolist() == [0, 0, 28, 12]
    assert per_task[:, 2].tolist() == [0, 0, 0, 40]
    assert (per_task[1:, 3] > 0).all()  # over all later tasks, not only the next


def test_draws_follow_the_seed_and_not_the_order():
    dataset, sizes = dataset_of([30, 30, 30]), (1, 1, 1)
    first = list(class_stream(dataset, (0, 1, 2), sizes, blur=0.5, seed=1).tasks())
    again = list(class_stream(dataset, (0, 1, 2), sizes, blur=0.5, seed=1).tasks())
    other = list(class_stream(dataset, (0, 1, 2), sizes, blur=0.5, seed=2).tasks())
    moved = list(class_stream(dataset, (1, 2, 0), sizes, blur=0.5, seed=1).tasks())
    assert list(map(rows_of, first)) == list(map(rows_of, again))
    assert list(map(rows_of, first)) != list(map(rows_of, other))
    assert own_rows(first[1], 1) == own_rows(moved[0], 1)


def test_the_global_random_state_is_left_alone():
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    class_stream(dataset_of([5, 5]), seeded_order((0, 1), 1993), (1, 1), blur=0.5)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


# A long tail.


def test_imbalance_by_hand():
    dataset = dataset_of([500] * 3)
    tasks = list(class_stream(dataset, (2, 0, 1), (1, 1, 1), imbalance=100).tasks())
    assert [len(task.labels) for task in tasks] == [500, 50, 5]
    tasks = list(class_stream(dataset_of([1000] * 10), range(10), (1,) * 10, imbalance=512).tasks())
    assert [len(task.labels) for task in tasks] == [1000, 500, 250, 125, 62, 31, 15, 7, 3, 1]


def test_counts_that_are_whole_are_not_rounded_down():
    # in floating point, 100 · 1024^(−1/5) is below 25 and 0.29 · 100 below 29
    tasks = list(class_stream(dataset_of([100] * 6), range(6), (1,) * 6, imbalance=1024).tasks())
    assert len(tasks[1].labels) == 25
    tasks = list(class_stream(dataset_of([100, 1]), (0, 1), (1, 1), blur=0.29).tasks())
    assert [len(task.labels) for task in tasks] == [71, 30]


def test_every_class_keeps_a_sample_and_a_single_class_all():
    tasks = list(class_stream(dataset_of([3, 3, 3]), (0, 1, 2), (1, 1, 1), imbalance=1e6, blur=0.9).tasks())
    assert [sorted(set(task.labels.tolist())) for task in tasks][-1][-1] == 2
    assert sum(len(task.labels) for task in tasks) == 3 + 1 + 1
    (task,) = class_stream(dataset_of([7]), (0,), (1,), imbalance=100).tasks()
    assert len(task.labels) == 7


# What is refused.


@pytest.mark.parametrize("blur", [-0.1, 0.95, 1.0, float("nan")])
def test_blur_out_of_range_is_refused(blur):
    with pytest.raises(InputError, match=r"blur=.*from 0"):
        class_stream(dataset_of([2, 2]), (0, 1), (1, 1), blur=blur)


@pytest.mark.parametrize("imbalance", [0.5, 0, float("inf"), float("nan")])
def test_imbalance_out_of_range_is_refused(imbalance):
    with pytest.raises(InputError, match=r"imbalance=.*from 1"):
        class_stream(dataset_of([2, 2]), (0, 1), (1, 1), imbalance=imbalance)


@pytest.mark.parametrize(
    ("order", "message"),
    [((), "nothing was given"), ((0, 1, 0), "0 is there twice"), ((0, None), "None"), ((0, True), "True")],
)
def test_an_order_that_is_none_is_refused(order, message):
    with pytest.raises(InputError, match=message):
        class_stream(dataset_of([2, 2]), order, (len(order),))


def test_sizes_must_fit_the_order():
    with pytest.raises(InputError, match="add up to the 2 classes"):
        class_stream(dataset_of([2, 2, 2]), (0, 1), (1, 2))


def test_classes_that_cannot_be_learnt_or_judged_are_refused():
    with pytest.raises(DataError, match="1 of the 3 classes in the order have no training sample, the first is 7"):
        class_stream(dataset_of([2, 2]), (0, 1, 7), (1, 2))
    with pytest.raises(DataError, match=r"first is '1'.* such as 0"):  # text is not taken for a number
        class_stream(dataset_of([2, 2]), (0, "1"), (1, 1))
    dataset = dataset_of([2, 2])
    untested = dataclasses.replace(dataset, test_labels=np.zeros_like(dataset.test_labels))
    with pytest.raises(DataError, match="no test sample, the first is 1"):
        class_stream(untested, (0, 1), (1, 1))
