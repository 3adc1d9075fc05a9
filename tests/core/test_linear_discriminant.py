"""Shared scatter from running sums, and the discriminant made of it."""

import numpy as np
import pytest
import torch
from sklearn.covariance import OAS

from gddsg.core.linear_discriminant import (
    LinearDiscriminant,
    WithinScatter,
    oracle_approximating_shrinkage,
    shrunk_towards_sphere,
    temperature,
)


def samples(n=60, dim=5, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    labels = [f"c{c}" for c in rng.integers(0, n_classes, n)]
    return torch.from_numpy(rng.normal(3, 2, (n, dim))), labels


def explicit_scatter(features, labels):
    names = np.array(labels)
    scatter = np.zeros((features.shape[1], features.shape[1]))
    for name in set(labels):
        own = features[names == name].numpy()
        scatter += (own - own.mean(0)).T @ (own - own.mean(0))
    return scatter


@pytest.mark.parametrize("cuts", [(), (1,), (30,), (10, 11, 40)], ids=str)
def test_the_scatter_is_that_of_all_samples_however_they_came(cuts):
    features, labels = samples()
    within = WithinScatter.empty(5)
    for rows in np.split(np.arange(60), cuts):
        within = within.plus(features[rows], [labels[i] for i in rows])
    np.testing.assert_allclose(within.scatter, explicit_scatter(features, labels), rtol=1e-12)
    np.testing.assert_allclose(within.covariance, explicit_scatter(features, labels) / 60, rtol=1e-12)
    names = np.array(labels)
    means = np.stack([features[names == c].mean(0) for c in ("c2", "c0", "c1")])
    np.testing.assert_allclose(within.means(["c2", "c0", "c1"]), means, rtol=1e-12)


def test_a_large_class_is_summed_up_in_parts(monkeypatch):
    features, labels = samples()
    monkeypatch.setattr("gddsg.core.linear_discriminant._ROWS_AT_ONCE", 7)
    within = WithinScatter.empty(5).plus(features, labels)
    np.testing.assert_allclose(within.scatter, explicit_scatter(features, labels), rtol=1e-12)
    assert within.count == 60


def test_large_means_do_not_drown_the_scatter():
    features, labels = samples()
    shifted = WithinScatter.empty(5).plus(features[:30] + 1e7, labels[:30]).plus(features[30:] + 1e7, labels[30:])
    np.testing.assert_allclose(shifted.scatter, explicit_scatter(features, labels), rtol=1e-6)


def test_adding_leaves_the_old_sums_alone():
    features, labels = samples()
    within = WithinScatter.empty(5).plus(features[:30], labels[:30])
    before, counts = within.scatter.clone(), dict(within.counts)
    within.plus(features[30:], labels[30:])
    assert torch.equal(within.scatter, before)
    assert within.counts == counts


@pytest.mark.parametrize(("n", "dim"), [(200, 8), (10, 20), (50, 50)])
def test_the_oracle_approximating_shrinkage_is_that_of_scikit_learn(n, dim):
    X = np.random.default_rng(n).normal(0, np.linspace(0.5, 3, dim), (n, dim))
    expected = OAS(assume_centered=True).fit(X)
    covariance = torch.from_numpy(X.T @ X / n)
    ours = oracle_approximating_shrinkage(covariance, n)
    squares, trace = float(covariance.square().sum()), float(covariance.trace())
    # scikit-learn leaves out the terms 2/p of the paper's formula
    without = min(1.0, (squares + trace**2) / ((n + 1) * (squares - trace**2 / dim)))
    assert expected.shrinkage_ == pytest.approx(without)
    assert ours == pytest.approx(without, rel=0.15)


def test_a_spherical_covariance_needs_no_shape():
    assert oracle_approximating_shrinkage(torch.eye(4, dtype=torch.float64), 10) == 1
    assert oracle_approximating_shrinkage(torch.zeros(4, 4), 10) == 1


def test_shrinking_keeps_the_trace_and_gives_the_identity_without_scatter():
    covariance = torch.diag(torch.tensor([4.0, 1.0, 1.0], dtype=torch.float64))
    means = torch.ones(2, 3, dtype=torch.float64)
    assert shrunk_towards_sphere(covariance, 0.5, means).diagonal().tolist() == [3.0, 1.5, 1.5]
    assert torch.equal(shrunk_towards_sphere(covariance * 1e-30, 0.5, means), torch.eye(3, dtype=torch.float64))


def test_scores_are_gaussian_log_likelihoods_up_to_what_classes_share():
    rng = np.random.default_rng(0)
    means, root = rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    covariance, x = root @ root.T + np.eye(4), rng.normal(size=(7, 4))
    discriminant = LinearDiscriminant.of(torch.from_numpy(means), torch.from_numpy(covariance))
    gaps = x[:, None] - means
    likelihoods = -np.einsum("ncd,de,nce->nc", gaps, np.linalg.inv(covariance), gaps) / 2
    scores = discriminant.scores(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(scores - scores[:, :1], likelihoods - likelihoods[:, :1], rtol=1e-9, atol=1e-12)


def test_few_dimensions_are_trusted_as_they_are_and_many_less():
    assert temperature(4) == temperature(9) == 1
    assert temperature(900) == pytest.approx(0.1)
