"""The projection under the heads is drawn once and for all."""

import numpy as np
import pytest
import torch

from gddsg.core.projection import exact_projection_weights, project, projection_weights


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_weights_of_a_projection_never_change():
    """Model files hold a seed only: should these numbers change, every model written before would be lost."""
    weights = projection_weights(3, 5, seed=0)
    expected = np.float32([1.7640524, 0.4001572, 0.978738])
    assert weights.dtype == torch.float32
    assert weights.shape == (3, 5)
    assert weights[0, :3].numpy().tolist() == expected.tolist()
    assert weights[2, 4].item() == np.float32(0.44386324)
    assert projection_weights(2, 2, seed=1)[0].numpy().tolist() == np.float32([1.6243454, -0.6117564]).tolist()


def test_weights_depend_on_the_arguments_alone():
    weights = projection_weights(7, 11, seed=4).clone()
    projection_weights.cache_clear()
    np.random.seed(1)  # noqa: NPY002 - the global generator must be of no influence
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    assert torch.equal(projection_weights(7, 11, seed=4), weights)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert not torch.equal(projection_weights(7, 11, seed=5), weights)


def test_weights_are_standard_normal():
    weights = projection_weights(300, 400, seed=2).double()
    assert float(weights.mean()) == pytest.approx(0, abs=0.01)
    assert float(weights.var()) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_projecting_is_a_product_without_its_negative_part(dtype):
    features = normal(20, 6).to(dtype)
    before, weights = features.clone(), projection_weights(6, 30, seed=9).clone()
    projected = project(features, 30, seed=9)
    expected = (features.double() @ weights.double()).clamp(min=0)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(projected, expected.to(dtype), rtol=tolerance, atol=tolerance)
    assert 0.3 < float((projected == 0).double().mean()) < 0.7
    assert torch.equal(features, before)
    assert torch.equal(projection_weights(6, 30, seed=9), weights)


def test_predictions_take_the_same_weights_in_float64():
    exact = exact_projection_weights(6, 30, seed=9)
    assert exact.dtype == np.float64
    assert np.array_equal(exact, projection_weights(6, 30, seed=9).numpy().astype(np.float64))
