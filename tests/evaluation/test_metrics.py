"""Metrics agree with hand-worked examples, scikit-learn and SciPy, and refuse what they cannot judge."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import balanced_accuracy_score, recall_score

from gddsg.errors import InputError
from gddsg.evaluation import (
    accuracy_curve,
    accuracy_in_group,
    average_accuracy,
    average_incremental_accuracy,
    backward_transfer,
    class_accuracies,
    expected_calibration_error,
    final_average_accuracy,
    forgetting,
    group_accuracy,
    task_matrix,
)

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


# A run.

NAN = float("nan")
# three tasks that bring two, one and two classes
RUN = [
    [1.0, 0.8, NAN, NAN, NAN],
    [0.9, 0.6, 0.5, NAN, NAN],
    [0.7, 0.8, 0.3, 1.0, 0.4],
]


def test_a_run_by_hand():
    assert final_average_accuracy(RUN) == pytest.approx((0.7 + 0.8 + 0.3 + 1.0 + 0.4) / 5)
    assert forgetting(RUN) == pytest.approx((0.3 + 0.0 + 0.2 + 0.0 + 0.0) / 5)
    assert average_incremental_accuracy(RUN) == pytest.approx((1.8 / 2 + 2.0 / 3 + 3.2 / 5) / 3)
    expected = [[0.9, NAN, NAN], [0.75, 0.5, NAN], [0.75, 0.3, 0.7]]
    np.testing.assert_allclose(task_matrix(RUN, (2, 1, 2)), expected)
    assert backward_transfer(expected) == pytest.approx((-0.15 - 0.2) / 2)


def test_the_curve_has_the_ends_that_are_known():
    curve = accuracy_curve(RUN)
    assert curve[-1] == pytest.approx(final_average_accuracy(RUN))
    assert curve.mean() == pytest.approx(average_incremental_accuracy(RUN))
    assert len(curve) == len(RUN)


def test_forgetting_is_negative_where_accuracy_was_gained():
    assert forgetting([[0.5, NAN], [1.0, 0.5]]) == pytest.approx(-0.25)


def test_a_single_task():
    assert final_average_accuracy([[0.5, 1.0]]) == 0.75
    assert forgetting([[0.5, 1.0]]) == 0.0
    assert average_incremental_accuracy([[0.5, 1.0]]) == 0.75
    assert task_matrix([[0.5, 1.0]], [2]).tolist() == [[0.75]]
    assert np.isnan(backward_transfer([[0.75]]))


def test_nothing_is_forgotten_where_nothing_changes():
    assert forgetting([[0.3, NAN], [0.3, 0.9], [0.3, 0.9]]) == 0.0


def test_what_is_above_the_diagonal_is_no_transfer_backward():
    assert backward_transfer([[0.75, 0.1], [0.5, 0.75]]) == backward_transfer([[0.75, NAN], [0.5, 0.75]]) == -0.25


@st.composite
def runs(draw):
    """Sizes of tasks and a table that fits them."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    table = draw(arrays(np.float64, (len(sizes), sum(sizes)), elements=st.floats(0, 1)))
    table[np.arange(len(sizes))[:, None] < np.repeat(np.arange(len(sizes)), sizes)] = NAN
    return sizes, table


@settings(deadline=None, derandomize=True)
@given(runs())
def test_runs_agree_with_a_loop_over_classes_and_tasks(run):
    sizes, table = run
    first = [next(value for value in column if not np.isnan(value)) for column in table.T]
    assert forgetting(table) == pytest.approx(
        np.mean([a - b for a, b in zip(first, table[-1], strict=True)]), abs=1e-12
    )
    matrix, ends = task_matrix(table, sizes), np.cumsum(sizes)
    for after, row in enumerate(matrix):
        for on, value in enumerate(row):
            if on > after:
                assert np.isnan(value)
            else:
                assert value == pytest.approx(np.mean(table[after, ends[on] - sizes[on] : ends[on]]))
    assert np.average(matrix[-1], weights=sizes) == pytest.approx(final_average_accuracy(table))


@settings(deadline=None, derandomize=True)
@given(runs())
def test_metrics_leave_their_tables_alone(run):
    sizes, table = run
    before = table.copy()
    final_average_accuracy(table), forgetting(table), average_incremental_accuracy(table), task_matrix(table, sizes)
    np.testing.assert_array_equal(table, before)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(labels_and_predictions)
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true:UserWarning")
@pytest.mark.filterwarnings("ignore:A single label was found:UserWarning")
def test_final_accuracy_agrees_with_scikit_learn(pair):
    labels, predictions = pair
    table = [list(class_accuracies(labels, predictions).values())]
    assert final_average_accuracy(table) == pytest.approx(balanced_accuracy_score(labels, predictions))
    expected = recall_score(labels, predictions, labels=sorted(set(labels)), average="macro", zero_division=0)
    assert final_average_accuracy(table) == pytest.approx(expected)


@pytest.mark.parametrize("metric", [final_average_accuracy, forgetting, average_incremental_accuracy])
@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([], "not empty"),
        ([0.5, 0.5], "n_tasks, n_classes"),
        (np.empty((0, 3)), "not empty"),
        ([[NAN, NAN], [0.5, 0.5]], "wrong places"),
        ([[0.5, NAN], [0.5, NAN]], "wrong places"),
        ([[0.5, NAN], [NAN, 0.5], [0.5, 0.5]], "wrong places"),
        ([[NAN, 0.5], [0.5, 0.5]], "order of first appearance"),
        ([[50.0, NAN], [50.0, 75.0]], "Divide percentages by 100"),
        ([[-0.1, 0.5]], "from 0 to 1"),
    ],
    ids=["empty", "1-D", "no task", "nothing first", "nothing last", "hole", "mixed up", "percentages", "negative"],
)
def test_tables_of_no_run_are_refused(metric, table, message):
    with pytest.raises(InputError, match=message):
        metric(table)


@pytest.mark.parametrize("sizes", [(2, 3), (1, 2, 2), (2, 1, 1), (2, 1, 2, 0), (2.0, 1.0, 2.0), 5, (), (2, 1, -2)])
def test_sizes_that_do_not_fit_the_table_are_refused(sizes):
    with pytest.raises(InputError, match=r"bring \[2, 1, 2\] new classes"):
        task_matrix(RUN, sizes)


@pytest.mark.parametrize("matrix", [[], [0.5], [[0.5, 0.5]], [[0.5, NAN], [NAN, 0.5]], [[0.5, NAN], [0.5, 50]]])
def test_what_is_no_task_matrix_is_refused(matrix):
    with pytest.raises(InputError, match="expected"):
        backward_transfer(matrix)


# Groups.


def test_groups_by_hand():
    truth, guess = [0, 0, 1, 1, 2], [0, 1, 1, 1, 0]
    assert group_accuracy(truth, guess) == 0.6
    assert accuracy_in_group(truth, guess, list("aabcd"), list("abbba")) == pytest.approx(2 / 3)


def test_no_group_identified_tells_nothing_about_predictions():
    assert np.isnan(accuracy_in_group([0, 1], [1, 0], [5, 6], [5, 6]))
    assert group_accuracy([0, 1], [1, 0]) == 0.0


@pytest.mark.parametrize(("truth", "guess"), [([], []), ([0], [0, 1]), ([[0]], [[0]]), (1, 1)])
def test_groups_that_cannot_be_compared_are_refused(truth, guess):
    with pytest.raises(InputError, match="equally long, not empty"):
        group_accuracy(truth, guess)
    with pytest.raises(InputError, match="equally long, not empty"):
        accuracy_in_group(truth, guess, [0], [0])
