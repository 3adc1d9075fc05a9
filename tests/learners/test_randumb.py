"""RanDumb is a linear discriminant with an oracle-shrunk covariance, written out here."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.covariance import OAS

from gddsg import RanDumb
from gddsg.checks.laws import separated_classes
from gddsg.core.random_fourier import fourier_features
from gddsg.errors import InputError

D = 64


def samples(n_classes=6, n=20, dim=12, noise=2.0):
    X, y = separated_classes(n_classes, n, dim)
    rows = [np.abs(X + np.random.default_rng(s).normal(0, noise, X.shape)).astype(np.float32) for s in (1, 2)]
    return rows[0], y, rows[1]


def embedded(X, projection_dim, gamma=1.0):
    rows = X.astype(np.float64)
    if projection_dim is None:
        return rows
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return fourier_features(torch.from_numpy(rows), projection_dim, gamma, seed=0).numpy()


def mahalanobis(X, y, fresh, ridge):
    """Minus half the squared distance to each mean, and the shrinkage by scikit-learn, which drops terms of 2 / dim."""
    means = np.stack([X[y == c].mean(0) for c in np.unique(y)])
    residuals = X - means[np.unique(y, return_inverse=True)[1]]
    covariance = residuals.T @ residuals / len(X)
    p, squares, trace = len(covariance), np.sum(covariance**2), np.trace(covariance)
    rho = ((1 - 2 / p) * squares + trace**2) / ((len(X) + 1 - 2 / p) * (squares - trace**2 / p))
    rho = min(rho, 1.0)
    shrunk = (1 - rho) * covariance + rho * trace / p * np.eye(p)
    shrunk = (1 - ridge) * shrunk + ridge * np.eye(p)
    gaps = fresh[:, None] - means
    return -0.5 * np.einsum("ncd,de,nce->nc", gaps, np.linalg.inv(shrunk), gaps), rho, residuals


@pytest.mark.parametrize("ridge", [1e-4, 0.1])
@pytest.mark.parametrize("projection_dim", [None, D])
@pytest.mark.parametrize("n", [4, 40], ids=["fewer samples than dimensions", "more"])
def test_it_is_the_nearest_mean_by_one_shrunk_covariance(projection_dim, ridge, n):
    X, y, fresh = samples(n=n)
    model = RanDumb(projection_dim=projection_dim, ridge=ridge)
    for part in np.split(np.random.default_rng(0).permutation(np.unique(y)), [1, 4]):
        model.partial_fit(X[np.isin(y, part)], y[np.isin(y, part)])
    Z, Z_fresh = embedded(X, projection_dim), embedded(fresh, projection_dim)
    scores, rho, residuals = mahalanobis(Z, y, Z_fresh, ridge)
    expected = softmax(min(1, 3 / np.sqrt(Z.shape[1])) * scores, axis=1)
    np.testing.assert_allclose(model.predict_proba(fresh), expected, atol=1e-8)
    assert (model.predict(fresh) == np.unique(y)[scores.argmax(1)]).all()
    assert np.mean(model.predict(fresh) == y) > 0.5
    np.testing.assert_allclose(OAS(assume_centered=True).fit(residuals).shrinkage_, rho, atol=0.03)


def test_pretrained_features_are_not_embedded_unless_asked_for():
    X, y, fresh = samples()
    assert RanDumb().projection_dim is None
    plain = RanDumb().fit(X, y)
    assert plain.state_bytes() == 4 * (12 * 12 + 6 * 12)
    assert RanDumb(projection_dim=D).fit(X, y).state_bytes() == 4 * (D * D + 6 * D)
    np.testing.assert_array_equal(RanDumb(gamma=7.0, seed=3).fit(X, y).predict_proba(fresh), plain.predict_proba(fresh))


@pytest.mark.parametrize("projection_dim", [None, D])
def test_one_class_one_sample_and_samples_that_are_all_the_same(projection_dim):
    X, _, fresh = samples()
    model = RanDumb(projection_dim=projection_dim).fit(X[:1], ["only"])
    assert set(model.predict(fresh)) == {"only"}
    model.partial_fit(X[-1:], ["other"])
    assert list(model.predict(X[[0, -1]])) == ["only", "other"]
    same = RanDumb(projection_dim=projection_dim).fit(np.full((4, 12), 0.5), ["a", "a", "b", "b"])
    np.testing.assert_allclose(same.predict_proba(np.full((2, 12), 0.5)), 0.5)


@pytest.mark.parametrize(
    ("name", "value"), [("projection_dim", 0), ("projection_dim", 2.5), ("gamma", 0.0), ("ridge", 2.0), ("seed", -1)]
)
def test_a_bad_parameter_is_refused(name, value):
    with pytest.raises(InputError, match=name):
        RanDumb(**{name: value}).fit(np.eye(3), [1, 2, 3])
