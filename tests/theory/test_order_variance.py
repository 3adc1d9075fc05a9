"""Variances over orders: those of all orders gone through, and the bound for equal norms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gddsg.errors import InputError
from gddsg.theory import (
    FAMILIES,
    LinearTasks,
    each_order,
    expected_forgetting,
    expected_generalisation_error,
    forgetting_over_orders,
    generalisation_over_orders,
    generalisation_variance_bound,
    simulate,
    trend,
    walk,
)


@pytest.mark.parametrize("n_tasks", [2, 3, 4, 5, 6])
@pytest.mark.parametrize(
    ("value", "moments"),
    [
        (expected_forgetting, forgetting_over_orders),
        (expected_generalisation_error, generalisation_over_orders),
    ],
)
def test_moments_are_those_of_all_orders(n_tasks, value, moments):
    optima = np.random.default_rng(n_tasks).standard_normal((n_tasks, 3))
    tasks = LinearTasks(optima, n_samples=4, width=11, noise=0.7)
    values = list(each_order(tasks, value).values())
    found = moments(tasks)
    assert found.mean == pytest.approx(np.mean(values), rel=1e-12)
    assert found.variance == pytest.approx(np.var(values), rel=1e-9, abs=1e-25)


def test_the_learner_itself_differs_by_order_as_computed():
    tasks = LinearTasks([[2.0, 0.0], [1.8, 0.4], [-1.0, 1.0]], n_samples=6, width=12)
    for value, quantity in (
        (expected_forgetting, "forgetting"),
        (expected_generalisation_error, "generalisation_error"),
    ):
        for order, computed in each_order(tasks, value).items():
            found = simulate(tasks.in_order(order), 3000, seed=hash(order) % 2**32)
            assert abs(getattr(found, quantity).standard_errors_from(computed)) < 3.5


@given(st.integers(2, 9), st.integers(1, 5), st.floats(0, 4), st.integers(0, 2**32))
def test_no_tasks_of_equal_norm_exceed_the_bound(n_tasks, dim, common, seed):
    optima = np.random.default_rng(seed).standard_normal((n_tasks, dim))
    optima[:, 0] += common
    tasks = LinearTasks(2 * optima / np.linalg.norm(optima, axis=1, keepdims=True), 6, 20)
    assert generalisation_over_orders(tasks).variance <= generalisation_variance_bound(tasks) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("turned", range(9))
def test_opposed_tasks_reach_the_bound(turned):
    tasks = LinearTasks(np.where(np.arange(8) < turned, -1.0, 1.0)[:, None], 10, 50)
    assert generalisation_over_orders(tasks).variance == pytest.approx(generalisation_variance_bound(tasks), abs=1e-15)


def test_the_bound_is_for_equal_norms_alone():
    with pytest.raises(InputError, match="range from 1 to 2; the bound holds for equal ones"):
        generalisation_variance_bound(LinearTasks([[1.0], [2.0]], 5, 10))
    assert generalisation_variance_bound(LinearTasks([[0.0], [0.0]], 5, 10)) == 0


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.floats(0.1, 10))
def test_variances_grow_with_the_fourth_power_of_a_common_factor(seed, factor):
    optima = np.random.default_rng(seed).standard_normal((5, 3))
    for moments in (forgetting_over_orders, generalisation_over_orders):
        before, after = (moments(LinearTasks(scale * optima, 5, 15)).variance for scale in (1, factor))
        assert after == pytest.approx(factor**4 * before, rel=1e-8)


def test_noise_changes_no_variance():
    optima = np.random.default_rng(0).standard_normal((5, 3))
    for moments in (forgetting_over_orders, generalisation_over_orders):
        variances = [moments(LinearTasks(optima, 5, 15, noise)).variance for noise in (0.0, 3.0)]
        assert variances[0] == variances[1]


def test_the_corollary_holds_here_and_fails_there():
    """One family that obeys it and one that does not; both move apart at equal norms."""
    by_name = {family.name: walk(family) for family in FAMILIES}
    obeys = by_name["equal norms; two look-alike pairs part, all else orthogonal"]
    fails = by_name["equal norms; all turn away from a common direction"]
    for points in (obeys, fails):
        assert trend([point.distances for point in points]) == "grows"
    for quantity in ("generalisation_variance", "forgetting_variance"):
        assert trend([getattr(point, quantity) for point in obeys]) == "falls"
        assert trend([getattr(point, quantity) for point in fails]) == "grows"


def test_all_families_but_the_first_have_equal_norms():
    rng = np.random.default_rng(0)
    for family in FAMILIES[1:]:
        for value in family.values:
            assert np.linalg.norm(family.optima(value, rng), axis=1) == pytest.approx(1)


def test_trends_in_words():
    assert trend([1.0, 1.0]) == "constant"
    assert trend([2.0, 1.0, 2.0]) == "falls, then rises"
    assert trend([1.0, 2.0, 1.0, 2.0]) == "neither"


def test_too_many_orders_are_not_gone_through():
    with pytest.raises(InputError, match="9 tasks, expected 8 at most"):
        each_order(LinearTasks(np.eye(9), 5, 20))
