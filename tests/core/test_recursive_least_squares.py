"""The inverse autocorrelation of recursive least squares is the inverse of the sum."""

import numpy as np
import pytest
import torch

from gddsg.core.recursive_least_squares import inverse_with_gram, inverse_with_rows

M = 12


def rows(n, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 3, (n, M)))


@pytest.mark.parametrize("sizes", [(1,), (5, 1), (12, 12), (13,), (40, 3, 100)], ids=str)
def test_the_inverse_is_that_of_all_rows(sizes):
    inverse, seen = torch.eye(M, dtype=torch.float64) / 0.1, []
    for seed, n in enumerate(sizes):
        seen.append(rows(n, seed))
        inverse = inverse_with_rows(inverse, seen[-1])
        X = torch.cat(seen).numpy()
        np.testing.assert_allclose(inverse, np.linalg.inv(X.T @ X + 0.1 * np.eye(M)), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("n", [3, 30])
def test_rows_and_their_gram_matrix_lead_to_the_same_place(n):
    start = inverse_with_rows(torch.eye(M, dtype=torch.float64) / 0.1, rows(5, seed=9))
    X = rows(n)
    np.testing.assert_allclose(inverse_with_gram(start, X.T @ X), inverse_with_rows(start, X), rtol=1e-8, atol=1e-12)


def test_many_rows_are_taken_in_chunks(monkeypatch):
    start, X = torch.eye(M, dtype=torch.float64) / 0.1, rows(30)
    whole = inverse_with_rows(start, X)
    monkeypatch.setattr("gddsg.core.recursive_least_squares._ROWS_AT_ONCE", 4)
    in_chunks = inverse_with_rows(start, X)
    assert not torch.equal(in_chunks, whole)
    np.testing.assert_allclose(in_chunks, whole, rtol=1e-8, atol=1e-13)


def test_thousands_of_small_updates_stay_symmetric_and_sound():
    inverse, X = torch.eye(M, dtype=torch.float64) / 0.1, rows(3000)
    for chunk in X.split(3):
        inverse = inverse_with_rows(inverse, chunk)
    assert torch.equal(inverse, inverse.T)
    np.testing.assert_allclose(inverse, torch.linalg.inv(X.T @ X + 0.1 * torch.eye(M)), rtol=1e-6, atol=1e-12)
