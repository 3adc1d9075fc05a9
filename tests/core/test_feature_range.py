"""Features of networks: what is no number or out of range is refused, what is tiny counts as zero."""

import numpy as np
import pytest

from gddsg.core.feature_range import usable_features
from gddsg.errors import InputError


def test_usual_features_stay_and_tiny_ones_are_zero():
    features = np.array([[1.5, -1e-20, 0.0], [-3.0, 1e14, 1e-15]], dtype=np.float32)
    expected = np.array([[1.5, 0.0, 0.0], [-3.0, 1e14, 1e-15]], dtype=np.float32)
    np.testing.assert_array_equal(usable_features(features), expected)
    assert usable_features(np.zeros((2, 3), dtype=np.float32)).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("bad", "message"),
    [(np.nan, "NaN or infinity"), (-np.inf, "NaN or infinity"), (2e15, "exceeds 1e\\+15"), (-2e15, "exceeds 1e\\+15")],
)
def test_what_no_learner_can_use_is_refused(bad, message):
    with pytest.raises(InputError, match=message):
        usable_features(np.array([[1.0, bad]], dtype=np.float32))


def test_features_that_are_all_tiny_are_refused():
    with pytest.raises(InputError, match="All features are below 1e-15"):
        usable_features(np.array([[1e-20, 0.0]], dtype=np.float32))
