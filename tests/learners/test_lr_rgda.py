"""LR-RGDA is Gaussian discriminant analysis with the authors' covariance, by a dense formula written out here."""

import numpy as np
import pytest
from scipy.special import softmax

from gddsg import LRRGDA
from gddsg.checks import yield_checks
from gddsg.checks.laws import separated_classes
from gddsg.errors import InputError

SETTINGS = [
    {},
    {"view": "root"},
    {"layer_norm": False},
    {"rank": 3},
    {"rank": 2, "alpha1": 1.5, "alpha2": 0.3, "alpha3": 0.1},
    {"alpha1": 0.0},
]


def overlapping_classes(n=20, dim=12, seed=0):
    X, y = separated_classes(5, n, dim, seed)
    X, fresh = (np.abs(X + np.random.default_rng(seed + s).normal(0, 3, X.shape)) for s in (1, 2))
    return X.astype(np.float32), y, fresh.astype(np.float32)


def viewed(X, view="raw", layer_norm=True):
    X = np.sqrt(X).astype(np.float64) if view == "root" else X.astype(np.float64)
    return (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True) if layer_norm else X


def cut(covariance, rank):
    values, vectors = np.linalg.eigh(covariance)
    return (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T


def dense(X, y, asked, rank=64, alpha1=0.2, alpha2=2.0, alpha3=0.5, **view):
    """Posteriors of dense Gaussians: inverse and determinant of every covariance, nothing saved."""
    X, asked, identity = viewed(X, **view), viewed(asked, **view), np.eye(X.shape[1])
    means, own = [], []
    for name in np.unique(y):
        rows = X[y == name]
        means.append(rows.mean(0))
        own.append(np.cov(rows.T) if len(rows) > 1 else 1e-4 * identity)
    pooled, scores = np.mean(own, axis=0), []
    for name, mean, covariance in zip(np.unique(y), means, own, strict=True):
        directions = cut(covariance, rank) if (y == name).sum() > 1 else 0 * identity
        full = alpha1 * directions + alpha2 * pooled + alpha3 * identity
        away = asked - mean
        distance = np.einsum("nd,de,ne->n", away, np.linalg.inv(full), away)
        scores.append(-(distance + np.linalg.slogdet(full)[1]) / 2)
    return softmax(np.stack(scores, axis=1), axis=1)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_it_is_gaussian_discriminant_analysis_with_regularised_covariances(settings):
    X, y, fresh = overlapping_classes()
    model = LRRGDA(**settings)
    for name in np.unique(y)[::-1]:
        model.partial_fit(X[y == name], y[y == name])
    expected = dense(X, y, fresh, **settings)
    assert 0.5 < np.mean(model.predict(fresh) == y) < 1
    np.testing.assert_allclose(model.predict_proba(fresh), expected, atol=1e-5)
    assert (model.predict(fresh) == np.unique(y)[expected.argmax(1)]).all()


@pytest.mark.parametrize("dim", [12, 40])
def test_classes_of_any_size_and_of_one_sample(dim):
    X, y, fresh = overlapping_classes(dim=dim)
    few = np.concatenate(
        [np.flatnonzero(y == name)[:n] for name, n in zip(np.unique(y), (1, 2, 5, 20, 1), strict=True)]
    )
    model = LRRGDA(rank=8).fit(X[few], y[few])
    np.testing.assert_allclose(model.predict_proba(fresh), dense(X[few], y[few], fresh, rank=8), atol=1e-5)


def test_one_sample_a_class_is_the_nearest_sample():
    X, y, fresh = overlapping_classes(n=1)
    distances = np.linalg.norm(viewed(fresh)[:, None] - viewed(X), axis=2)
    assert (LRRGDA().fit(X, y).predict(fresh) == y[distances.argmin(1)]).all()


def test_one_class_is_all_there_is():
    X, y, fresh = overlapping_classes()
    assert LRRGDA().fit(X[:20], y[:20]).predict_proba(fresh).tolist() == [[1.0]] * len(fresh)


def test_without_a_scatter_of_their_own_classes_share_a_linear_boundary():
    X, y, fresh = overlapping_classes()
    log_odds = LRRGDA(alpha1=0.0, layer_norm=False).fit(X[:40], y[:40]).decision_function
    middle = (fresh[::2] + fresh[1::2]) / 2
    np.testing.assert_allclose(log_odds(middle), (log_odds(fresh)[::2] + log_odds(fresh)[1::2]) / 2, atol=1e-4)


def test_a_class_in_parts_is_the_class_at_once_though_more_than_the_rank_is_needed():
    X, y, fresh = overlapping_classes()
    split, at_once = LRRGDA(rank=2), LRRGDA(rank=2).fit(X, y)
    for part in range(4):
        split.partial_fit(X[part::4], y[part::4])
    np.testing.assert_allclose(split.predict_proba(fresh), at_once.predict_proba(fresh), atol=1e-5)


def test_the_scale_and_the_offset_of_a_sample_do_not_matter_after_the_layer_norm():
    X, y, fresh = overlapping_classes()
    model = LRRGDA().fit(X, y)
    np.testing.assert_allclose(model.predict_proba(3 * fresh + 7), model.predict_proba(fresh), atol=1e-5)


def test_memory_is_a_mean_and_directions_a_class_and_one_matrix():
    X, y, _ = overlapping_classes()
    model = LRRGDA(rank=3)
    assert model.state_bytes() == 0
    assert model.fit(X, y).state_bytes() == 4 * (5 * (1 + 3) * 12 + 12 * 12)


@pytest.mark.parametrize(
    ("name", "value"),
    [("rank", 0), ("rank", 2.5), ("alpha1", -1.0), ("alpha2", "much"), ("alpha3", 0.0), ("layer_norm", 1)],
)
def test_a_bad_parameter_is_refused(name, value):
    with pytest.raises(InputError, match=name):
        LRRGDA(**{name: value}).fit(*overlapping_classes()[:2])


@pytest.mark.parametrize("law", list(yield_checks(LRRGDA)), ids=lambda law: law.__name__)
def test_law_with_the_layer_norm(law):
    law(LRRGDA())
