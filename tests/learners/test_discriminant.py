"""The discriminant alone: GDDSG without what it adds."""

import numpy as np
import pytest
import torch
from tests.core.test_predictor import problem

from gddsg import GDDSG
from gddsg.learners import Discriminant


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("transform", ["auto", "none"])
def test_it_is_gddsg_without_groups_and_heads(signed, transform):
    """The formula itself is checked in tests/core/test_predictor.py."""
    samples, fresh = problem(signed=signed)
    X, y = torch.cat(samples).numpy(), np.repeat(np.arange(len(samples)), [len(rows) for rows in samples])
    alone = Discriminant(rank=8, feature_transform=transform).fit(X, y)
    whole = GDDSG(projection_dim=32, rank=8, feature_transform=transform, decision="evidence").fit(X, y)
    np.testing.assert_allclose(alone.predict_proba(fresh), whole.predict_proba(fresh), rtol=1e-9)


def test_it_keeps_next_to_nothing_for_heads():
    X, y = np.random.default_rng(0).random((60, 16)), np.repeat([0, 1, 2], 20)
    alone, whole = Discriminant().fit(X, y), GDDSG().fit(X, y)
    assert alone.state_bytes() < whole.state_bytes() / 4
    assert alone.learnt_.state.cards[0].projected.dim == 0
