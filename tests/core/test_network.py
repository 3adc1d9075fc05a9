"""The prediction as one network gives what the model gives."""

import numpy as np
import pytest
import torch

from gddsg import GDDSG
from gddsg.errors import InputError


def problem(signed, n_classes=12, dim=10, n=25, noise=1.2):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_classes, dim)) * 2
    X = centres.repeat(n, 0) + noise * rng.normal(size=(n_classes * n, dim))
    fresh = centres.repeat(4, 0) + noise * rng.normal(size=(n_classes * 4, dim))
    X, fresh = (part if signed else np.abs(part) for part in (X, fresh))
    return X.astype(np.float32), np.arange(n_classes).repeat(n), fresh.astype(np.float32)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"decision": "hard"},
        {"decision": "ungated"},
        {"feature_transform": "none"},
        {"grouping": "arrival"},
        {"grouping": "one"},
        {"grouping": "similar", "decision": "hard"},
        {"rank": 3},
    ],
    ids=str,
)
def test_it_equals_predict_proba(signed, settings):
    X, y, fresh = problem(signed)
    model = GDDSG(projection_dim=60, **settings).fit(X, y)
    np.testing.assert_allclose(model.network()(torch.from_numpy(fresh)).numpy(), model.predict_proba(fresh), atol=1e-9)


@pytest.mark.parametrize("n_classes", [1, 2, 40])
def test_any_number_of_classes(n_classes):
    X, y, fresh = problem(signed=False, n_classes=n_classes, n=6)
    model = GDDSG(projection_dim=30).fit(X, y)
    np.testing.assert_allclose(model.network()(torch.from_numpy(fresh)).numpy(), model.predict_proba(fresh), atol=1e-9)


def test_heads_are_heard_in_this_test():
    """Were no two plausible classes ever in one group, the tests above would prove nothing about heads."""
    X, y, fresh = problem(signed=False, dim=3, noise=0.5)
    model = GDDSG(projection_dim=60).fit(X, y)
    network = model.network()
    before = network(torch.from_numpy(fresh))
    network.weights.zero_()
    assert not torch.allclose(network(torch.from_numpy(fresh)), before)
    np.testing.assert_allclose(before.numpy(), model.predict_proba(fresh), atol=1e-9)


@pytest.mark.parametrize("identification", ["vote", "tree"])
def test_a_vote_is_no_network(identification):
    X, y, _ = problem(signed=False, n_classes=3)
    with pytest.raises(InputError, match="only 'evidence'"):
        GDDSG(projection_dim=30, identification=identification).fit(X, y).network()
