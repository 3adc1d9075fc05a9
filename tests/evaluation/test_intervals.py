"""Intervals and comparisons agree with SciPy, and refuse what is no sample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gddsg.errors import InputError
from gddsg.evaluation import (
    confidence_interval,
    order_spread,
    paired_comparison,
)

NAN = float("nan")
samples = st.integers(2, 12).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 1000).map(lambda k: k / 1000), min_size=n, max_size=n)] * 2)
)


def test_interval_by_hand():
    mean, half_width = confidence_interval([1, 2, 3, 4])
    # t(0.975; 3) = 3.182446 from the table, sd = √(5/3)
    assert mean == 2.5
    assert half_width == pytest.approx(3.182446 * np.sqrt(5 / 3) / 2, rel=1e-6)


@settings(deadline=None, derandomize=True)
@given(samples, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_interval_agrees_with_scipy(pair, level):
    values = pair[0]
    mean, half_width = confidence_interval(values, level)
    if len(set(values)) == 1:
        assert (mean, half_width) == (values[0], 0.0)
    else:
        low, high = stats.t.interval(level, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
        assert (mean - half_width, mean + half_width) == pytest.approx((low, high))


def test_interval_of_one_value():
    mean, half_width = confidence_interval([0.7])
    assert mean == 0.7
    assert np.isnan(half_width)


@settings(deadline=None, derandomize=True)
@given(samples)
def test_comparison_agrees_with_scipy(pair):
    a, b = map(np.array, pair)
    found, differences = paired_comparison(a, b), np.round(a - b, 9)
    assert found.mean_difference == pytest.approx(np.mean(a - b), abs=1e-12)
    signs = np.sign(differences).tolist()
    assert (found.wins, found.ties, found.losses) == tuple(map(signs.count, (1, 0, -1)))
    if np.ptp(differences) > 0:
        expected = stats.ttest_rel(a, b)
        assert found.p_value == pytest.approx(expected.pvalue)
        interval = expected.confidence_interval(0.95)
        assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


@settings(deadline=None, derandomize=True)
@given(samples)
def test_comparing_the_other_way_round_turns_the_sign(pair):
    found, turned = paired_comparison(*pair), paired_comparison(*reversed(pair))
    assert turned.mean_difference == pytest.approx(-found.mean_difference)
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))
    assert turned.p_value == pytest.approx(found.p_value)
    assert (turned.wins, turned.ties, turned.losses) == (found.losses, found.ties, found.wins)


def test_equal_results_are_ties_up_to_rounding():
    found = paired_comparison([0.1 + 0.2, 0.3, 0.7], [0.3, 0.1 + 0.2, 0.7])
    assert (found.mean_difference, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)
    assert (found.wins, found.ties, found.losses) == (0, 3, 0)


def test_one_and_the_same_difference_is_certain():
    b = np.array([0.1, 0.2, 0.3, 0.7])
    found = paired_comparison(b + 0.1, b)  # the differences differ in the last bit
    assert found.mean_difference == pytest.approx(0.1)
    assert found.low == found.high == found.mean_difference
    assert (found.p_value, found.wins) == (0.0, 4)


def test_one_pair_tells_nothing_about_chance():
    found = paired_comparison([0.8], [0.5])
    assert found.mean_difference == pytest.approx(0.3)
    assert np.isnan([found.low, found.high, found.p_value]).all()
    assert (found.wins, found.ties, found.losses) == (1, 0, 0)


def test_comparing_leaves_the_results_alone():
    a, b = np.array([0.5, 0.6]), np.array([0.5, 0.4])
    paired_comparison(a, b)
    assert (a.tolist(), b.tolist()) == ([0.5, 0.6], [0.5, 0.4])


@pytest.mark.parametrize("values", [[], [[0.5]], [0.5, NAN], [np.inf], 0.5])
def test_values_that_are_no_sample_are_refused(values):
    for metric in (order_spread, confidence_interval, lambda v: paired_comparison(v, v)):
        with pytest.raises(InputError, match="finite numbers"):
            metric(values)


def test_pairs_need_partners():
    with pytest.raises(InputError, match="same cases"):
        paired_comparison([0.5, 0.6], [0.5])


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, NAN])
def test_a_level_that_is_no_probability_is_refused(level):
    with pytest.raises(InputError, match=r"such as 0\.95"):
        confidence_interval([0.5, 0.6], level)
