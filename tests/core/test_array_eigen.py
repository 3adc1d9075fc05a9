"""Eigenvalues of arrays, also where the quick way does not converge."""

import numpy as np

from gddsg.core import array_eigen


def test_both_ways_decompose(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(3, 5))
    matrix = rows.T @ rows

    def fail(matrix):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    quick = array_eigen.array_eigen(matrix)
    monkeypatch.setattr(np.linalg, "eigh", fail)
    for values, vectors in (quick, array_eigen.array_eigen(matrix)):
        np.testing.assert_allclose(vectors * values @ vectors.T, matrix, atol=1e-12)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=1e-12)
        assert (np.diff(values) >= 0).all()
