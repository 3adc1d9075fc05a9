"""Logistic regression by L-BFGS in principal coordinates finds what scikit-learn finds."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from gddsg.core.logistic import PrincipalRows, fit_logistic, scores


@pytest.mark.parametrize("penalty", [1e-2, 1e-3])
def test_weights_are_those_of_scikit_learn(penalty):
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, 120)
    X = (rng.normal(size=(4, 7)) * 1.5)[classes] + rng.normal(0, np.linspace(0.1, 4, 7), (120, 7))
    X -= X.mean(0)
    design = PrincipalRows.of(torch.from_numpy(X))
    start = torch.zeros(8, 4, dtype=torch.float64)
    W = fit_logistic(design, torch.from_numpy(classes), penalty, start, steps=200)
    expected = LogisticRegression(C=1 / (penalty * len(X)), tol=1e-10, max_iter=10_000).fit(X, classes)
    ours = scores(design.rows, W).softmax(1)
    np.testing.assert_allclose(ours, expected.predict_proba(X), atol=2e-4)
    np.testing.assert_allclose(design.basis @ W[:-1], expected.coef_.T, atol=2e-3)


def test_principal_coordinates_are_a_rotation():
    Z = torch.from_numpy(np.random.default_rng(0).normal(size=(30, 5)))
    design = PrincipalRows.of(Z)
    np.testing.assert_allclose(design.rows @ design.basis.T, Z, atol=1e-12)
    np.testing.assert_allclose(design.rows.square().mean(0), design.variances, atol=1e-12)
