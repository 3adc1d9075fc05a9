"""GDDSG on real features; skips where there are none."""

import os
from pathlib import Path

import numpy as np
import pytest

from gddsg import GDDSG, RanPAC
from gddsg.evaluation import average_accuracy, expected_calibration_error

pytestmark = pytest.mark.datasets

PARAMETERS = {"projection_dim": 2000, "seed": 0}


@pytest.fixture(scope="module")
def cub200():
    """Features and labels of CUB-200: learning share, then test share."""
    path = Path(os.environ.get("GDDSG_FEATURES", "features")) / "cub200_efficientnet-lite0.npz"
    if not path.is_file():
        pytest.skip(f"there is no {path.name}; name the folder it is in by GDDSG_FEATURES")
    with np.load(path) as file:

        def features(codes):
            return ((codes / 255.0) ** 2 * file["scale"]).astype(np.float32)

        assert len(file["classes"]) == 200
        learning = features(file["train_codes"]), file["train_labels"].astype(int)
        return *learning, features(file["test_codes"]), file["test_labels"].astype(int)


def learn_in_tasks(model, X, y, n_tasks=10):
    order = np.random.RandomState(1993).permutation(200)
    for task in np.array_split(order, n_tasks):
        rows = np.isin(y, task)
        model.partial_fit(X[rows], y[rows])
    return model


def percent(model, X, y):
    """A_N, the mean over classes of the accuracy on each."""
    return 100 * average_accuracy(y, model.predict(X))


@pytest.fixture(scope="module")
def model(cub200):
    X, y, _, _ = cub200
    return learn_in_tasks(GDDSG(**PARAMETERS), X, y)


@pytest.fixture(scope="module")
def accuracy(model, cub200):
    _, _, X_test, y_test = cub200
    return percent(model, X_test, y_test)


def test_ten_tasks_reach_the_accuracy_measured_before(accuracy):
    assert accuracy >= 75.1


def test_it_stands_well_above_ranpac(accuracy, cub200):
    X, y, X_test, y_test = cub200
    peer = percent(learn_in_tasks(RanPAC(**PARAMETERS), X, y), X_test, y_test)
    assert peer > 60  # a peer that does not work would prove nothing
    assert accuracy >= peer + 4


def test_its_probabilities_can_be_trusted(model, cub200):
    _, _, X_test, y_test = cub200
    assert expected_calibration_error(model.predict_proba(X_test), y_test, model.classes_) <= 0.08


def test_splitting_every_class_over_three_batches_costs_nothing(accuracy, cub200):
    X, y, X_test, y_test = cub200
    place_in_class = np.empty(len(y), dtype=int)
    for c in range(200):
        place_in_class[y == c] = np.arange(np.sum(y == c))
    split = GDDSG(**PARAMETERS)
    for batch in range(3):
        rows = place_in_class % 3 == batch
        assert set(y[rows]) == set(range(200))
        split.partial_fit(X[rows], y[rows])
    assert abs(percent(split, X_test, y_test) - accuracy) < 0.05
