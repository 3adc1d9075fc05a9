"""Ridge regression from sums is that from samples, and the penalty is the best of the grid on what is held out."""

import numpy as np
import pytest
import torch

from gddsg.core import held_out_ridge
from gddsg.core.content_hash import hash_rows, is_held_out
from gddsg.core.held_out_ridge import REGULARISATIONS, RidgeSums, choose_regularisation, ridge_scores
from gddsg.core.projection import project

DIM = 40


def samples(n=120, noise=1.0, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(4, DIM))
    labels = rng.integers(4, size=n)
    rows = scale * (centres[labels] + noise * rng.normal(size=(n, DIM)) / (1 + np.arange(DIM)))
    return torch.from_numpy(rows.astype(np.float32)), labels


def sums_of(X, labels, hold_out=True):
    return RidgeSums.empty(DIM, hold_out).plus(X, labels.tolist(), torch.Tensor.double)


def stacked(sums):
    return torch.stack([sums.sums[c] for c in range(4)], dim=2)


def errors_row_by_row(X, labels):
    H, Y = X.double().numpy(), np.eye(4)[labels]
    held = is_held_out(hash_rows(X)).numpy()
    H, Y, H_held, Y_held = H[~held], Y[~held], H[held], Y[held]
    weights = [np.linalg.solve(H.T @ H + penalty * np.eye(H.shape[1]), H.T @ Y) for penalty in REGULARISATIONS]
    return [float(((Y_held - H_held @ theta) ** 2).sum()) for theta in weights]


@pytest.mark.parametrize("hold_out", [False, True])
def test_weights_are_those_of_all_samples_however_they_came(hold_out):
    X, labels = samples()
    sums = RidgeSums.empty(DIM, hold_out)
    for rows in np.array_split(np.random.default_rng(1).permutation(len(X)), 7):
        sums = sums.plus(X[rows], labels[rows].tolist(), torch.Tensor.double)
    H, Y = X.double().numpy(), np.eye(4)[labels]
    expected = np.linalg.solve(H.T @ H + 3 * np.eye(DIM), H.T @ Y)
    np.testing.assert_allclose(sums.weights([0, 1, 2, 3], 3.0), expected, atol=1e-10)
    np.testing.assert_allclose(sums.weights([2, 0], 3.0), expected[:, [2, 0]], atol=1e-10)
    scores = ridge_scores(X, torch.Tensor.double, sums.weights([0, 1, 2, 3], 3.0))
    np.testing.assert_allclose(scores, H @ expected, atol=1e-10)


def test_adding_a_batch_leaves_the_sums_before_it_as_they_are():
    X, labels = samples()
    before = sums_of(X, labels)
    gram, names = before.grams.clone(), set(before.sums)
    before.plus(X[:3], [7, 7, 8], torch.Tensor.double)
    assert torch.equal(before.grams, gram)
    assert set(before.sums) == names


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("noise", "scale"), [(0.2, 1.0), (3.0, 1.0), (3.0, 1e-3), (10.0, 100.0)])
def test_the_penalty_is_the_best_of_the_grid(noise, scale, seed):
    X, labels = samples(noise=noise, scale=scale, seed=seed)
    sums = sums_of(X, labels)
    assert choose_regularisation(sums.grams, stacked(sums)) == REGULARISATIONS[np.argmin(errors_row_by_row(X, labels))]


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_layer_starts_where_its_first_units_lead(monkeypatch, seed):
    """And takes few factorisations of its own width."""
    X, labels = samples(noise=5.0, seed=seed)
    wide = project(X[:, :10].double(), 300, seed).float()
    sums = RidgeSums.empty(300, True).plus(wide, labels.tolist(), torch.Tensor.double)
    errors = errors_row_by_row(wide, labels)
    heights, cholesky = [], held_out_ridge.cholesky
    monkeypatch.setattr(held_out_ridge, "_NARROW", 100)
    monkeypatch.setattr(held_out_ridge, "cholesky", lambda matrix: heights.append(len(matrix)) or cholesky(matrix))
    assert choose_regularisation(sums.grams, stacked(sums)) == REGULARISATIONS[np.argmin(errors)]
    assert heights[0] == 100
    assert heights.count(300) <= 3


def test_the_slope_is_that_of_the_error():
    X, labels = samples()
    sums = sums_of(X, labels)
    for penalty in (0.01, 1.0, 30.0):
        below, above = (
            held_out_ridge._held_out_error(sums.grams, stacked(sums), penalty * step)[0] for step in (0.9999, 1.0001)
        )
        slope = held_out_ridge._held_out_error(sums.grams, stacked(sums), penalty)[1]
        np.testing.assert_allclose(slope, (above - below) / (0.0002 * penalty), rtol=1e-4)


def test_without_held_out_samples_the_penalty_is_of_the_size_of_the_gram_matrix():
    X, labels = samples()
    learnt = ~is_held_out(hash_rows(X))
    sums = sums_of(X[learnt], labels[learnt.numpy()])
    level = float(sums.grams[0].diagonal().mean())
    assert 0.3 < choose_regularisation(sums.grams, stacked(sums)) / level < 3.3


def test_samples_without_any_spread_have_a_penalty_too():
    sums = RidgeSums.empty(DIM, True).plus(torch.zeros(9, DIM), [0, 1, 2] * 3, torch.Tensor.double)
    assert sums.weights([0, 1, 2], None).abs().max() == 0
