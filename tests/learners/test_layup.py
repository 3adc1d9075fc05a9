"""LayUP is what it says it is, by formulas written out again here; the laws are in ``test_contract.py``."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from gddsg import LayUP
from gddsg.checks.laws import separated_classes
from gddsg.core.content_hash import hash_rows, is_held_out
from gddsg.errors import InputError

SCORE_SCALE = 10
CANDIDATES = [10 ** (k / 2) for k in range(-16, 17)]


def layered_classes(n_classes=6, n=30, widths=(4, 6, 10), *, noise=5.0, scale=1.0, seed=0):
    """Classes seen by layers of different scale, confused now and then, with fresh samples of them."""
    X, y = separated_classes(n_classes, n, sum(widths), seed)
    scales = np.repeat([5.0, 0.5, 1.0], widths) * scale
    X, fresh = ((X + np.random.default_rng(seed + s).normal(0, noise, X.shape)) * scales for s in (1, 2))
    return X.astype(np.float32), y, fresh.astype(np.float32)


def naive_scores(X, y, fresh, regularisation):
    """``argmax_c xᵀ (Σ x xᵀ + λ I)⁻¹ Σ_c x``, sample by sample."""
    gram = np.zeros((X.shape[1], X.shape[1]))
    for x in X.astype(np.float64):
        gram += np.outer(x, x)
    inverse = np.linalg.inv(gram + regularisation * np.eye(len(gram)))
    prototypes = [X[y == c].astype(np.float64).sum(0) for c in np.unique(y)]
    return np.array([[x @ inverse @ prototype for prototype in prototypes] for x in fresh.astype(np.float64)])


@pytest.mark.parametrize("regularisation", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize("sizes", [(6,), (2, 2, 2), (1, 4, 1)], ids=str)
def test_it_is_prototypes_decorrelated_by_the_gram_matrix(sizes, regularisation):
    X, y, fresh = layered_classes()
    model, order = LayUP(regularisation=regularisation), np.random.default_rng(3).permutation(np.unique(y))
    for task in np.split(order, np.cumsum(sizes)[:-1]):
        mask = np.isin(y, task)
        model.partial_fit(X[mask], y[mask])
        seen = np.isin(y, model.classes_)
        scores = naive_scores(X[seen], y[seen], fresh, regularisation)
        assert (model.predict(fresh) == model.classes_[scores.argmax(1)]).all()
        np.testing.assert_allclose(model.predict_proba(fresh), softmax(SCORE_SCALE * scores, axis=1), atol=1e-7)
    assert 0.5 < np.mean(model.predict(fresh) == y) < 1


@pytest.mark.parametrize(("noise", "scale"), [(1.0, 1.0), (5.0, 1e-2), (5.0, 1.0), (9.0, 10.0)])
def test_it_takes_the_penalty_whose_scores_suit_the_held_out_fifth_best_but_for_a_factor(noise, scale):
    X, y, fresh = layered_classes(noise=noise, scale=scale)
    held = is_held_out(hash_rows(torch.from_numpy(X))).numpy()
    targets = (y[:, None] == np.unique(y)).astype(float)
    errors = []
    for candidate in CANDIDATES:
        scores = naive_scores(X[~held], y[~held], X[held], candidate)
        factor = np.linalg.lstsq(scores.reshape(-1, 1), targets[held].ravel())[0]
        errors.append(((targets[held] - factor * scores) ** 2).sum())
    chosen = CANDIDATES[int(np.argmin(errors))]
    assert chosen not in (CANDIDATES[0], CANDIDATES[-1])
    expected = softmax(SCORE_SCALE * naive_scores(X, y, fresh, chosen), axis=1)
    np.testing.assert_allclose(LayUP().fit(X, y).predict_proba(fresh), expected, atol=1e-7)


def test_the_order_of_tasks_changes_nothing():
    X, y, fresh = layered_classes()
    expected = LayUP().fit(X, y).predict_proba(fresh)
    for seed in range(4):
        model = LayUP()
        for label in np.random.default_rng(seed).permutation(np.unique(y)):
            model.partial_fit(X[y == label], y[y == label])
        np.testing.assert_allclose(model.predict_proba(fresh), expected, atol=1e-9)


def test_an_earlier_layer_that_knows_more_is_made_use_of():
    X, y, fresh = layered_classes(noise=1.0)
    last = slice(10, None)
    X[:, last], fresh[:, last] = (np.random.default_rng(s).normal(0, 1, (len(X), 10)) for s in (5, 6))
    assert np.mean(LayUP().fit(X, y).predict(fresh) == y) > np.mean(
        LayUP().fit(X[:, last], y).predict(fresh[:, last]) == y
    )


def test_it_keeps_the_gram_matrix_and_a_prototype_a_class():
    X, y, _ = layered_classes()
    assert LayUP().state_bytes() == 0
    assert LayUP().fit(X, y).state_bytes() == 4 * (20 * 20 + 20 * 6)


@pytest.mark.parametrize("regularisation", [0.0, -1.0, "x", float("nan")])
def test_a_penalty_that_makes_no_sense(regularisation):
    with pytest.raises(InputError, match="regularisation"):
        LayUP(regularisation=regularisation).fit([[1.0], [2.0]], [0, 1])
