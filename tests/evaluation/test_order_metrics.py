"""Disparities between orders agree with hand-worked examples, and refuse what they cannot judge."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from gddsg.errors import InputError
from gddsg.evaluation import (
    aopd,
    mopd,
    opd_after_tasks,
    opd_by_class,
    opd_by_position,
    opd_by_task,
    order_spread,
)

NAN = float("nan")
by_order = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=6),
    elements=st.sampled_from([0, 0.25, 0.5, 1]),
)


def test_disparity_by_hand():
    finals = [[0.5, 0.9, 0.2], [0.7, 0.9, 0.1], [0.6, 0.9, 0.6]]
    assert opd_by_position(finals) == pytest.approx([0.2, 0.0, 0.5])
    assert mopd(finals) == pytest.approx(0.5)
    assert aopd(finals) == pytest.approx(0.7 / 3)
    assert opd_by_class(finals) == pytest.approx([0.2, 0.0, 0.5])


def test_the_readings_of_disparity_differ():
    """A learner that ignores order, on classes a to d of accuracy 0.2, 0.4, 0.6 and 0.8, two a task."""
    own = dict(zip("abcd", (0.2, 0.4, 0.6, 0.8), strict=True))
    fixed, shuffled = (["ab", "cd"], ["cd", "ab"]), (["ab", "cd"], ["ac", "bd"])

    def finals(orders):
        return [[np.mean([own[c] for c in task]) for task in order] for order in orders]

    def curves(orders):
        return [[np.mean([own[c] for c in "".join(order[: t + 1])]) for t in range(2)] for order in orders]

    assert opd_by_position(finals(fixed)) == pytest.approx([0.4, 0.4])
    assert opd_by_position(finals(shuffled)) == pytest.approx([0.1, 0.1])
    assert opd_after_tasks(curves(fixed)) == pytest.approx([0.4, 0.0])
    assert opd_after_tasks(curves(shuffled)) == pytest.approx([0.1, 0.0])
    assert opd_by_task(finals(fixed), fixed) == pytest.approx([0.0, 0.0])
    with pytest.raises(InputError, match="same tasks in every order"):
        opd_by_task(finals(shuffled), shuffled)


@settings(deadline=None, derandomize=True)
@given(by_order, st.randoms(use_true_random=False))
def test_a_task_is_followed_wherever_it_comes(finals, random):
    n_orders, n_tasks = finals.shape
    tasks = np.array([random.sample(range(n_tasks), n_tasks) for _ in range(n_orders)])
    assert (opd_by_task(np.take_along_axis(finals, tasks, axis=1), tasks) == opd_by_position(finals)).all()


@pytest.mark.parametrize(
    ("tasks", "message"),
    [([0, 1], "one for each"), ([[0, 1], [0, 2]], "same tasks"), ([[0, 0], [0, 0]], "each once")],
)
def test_tasks_that_cannot_be_followed_are_refused(tasks, message):
    with pytest.raises(InputError, match=message):
        opd_by_task([[0.5, 0.5], [0.5, 0.5]], tasks)


@settings(deadline=None, derandomize=True)
@given(by_order)
def test_disparity_is_zero_exactly_where_all_orders_agree(finals):
    agree = (finals == finals[0]).all(0)
    assert ((opd_by_position(finals) == 0) == agree).all()
    assert ((opd_by_class(finals) == 0) == agree).all()
    assert ((opd_after_tasks(finals) == 0) == agree).all()
    assert (mopd(finals) == 0) == agree.all()
    assert 0 <= aopd(finals) <= mopd(finals) <= 1


@settings(deadline=None, derandomize=True)
@given(by_order, st.randoms(use_true_random=False))
def test_the_order_of_orders_changes_nothing(finals, random):
    shuffled = finals[random.sample(range(len(finals)), len(finals))]
    assert (opd_by_position(shuffled) == opd_by_position(finals)).all()
    assert (opd_by_class(shuffled) == opd_by_class(finals)).all()
    assert order_spread(shuffled[:, 0]) == order_spread(finals[:, 0])


@pytest.mark.parametrize("metric", [opd_by_position, opd_after_tasks, opd_by_class, mopd, aopd])
@pytest.mark.parametrize(
    ("finals", "message"),
    [
        ([[0.5, 0.5]], "at least two"),
        ([0.5, 0.5], "at least two"),
        (np.empty((3, 0)), "at least two"),
        ([[0.5], [NAN]], "from 0 to 1"),
        ([[50.0], [40.0]], "Divide percentages by 100"),
    ],
)
def test_disparity_of_nothing_is_refused(metric, finals, message):
    with pytest.raises(InputError, match=message):
        metric(finals)


def test_spread_by_hand():
    spread = order_spread([0.8, 0.2, 0.6, 0.4])
    assert spread.mean == pytest.approx(0.5)
    assert spread.sd == pytest.approx(np.sqrt((0.09 + 0.09 + 0.01 + 0.01) / 3))
    assert (spread.worst, spread.best, spread.range) == pytest.approx((0.2, 0.8, 0.6))
    assert spread.cvar == pytest.approx(0.2)


def test_the_worst_quarter_counts_orders_in_part():
    assert order_spread([0.9, 0.1, 0.3, 0.9, 0.9, 0.9, 0.9, 0.9]).cvar == pytest.approx(0.2)
    # a quarter of six orders is one and a half
    assert order_spread([0.4, 0.1, 0.9, 0.9, 0.9, 0.9]).cvar == pytest.approx((0.1 + 0.4 / 2) / 1.5)
    assert order_spread([0.5, 0.7]).cvar == pytest.approx(0.5)


def test_spread_of_equal_results_and_of_one():
    equal, single = order_spread([0.1] * 7), order_spread([0.3])
    assert (equal.mean, equal.sd, equal.range, equal.cvar) == (0.1, 0.0, 0.0, pytest.approx(0.1))
    assert (single.mean, single.range, single.cvar) == (0.3, 0.0, pytest.approx(0.3))
    assert np.isnan(single.sd)
