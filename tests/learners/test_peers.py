"""The learners GDDSG is compared with are what they say they are, by formulas written out again here."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.linear_model import Ridge

from gddsg import RanPAC, SimpleCIL
from gddsg.checks.laws import separated_classes
from gddsg.core.class_card import content_hash, held_out_rows
from gddsg.core.projection import projection_weights
from gddsg.learners.ranpac import REGULARISATIONS

M = 64
SCORE_SCALE, COSINE_SCALE = 10, 16
ROUNDING = 1e-7


def overlapping_classes(n_classes=6, n=30, dim=12, *, noise=2.0, scale=1.0, seed=0):
    """Classes that are confused now and then, with fresh samples of them."""
    X, y = separated_classes(n_classes, n, dim, seed)
    X, fresh = (np.abs(X + np.random.default_rng(seed + s).normal(0, noise, X.shape)) * scale for s in (1, 2))
    return X.astype(np.float32), y, fresh.astype(np.float32)


def tasks(y, sizes, seed=None):
    """Masks of the rows of each task: classes sorted, or in an order drawn from a seed."""
    order = np.unique(y) if seed is None else np.random.default_rng(seed).permutation(np.unique(y))
    return [np.isin(y, part) for part in np.split(order, np.cumsum(sizes)[:-1])]


def learn(model, X, y, masks):
    for mask in masks:
        model.partial_fit(X[mask], y[mask])
    return model


def relu_projection(X):
    return np.maximum(X.astype(np.float64) @ projection_weights(X.shape[1], M, seed=0).numpy(), 0)


def one_hot(y):
    return (y[:, None] == np.unique(y)).astype(np.float64)


# SimpleCIL.


def test_simplecil_is_the_nearest_class_mean_by_cosine():
    X, y, fresh = overlapping_classes()
    model = learn(SimpleCIL(), X, y, tasks(y, (2, 3, 1), seed=0))
    means = np.stack([X[y == c].astype(np.float64).mean(0) for c in np.unique(y)])
    rows = fresh.astype(np.float64)
    cosines = rows @ means.T / np.linalg.norm(rows, axis=1)[:, None] / np.linalg.norm(means, axis=1)
    assert 0.5 < np.mean(model.predict(fresh) == y) < 1
    assert (model.predict(fresh) == np.unique(y)[cosines.argmax(1)]).all()
    np.testing.assert_allclose(model.predict_proba(fresh), softmax(COSINE_SCALE * cosines, axis=1), rtol=1e-9)


def test_simplecil_weighs_every_sample_alike_however_a_class_is_split():
    X, y, fresh = overlapping_classes()
    part = np.random.default_rng(0).choice(3, len(y), p=[0.1, 0.2, 0.7])
    split = learn(SimpleCIL(), X, y, [part == p for p in range(3)])
    np.testing.assert_allclose(split.predict_proba(fresh), SimpleCIL().fit(X, y).predict_proba(fresh), rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_simplecil_has_the_same_bits_whatever_the_order_of_classes(seed):
    X, y, fresh = overlapping_classes()
    expected = SimpleCIL().fit(X, y).predict_proba(fresh)
    for sizes in ((1,) * 6, (4, 2)):
        assert np.array_equal(learn(SimpleCIL(), X, y, tasks(y, sizes, seed)).predict_proba(fresh), expected)


# RanPAC.


@pytest.mark.parametrize("regularisation", [100.0, 1e4, 1e6])
@pytest.mark.parametrize("sizes", [(6,), (2, 2, 2), (1, 4, 1)], ids=str)
def test_ranpac_is_ridge_regression_on_random_projections(sizes, regularisation):
    X, y, fresh = overlapping_classes()
    model = RanPAC(projection_dim=M, regularisation=regularisation)
    for count, mask in enumerate(tasks(y, sizes, seed=3)):
        model.partial_fit(X[mask], y[mask])
        seen = np.isin(y, model.classes_)
        assert len(model.classes_) == sum(sizes[: count + 1])
        ridge = Ridge(regularisation, fit_intercept=False, solver="cholesky")
        scores = ridge.fit(relu_projection(X[seen]), one_hot(y[seen])).predict(relu_projection(fresh))
        scores = scores.reshape(len(fresh), -1)  # a single class comes back without its column
        assert (model.predict(fresh) == model.classes_[scores.argmax(1)]).all()
        expected = softmax(SCORE_SCALE * scores, axis=1)
        np.testing.assert_allclose(model.predict_proba(fresh), expected, atol=ROUNDING)
    assert 0.5 < np.mean(model.predict(fresh) == y) < 1


def held_out_errors(X, y):
    """Squared error on the held-out rows for each candidate of the grid, row by row and not from sums."""
    held = held_out_rows(content_hash(torch.from_numpy(X))).numpy()
    H, Y = relu_projection(X), one_hot(y)
    errors = []
    for regularisation in REGULARISATIONS:
        gram = H[~held].T @ H[~held] + regularisation * np.eye(M)
        theta = np.linalg.solve(gram, H[~held].T @ Y[~held])
        errors.append(float(((Y[held] - H[held] @ theta) ** 2).sum()))
    return errors


@pytest.mark.parametrize(("noise", "scale"), [(0.5, 1.0), (2.0, 1e-3), (2.0, 1.0), (6.0, 300.0)])
def test_ranpac_chooses_the_best_regularisation_of_the_whole_grid(noise, scale):
    X, y, fresh = overlapping_classes(noise=noise, scale=scale)
    best = int(np.argmin(held_out_errors(X, y)))
    chosen = learn(RanPAC(projection_dim=M), X, y, [y <= "c02", y > "c02"]).predict_proba(fresh)

    def fixed(k):
        model = RanPAC(projection_dim=M, regularisation=REGULARISATIONS[k])
        return learn(model, X, y, [y <= "c02", y > "c02"]).predict_proba(fresh)

    assert np.array_equal(chosen, fixed(best))
    neighbours = [k for k in (best - 1, best + 1) if 0 <= k < len(REGULARISATIONS)]
    assert not any(np.array_equal(chosen, fixed(k)) for k in neighbours)


@pytest.mark.parametrize("regularisation", [100.0, 1e6])
@pytest.mark.parametrize("seed", range(5))
def test_ranpac_at_a_fixed_regularisation_does_not_depend_on_the_order_of_classes(seed, regularisation):
    X, y, fresh = overlapping_classes()
    expected = RanPAC(projection_dim=M, regularisation=regularisation).fit(X, y)
    for sizes in ((1,) * 6, (4, 2)):
        model = learn(RanPAC(projection_dim=M, regularisation=regularisation), X, y, tasks(y, sizes, seed))
        assert (model.predict(fresh) == expected.predict(fresh)).all()
        difference = np.abs(model.predict_proba(fresh) - expected.predict_proba(fresh)).max()
        assert difference < ROUNDING
