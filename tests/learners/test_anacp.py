"""AnaCP is what its authors' program computes, by singular values, least squares and draws written out here."""

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from scipy.special import softmax
from scipy.stats import norm
from sklearn.linear_model import Ridge

from gddsg import AnaCP
from gddsg.checks.laws import arrival_order_does_not_matter, sample_order_does_not_matter, separated_classes
from gddsg.core.content_hash import hash_rows
from gddsg.core.projection import projection_weights
from gddsg.errors import InputError
from gddsg.learners.anacp import pushed_apart

NARROW = {"projection_dim": 40, "heads": 2, "regularisation": 2.0, "draws": 15}
SCORE_SCALE = 20


def overlapping_classes(n_classes=5, n=20, dim=12, seed=0):
    X, y = separated_classes(n_classes, n, dim, seed)
    X, fresh = (np.abs(X + np.random.default_rng(seed + s).normal(0, 2, X.shape)) for s in (1, 2))
    return X.astype(np.float32), y, fresh.astype(np.float32)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def ridge(H, Y, regularisation):
    """Least squares with a penalty, by scikit-learn, on rows that are all there."""
    return Ridge(regularisation, fit_intercept=False, solver="svd").fit(H, Y).coef_.reshape(Y.shape[1], -1).T


def targets(means, covariance):
    K = np.real(np.linalg.inv(sqrtm(covariance)))
    U, S, V = np.linalg.svd((means - means.mean(0)) @ K, full_matrices=False)
    S += S / S[0] > 1e-6
    return unit(U @ np.diag(S) @ V @ K + means.mean(0))


def noise(rows, draws, seed):
    key = sum(int(one) for one in hash_rows(torch.from_numpy(rows))) % 2**64
    return np.random.RandomState([seed, key >> 32, key & 0xFFFFFFFF]).standard_normal((draws, rows.shape[1]))


def naive(X, y, asked, *, projection_dim, heads, regularisation, draws, seed=0, view=unit):
    """Probabilities, from all samples at once and all draws in one table."""
    names, dim = np.unique(y), X.shape[1]
    weights = projection_weights(dim, (heads + 1) * projection_dim, seed).double().numpy()
    weights = np.split(weights, heads + 1, axis=1)

    def layer(rows, W):
        return (rows @ W) * norm.cdf(rows @ W)

    rows = view(X.astype(np.float64))
    means = np.stack([rows[y == name].mean(0) for name in names])
    places = np.searchsorted(names, y)
    away = rows - means[places]
    covariance = away.T @ away / len(rows) + 1e-4 * np.eye(dim)
    wanted = targets(means, covariance)[places]
    thetas = [ridge(layer(rows, W), wanted, regularisation) for W in weights[:heads]]

    def projected(some):
        return np.mean([unit(layer(some, W) @ theta) for W, theta in zip(weights, thetas, strict=False)], axis=0)

    root = np.real(sqrtm(covariance))
    drawn = [means[c] + noise(X[y == name], draws, seed) @ root for c, name in enumerate(names)]
    one_hot = np.repeat(np.eye(len(names)), draws, axis=0)
    head = ridge(layer(projected(np.concatenate(drawn)), weights[-1]), one_hot, regularisation)
    return softmax(SCORE_SCALE * layer(projected(view(asked.astype(np.float64))), weights[-1]) @ head, axis=1)


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("n_classes", [2, 5, 20])  # fewer than features, and more
def test_it_is_least_squares_onto_targets_apart_and_a_ridge_head_on_draws(n_classes, seed):
    X, y, fresh = overlapping_classes(n_classes)
    model = AnaCP(**NARROW, seed=seed)
    for name in np.unique(y)[::-1]:
        model.partial_fit(X[y == name], y[y == name])
    expected = naive(X, y, fresh, **NARROW, seed=seed)
    assert 1.5 / n_classes < np.mean(model.predict(fresh) == y)
    np.testing.assert_allclose(model.predict_proba(fresh), expected, atol=1e-6)
    assert (model.predict(fresh) == np.unique(y)[expected.argmax(1)]).all()


def test_the_square_root_of_features_is_another_view_of_them():
    X, y, fresh = overlapping_classes()
    model = AnaCP(**NARROW, view="root").fit(X, y)
    expected = naive(X, y, fresh, **NARROW, view=lambda rows: unit(np.sqrt(rows)))
    np.testing.assert_allclose(model.predict_proba(fresh), expected, atol=1e-6)


def test_classes_of_one_sample_and_of_few():
    X, y, fresh = overlapping_classes()
    few = np.concatenate([np.flatnonzero(y == c)[:n] for c, n in zip(np.unique(y), (1, 2, 5, 20, 1), strict=True)])
    table = AnaCP(**NARROW).fit(X[few], y[few]).predict_proba(fresh)
    np.testing.assert_allclose(table, naive(X[few], y[few], fresh, **NARROW), atol=1e-6)
    alone = AnaCP(**NARROW).fit(X[::20], y[::20])
    np.testing.assert_allclose(alone.predict_proba(fresh), naive(X[::20], y[::20], fresh, **NARROW), atol=1e-6)
    assert (alone.predict(X[::20]) == y[::20]).all()


def test_one_class_is_all_there_is():
    X, y, fresh = overlapping_classes()
    assert AnaCP(**NARROW).fit(X[:20], y[:20]).predict_proba(fresh).tolist() == [[1.0]] * len(fresh)


def test_targets_lie_farther_apart_than_means():
    X, y, _ = overlapping_classes()
    means = torch.from_numpy(np.stack([unit(X[y == c].astype(np.float64)).mean(0) for c in np.unique(y)]))
    cosines = [rows @ rows.T for rows in (pushed_apart(means, torch.eye(12).double()).numpy(), unit(means.numpy()))]
    others = ~np.eye(5, dtype=bool)
    assert cosines[0][others].max() < cosines[1][others].min()


def test_a_class_in_parts_has_the_draws_of_the_class_at_once():
    X, y, fresh = overlapping_classes()
    split, shuffled = AnaCP(**NARROW), np.random.default_rng(0).permutation(len(y))
    for part in np.split(shuffled, 5):
        split.partial_fit(X[part], y[part])
    np.testing.assert_allclose(split.predict_proba(fresh), AnaCP(**NARROW).fit(X, y).predict_proba(fresh), atol=1e-6)


def test_another_seed_draws_other_layers_and_samples():
    X, y, fresh = overlapping_classes()
    tables = [AnaCP(**NARROW, seed=seed).fit(X, y).predict_proba(fresh) for seed in (0, 1)]
    assert np.abs(tables[0] - tables[1]).max() > 1e-3


def test_memory_is_sums_of_every_head_and_one_gaussian_a_class():
    X, y, _ = overlapping_classes()
    model = AnaCP(**NARROW)
    assert model.state_bytes() == 0
    assert model.fit(X, y).state_bytes() == 4 * (2 * 40 * (40 + 5) + 5 * 12 + 12 * 12)


@pytest.mark.parametrize(("name", "value"), [("heads", 0), ("draws", 1.5), ("regularisation", 0.0), ("seed", -1)])
def test_a_bad_parameter_is_refused(name, value):
    with pytest.raises(InputError, match=name):
        AnaCP(**{**NARROW, name: value}).fit(*overlapping_classes()[:2])


@pytest.mark.parametrize("law", [arrival_order_does_not_matter, sample_order_does_not_matter])
def test_no_order_matters_in_the_other_view_either(law):
    law(AnaCP(**NARROW, view="root"))
