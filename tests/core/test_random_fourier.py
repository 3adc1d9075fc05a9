"""Inner products of random Fourier features are a Gaussian kernel."""

import numpy as np
import pytest
import torch
from sklearn.metrics.pairwise import rbf_kernel

from gddsg.core.random_fourier import fourier_features


@pytest.mark.parametrize("gamma", [0.05, 0.25, 2.0])
def test_inner_products_approximate_the_gaussian_kernel(gamma):
    X = np.random.default_rng(0).normal(size=(40, 6))
    kernel = rbf_kernel(X, gamma=gamma)
    errors = []
    for n_frequencies in (250, 4000, 64_000):
        Z = fourier_features(torch.from_numpy(X), n_frequencies, gamma, seed=0).numpy()
        errors.append(np.abs(Z @ Z.T - kernel).mean())
    assert errors[2] < 0.004
    assert errors[0] > 2 * errors[1] > 4 * errors[2]  # like one over the root of their number


def test_the_features_are_those_of_the_seed_and_in_float64():
    x = torch.ones(1, 3)
    features = fourier_features(x, 50, 0.25, seed=1)
    assert features.dtype == torch.float64
    assert torch.equal(features, fourier_features(x, 50, 0.25, seed=1))
    assert not torch.equal(features, fourier_features(x, 50, 0.25, seed=2))
