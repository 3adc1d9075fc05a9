"""The random layer has the size of one that PyTorch has just made."""

import numpy as np
import torch

from gddsg.core.projection import projection_weights
from gddsg.core.random_layer import random_layer


def test_units_are_as_large_as_those_of_a_new_linear_layer():
    X = torch.from_numpy(np.random.default_rng(0).normal(size=(200, 30)).astype(np.float32))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = torch.nn.Linear(30, 4000, bias=False)(X).relu().detach()
    found = random_layer(X, 4000, seed=0)
    np.testing.assert_allclose(found.square().mean(), expected.square().mean(), rtol=0.02)


def test_units_are_scaled_projections_in_float64():
    X = torch.tensor([[1.0, -2.0, 0.5]])
    expected = np.maximum(X.double().numpy() @ projection_weights(3, 7, seed=4).double().numpy() / 3, 0)
    found = random_layer(X, 7, seed=4)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found, expected, rtol=1e-12)
