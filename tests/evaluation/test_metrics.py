"""Metrics agree with hand-worked examples and with scikit-learn, and refuse what they cannot judge."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, recall_score

from gddsg.errors import InputError
from gddsg.evaluation.metrics import average_accuracy, class_accuracies, expected_calibration_error

labels_and_predictions = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)
)


# Accuracy.


def test_class_accuracies_by_hand():
    assert class_accuracies([3, 3, 3, 1, 1, 7], [3, 3, 1, 1, 1, 3]) == {1: 1.0, 3: pytest.approx(2 / 3), 7: 0.0}
    assert class_accuracies(np.array(["b", "a"]), np.array(["b", "b"])) == {"a": 0.0, "b": 1.0}
    assert class_accuracies(torch.tensor([0, 0]), torch.tensor([0, 1])) == {0: 0.5}


def test_classes_that_were_only_predicted_are_not_counted():
    assert class_accuracies([0, 0], [0, 9]) == {0: 0.5}
    assert average_accuracy([0, 0], [0, 9]) == 0.5


def test_labels_come_out_as_plain_python_values():
    assert [type(label) for label in class_accuracies(np.array([2, 1]), np.array([2, 1]))] == [int, int]
    assert [type(label) for label in class_accuracies(np.array(["x"]), np.array(["x"]))] == [str]


def test_average_accuracy_weighs_classes_not_samples():
    assert average_accuracy([0] * 9 + [1], [0] * 10) == 0.5
    assert average_accuracy(["a", "b", "c", "c"], ["a", "a", "c", "a"]) == 0.5
    assert average_accuracy([5, 6], [5, 6]) == 1.0


@settings(max_examples=150, deadline=None, derandomize=True)
@given(labels_and_predictions)
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true:UserWarning")
@pytest.mark.filterwarnings("ignore:A single label was found:UserWarning")
def test_accuracies_agree_with_scikit_learn(pair):
    labels, predictions = pair
    accuracies = class_accuracies(labels, predictions)
    classes = sorted(set(labels))
    assert list(accuracies) == classes
    expected = recall_score(labels, predictions, labels=classes, average=None, zero_division=0)
    assert list(accuracies.values()) == pytest.approx(expected.tolist())
    assert average_accuracy(labels, predictions) == pytest.approx(balanced_accuracy_score(labels, predictions))


@pytest.mark.parametrize(
    ("labels", "predictions"),
    [([], []), ([0, 1], [0]), ([[0], [1]], [[0], [1]]), ([0, 1], [[0, 1]]), (3, 3)],
    ids=["empty", "lengths", "columns", "shapes", "scalars"],
)
@pytest.mark.parametrize("metric", [class_accuracies, average_accuracy])
def test_what_cannot_be_compared_is_refused(metric, labels, predictions):
    with pytest.raises(InputError, match="1-D, equally long, not empty"):
        metric(labels, predictions)


# Calibration.


def test_calibration_error_by_hand():
    table = [[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]]
    # confidence 0.9, both right: gap 0.1; confidence 0.6, one of two right: gap 0.1
    assert expected_calibration_error(table, [0, 0, 1, 0], [0, 1]) == pytest.approx(0.1)
    # the gaps of one bin cancel before their size counts: right by 0.1, then wrong by 0.9
    assert expected_calibration_error(table[:2], [0, 1], [0, 1]) == pytest.approx(0.4)
    # bins weigh as much as they hold: (3 · |1 - 0.9| + 1 · |0 - 0.6|) / 4
    table = [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.4, 0.6]]
    assert expected_calibration_error(table, [0, 0, 0, 0], [0, 1]) == pytest.approx(0.225)


def test_certainty_is_judged_too():
    table = [[1.0, 0.0], [0.0, 1.0]]
    assert expected_calibration_error(table, ["a", "b"], ["a", "b"]) == 0.0
    assert expected_calibration_error(table, ["b", "a"], ["a", "b"]) == 1.0
    # certainty shares the last bin with 0.95: (1 - 0.05) / 2, not (1 + 0.05) / 2
    assert expected_calibration_error([[1.0, 0.0], [0.95, 0.05]], [1, 0], [0, 1]) == pytest.approx(0.475)


def test_columns_are_named_by_the_classes():
    assert expected_calibration_error([[0.8, 0.2]], ["dog"], ["dog", "cat"]) == pytest.approx(0.2)
    assert expected_calibration_error([[0.8, 0.2]], ["dog"], ["cat", "dog"]) == pytest.approx(0.8)


def test_opposite_gaps_cancel_in_one_bin_only():
    table, labels = [[0.95, 0.05], [0.55, 0.45]], [1, 0]
    assert expected_calibration_error(table, labels, [0, 1], n_bins=1) == pytest.approx((0.95 - 0.45) / 2)
    assert expected_calibration_error(table, labels, [0, 1], n_bins=15) == pytest.approx((0.95 + 0.45) / 2)


@pytest.mark.parametrize("n_bins", [1, 5, 15])
def test_calibration_error_is_that_of_a_loop_over_the_bins(n_bins):
    random = np.random.default_rng(0)
    table = random.dirichlet(np.ones(4), 500)
    labels, classes = random.integers(0, 4, 500), np.arange(4)
    confidence, right = table.max(1), table.argmax(1) == labels
    expected = 0.0
    for lower in np.arange(n_bins) / n_bins:
        inside = (confidence >= lower) & (confidence < lower + 1 / n_bins)
        if inside.any():
            expected += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert expected_calibration_error(table, labels, classes, n_bins) == pytest.approx(expected)


def test_calibrated_probabilities_have_nearly_no_error():
    random = np.random.default_rng(1)
    table = random.dirichlet(np.ones(3), 20_000)
    labels = (table.cumsum(1) > random.random(20_000)[:, None]).argmax(1)
    assert expected_calibration_error(table, labels, [0, 1, 2]) < 0.02
    sharpened = table**3 / (table**3).sum(1, keepdims=True)
    assert expected_calibration_error(sharpened, labels, [0, 1, 2]) > 0.1


@pytest.mark.parametrize(
    ("probabilities", "labels", "classes"),
    [
        (np.empty((0, 2)), [], [0, 1]),
        ([[0.8, 0.2]] * 3, [0], [0, 1]),
        ([[0.8, 0.2]] * 3, [0, 1], [0, 1]),
        ([[0.2, 0.8]], [0], [0]),
        ([[0.8, 0.2]], [0], [0, 1, 2]),
        ([0.8, 0.2], [0, 1], [0, 1]),
    ],
    ids=["empty", "one label for all", "lengths", "class missing", "class too many", "1-D"],
)
def test_a_table_that_does_not_fit_its_labels_is_refused(probabilities, labels, classes):
    with pytest.raises(InputError):
        expected_calibration_error(probabilities, labels, classes)
