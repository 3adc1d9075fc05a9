"""The prediction as one network gives what the predictor gives."""

import numpy as np
import pytest
import torch

from gddsg.core.model import Model, Settings
from gddsg.core.network import PredictionNetwork


def problem(signed, n_classes=12, dim=10, n=25, noise=1.2):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_classes, dim)) * 2
    X = centres.repeat(n, 0) + noise * rng.normal(size=(n_classes * n, dim))
    fresh = centres.repeat(4, 0) + noise * rng.normal(size=(n_classes * 4, dim))
    X, fresh = (part if signed else np.abs(part) for part in (X, fresh))
    return X.astype(np.float32), np.arange(n_classes).repeat(n), fresh.astype(np.float32)


def learnt(X, y, **settings):
    empty = Model(Settings(**settings))
    return empty.plus(empty.make_cards(torch.from_numpy(X), y.tolist()))


def assert_same(model, fresh):
    found = PredictionNetwork(model.predictor)(torch.from_numpy(fresh)).numpy()
    # square roots of torch and of NumPy differ in the last bit of float32
    np.testing.assert_allclose(found, np.exp(model.predictor.predict_log_proba(fresh)), atol=1e-6)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"decision": "hard"},
        {"decision": "ungated"},
        {"decision": "evidence"},
        {"feature_transform": "none"},
        {"grouping": "arrival"},
        {"grouping": "one"},
        {"grouping": "similar", "decision": "hard"},
        {"rank": 3},
    ],
    ids=str,
)
def test_it_equals_the_predictor(signed, settings):
    X, y, fresh = problem(signed)
    assert_same(learnt(X, y, projection_dim=60, **settings), fresh)


@pytest.mark.parametrize("n_classes", [1, 2, 40])
def test_any_number_of_classes(n_classes):
    X, y, fresh = problem(signed=False, n_classes=n_classes, n=6)
    assert_same(learnt(X, y, projection_dim=30), fresh)


def test_heads_are_heard_in_this_test():
    """Were no two plausible classes ever in one group, the tests above would prove nothing about heads."""
    X, y, fresh = problem(signed=False, dim=3, noise=0.5)
    model = learnt(X, y, projection_dim=60)
    network = PredictionNetwork(model.predictor)
    before = network(torch.from_numpy(fresh))
    network.weights.zero_()
    assert not torch.allclose(network(torch.from_numpy(fresh)), before)
    assert_same(model, fresh)
