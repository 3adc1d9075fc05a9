"""Kept samples lie alike whatever came when, and a budget is shared fairly."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gddsg.core.kept_samples import KeptSamples, equal_quota


def batch(n=30, dim=3, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, dim)).astype(np.float32)), [int(c) for c in rng.integers(0, 3, n)]


def assert_equal(a, b):
    assert a.rows.keys() == b.rows.keys()
    assert all(torch.equal(a.rows[label], b.rows[label]) for label in a.rows)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.integers(1, 100))
def test_the_quota_is_the_largest_that_fits(counts, budget):
    def kept(quota):
        return sum(min(count, quota) for count in counts)

    quota = equal_quota(counts, budget)
    assert kept(quota) <= max(budget, len(counts))
    if quota < max(counts):
        assert kept(quota + 1) > budget


@pytest.mark.parametrize("budget", [3, 7, 11, 20, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_cutting_as_one_goes_leaves_what_one_cut_at_the_end_leaves(budget, seed):
    features, labels = batch()
    order = np.random.default_rng(seed).permutation(30)
    kept = KeptSamples()
    for start, stop in itertools.pairwise([0, 4, 5, 17, 30]):
        rows = order[start:stop]
        kept = kept.plus(features[rows], [labels[i] for i in rows]).cut(budget)
    assert_equal(kept, KeptSamples().plus(features, labels).cut(budget))


@pytest.mark.parametrize("budget", [3, 7, 10, 11, 20, 29])
def test_a_class_that_grows_alone_takes_no_more_than_its_share(budget):
    """Sample by sample, after a cut: what the others had is not there any more to be counted."""
    features, labels = batch()
    kept = KeptSamples().plus(features[:20], labels[:20]).cut(budget)
    for row in range(20, 30):
        kept = kept.plus(features[row : row + 1], labels[row : row + 1]).cut(budget)
    assert_equal(kept, KeptSamples().plus(features, labels).cut(budget))


def test_every_class_keeps_one_whatever_the_budget():
    kept = KeptSamples().plus(*batch()).cut(1)
    assert [len(own) for own in kept.rows.values()] == [1, 1, 1]


def test_rows_are_joined_in_the_order_asked_for():
    features, classes = KeptSamples().plus(*batch()).joined([2, 0, 1])
    assert len(features) == len(classes) == 30
    assert classes.tolist() == sorted(classes.tolist())
    wanted = {tuple(row.tolist()) for row, label in zip(*batch(), strict=True) if label == 2}
    assert {tuple(row.tolist()) for row in features[classes == 0]} == wanted
