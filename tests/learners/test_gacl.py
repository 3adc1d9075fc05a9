"""GACL gives the weights of its paper's recursion, which is written out here."""

import numpy as np
import pytest
from scipy.special import softmax

from gddsg import ACIL, GACL
from gddsg.checks.laws import separated_classes
from gddsg.core.held_out_ridge import REGULARISATIONS
from gddsg.core.projection import projection_weights

M, GAMMA, SCORE_SCALE = 48, 2.0, 20


def samples(n_classes=6, n=20, dim=12, noise=2.0):
    X, y = separated_classes(n_classes, n, dim)
    rows = [np.abs(X + np.random.default_rng(s).normal(0, noise, X.shape)).astype(np.float32) for s in (1, 2)]
    return rows[0], y, rows[1]


def hidden(X):
    weights = projection_weights(X.shape[1], M, seed=0).double().numpy()
    return np.maximum(X.astype(np.float64) @ weights, 0) / np.sqrt(3 * X.shape[1])


def published(batches):
    """Woodbury updates of R, and of weights with and without the gain of exposed classes; a column per class."""
    R, columns = np.eye(M) / GAMMA, {}
    for X, y in batches:
        H = hidden(X)
        R = R - R @ H.T @ np.linalg.inv(np.eye(len(H)) + H @ R @ H.T) @ H @ R
        gain = {name: R @ H.T @ (y == name) for name in np.unique(y)}
        exposed = {name: w - R @ H.T @ (H @ w) + gain.pop(name, 0) for name, w in columns.items()}
        columns = {**exposed, **gain}  # what is left in the gain are the weights of new classes
    return np.stack([columns[name] for name in sorted(columns)], axis=1)


def grown(learner, batches):
    for X, y in batches:
        learner.partial_fit(X, y)
    return learner


def expected_probabilities(batches, fresh):
    return softmax(SCORE_SCALE * hidden(fresh) @ published(batches), axis=1)


STREAMS = {
    "a class a batch": lambda y: [y == c for c in np.unique(y)],
    "every class comes back in every batch": lambda y: [np.arange(len(y)) % 4 == part for part in range(4)],
    "blurred tasks": lambda y: [
        np.random.default_rng(0).choice(5, len(y), p=[0.4, 0.3, 0.1, 0.1, 0.1]) == p for p in range(5)
    ],
    "sample by sample": lambda y: list(np.eye(len(y), dtype=bool)[np.random.default_rng(0).permutation(len(y))]),
}


@pytest.mark.parametrize("stream", STREAMS)
def test_weights_are_those_of_the_published_recursion(stream):
    X, y, fresh = samples()
    batches = [(X[rows], y[rows]) for rows in STREAMS[stream](y)]
    model = grown(GACL(projection_dim=M, regularisation=GAMMA), batches)
    np.testing.assert_allclose(model.predict_proba(fresh), expected_probabilities(batches, fresh), atol=1e-8)
    assert 0.5 < np.mean(model.predict(fresh) == y) < 1


@pytest.mark.parametrize("n", [1, 4])
def test_one_class_and_one_sample(n):
    X, _, fresh = samples()
    model = GACL(projection_dim=M, regularisation=GAMMA).fit(X[:n], ["only"] * n)
    assert set(model.predict(fresh)) == {"only"}
    batches = [(X[:n], np.array(["only"] * n)), (X[-1:], np.array(["other"]))]
    model.partial_fit(*batches[1])
    np.testing.assert_allclose(model.predict_proba(fresh), expected_probabilities(batches, fresh), atol=1e-8)


@pytest.mark.parametrize("learner", [ACIL, GACL])
@pytest.mark.parametrize("n", [4, 40], ids=["fewer samples than units", "more"])
def test_a_penalty_of_none_is_one_of_the_grid(learner, n):
    X, y, fresh = samples(n=n)
    chosen = learner(projection_dim=M, regularisation=None).fit(X, y).predict_proba(fresh)
    tables = [learner(projection_dim=M, regularisation=r).fit(X, y).predict_proba(fresh) for r in REGULARISATIONS[1:]]
    assert sum(np.allclose(chosen, table, atol=1e-7) for table in tables) == 1


def test_gacl_is_acil_but_for_its_constants():
    X, y, fresh = samples()
    tables = [
        learner(projection_dim=M, regularisation=GAMMA).fit(X, y).predict_proba(fresh) for learner in (ACIL, GACL)
    ]
    np.testing.assert_array_equal(*tables)
    assert (ACIL().projection_dim, GACL().projection_dim) == (8192, 5000)


def test_the_state_is_the_inverse_and_the_weights():
    X, y, _ = samples()
    assert GACL(projection_dim=M).state_bytes() == 0
    assert GACL(projection_dim=M).fit(X, y).state_bytes() == 8 * (M * M + M * 6)
