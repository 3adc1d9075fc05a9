"""Features and labels of every kind are taken as what they are, or refused in words."""

import numpy as np
import pytest
import torch

from gddsg import GDDSG, LEARNERS
from gddsg.errors import InputError, InputTypeError
from gddsg.learners.features import checked_features
from gddsg.learners.labels import checked_groups, checked_labels

X = torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
OF_FEATURES = [name for name, learner in LEARNERS.items() if learner.takes == "features"]


def read(features):
    return checked_features(features, {}, "Learner", "cpu")[0]


# Features.


@pytest.mark.parametrize(
    "dtype",
    [torch.uint8, torch.int8, torch.uint16, torch.int64, torch.uint64, torch.float16, torch.float32, torch.float64],
)
def test_tensors_of_any_number_are_features(dtype):
    assert torch.equal(read(X.to(dtype)), X)
    assert read(X.to(dtype)).dtype == torch.float32


def test_bool_is_zero_and_one_in_tensors_as_in_arrays():
    assert torch.equal(read(X > 2), read((X > 2).numpy()))
    assert torch.equal(read(X > 2), (X > 2).float())


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch warns of quantised and nested tensors
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: X.to_sparse(), "sparse"),
        (lambda: X.to_sparse_csr(), "sparse"),
        (lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8), "quantised"),
        (lambda: X.to("meta"), "meta"),
        (lambda: torch.nested.nested_tensor([X[0], X[1, :2]]), "nested"),
    ],
)
def test_tensors_that_hold_no_rows_are_refused(make, kind):
    with pytest.raises(InputTypeError, match=kind):
        read(make())


@pytest.mark.parametrize(
    "features",
    [
        torch.full((2, 3), -(2**63)),
        [[10**400, 1]],
        np.array([[10**400, 1]], dtype=object),
        np.ma.masked_array(X.numpy(), mask=X.numpy() > 4),
    ],
    ids=["the least integer", "a huge integer", "a huge integer among objects", "masked"],
)
def test_features_that_no_float_stands_for_are_refused(features):
    with pytest.raises(InputError):
        read(features)


# Labels.


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "a\0"],
        ("a", "a\0"),
        np.array(["a", "a\0"], dtype=object),
        np.array(["a", "b\0c"]),
        [2**63, 2**63 + 1],
        [2**63, -1],
        [2**63, 2.0],
        np.array([2**63, 2**63 + 1], dtype=np.uint64),
        np.array([2**63, 1], dtype=object),
        np.array([2.0**53, 1]),
        np.array([2**24 + 1, 1], dtype=np.float32),
        torch.tensor([2**24 + 1, 1], dtype=torch.float32),
        torch.tensor([2**63, 1], dtype=torch.uint64),
        [2.0**53, 2**53 + 1],
        [10**400, 1],
        torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
        torch.tensor([1, 2]).to_sparse(),
        torch.empty(2, device="meta"),
        np.ma.masked_array([1, 2], mask=[True, False]),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_labels_that_could_be_mistaken_are_refused(labels):
    with pytest.raises(InputError):
        checked_labels(labels, 2, [])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([2**53, 2**53 + 1], [2**53, 2**53 + 1]),
        (np.array([-(2**63), 2**63 - 1]), [-(2**63), 2**63 - 1]),
        ([np.int64(3), 4], [3, 4]),
        ([torch.tensor(3), torch.tensor(4)], [3, 4]),
        ([np.str_("a"), "b"], ["a", "b"]),
        (torch.tensor([True, False]), [1, 0]),
        ([3.0, 4], [3, 4]),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_labels_keep_their_value(labels, expected):
    found = checked_labels(labels, 2, [])
    assert found == expected
    assert {type(label) for label in found} == {type(expected[0])}


@pytest.mark.parametrize("name", OF_FEATURES)
def test_labels_at_both_ends_of_64_bits_stay_apart(name):
    features = np.repeat(np.eye(2, 6), 4, axis=0) * 5
    labels = np.repeat([2**63 - 2, 2**63 - 1], 4)
    learner = LEARNERS[name](**LEARNERS[name].test_params()).fit(features, labels)
    assert learner.predict(features).tolist() == labels.tolist()


def test_a_class_gets_no_name_that_could_be_mistaken():
    model = GDDSG(projection_dim=8).fit(np.eye(4), ["a", "a", "b", "b"])
    with pytest.raises(InputError, match="NUL"):
        model.rename("a", "c\0")


def test_ragged_groups_are_refused():
    with pytest.raises(InputError, match="whole number"):
        checked_groups([[0], [0, 1]], 2, 2)


# Features that a learner may meet, of whatever size and rank.

SCALES = (1e-14, 1e-7, 1.0, 1e7, 1e14)


def batches():
    rng = np.random.default_rng(0)
    y = np.arange(24) % 3
    F = rng.normal(0, 1, (24, 12)) + np.eye(3, 12)[y] * 6
    yield from ((f"times {scale:g}", F * scale, y) for scale in SCALES)
    yield from ((f"roots times {scale:g}", np.abs(F) * scale, y) for scale in SCALES)
    yield from ((f"constant {value:g}", np.full((24, 12), value), y) for value in (0.0, 0.1, 1e-14, 1e14, -1e14))
    yield from ((f"one a class, times {scale:g}", F[:3] * scale, y[:3]) for scale in SCALES)
    yield from ((f"one class, times {scale:g}", F[:5] * scale, y[:5] * 0) for scale in SCALES)
    yield from ((f"one feature, times {scale:g}", F[:, :1] * scale, y) for scale in SCALES)
    yield "columns of mixed scale", F * np.logspace(-14, 14, 12), y
    yield "rows of mixed scale", F * np.logspace(-14, 14, 24)[:, None], y
    yield "one large column", np.where(np.arange(12) == 0, 1e14, F), y
    yield "copies", np.repeat(F[:3], 8, axis=0), np.repeat(y[:3], 8)
    yield "copies of one sample in all classes", np.repeat(F[:1], 24, axis=0) * 1e14, y
    yield "rank one", F[:, :1] * F[:1], y
    yield "an offset that leaves no digits", F * 1e-3 + 1e4, y


BATCHES = {name: (F, y) for name, F, y in batches()}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", OF_FEATURES)
def test_probabilities_are_finite_whatever_the_features(name, batch):
    F, y = BATCHES[batch]
    learner = LEARNERS[name](**LEARNERS[name].test_params())
    for rows in np.array_split(np.arange(len(F)), min(2, len(F))):
        learner.partial_fit(F[rows], y[rows])
    for asked in (F, F[::-1] / 3, np.zeros_like(F)):
        table = learner.predict_proba(asked)
        assert np.isfinite(table).all()
        np.testing.assert_allclose(table.sum(1), 1, atol=1e-9)
        assert np.isin(learner.predict(asked), y).all()


@pytest.mark.parametrize("scale", [1e-7, 1e7, 1e14])
@pytest.mark.parametrize("name", OF_FEATURES)
def test_separated_classes_are_told_apart_at_any_scale(name, scale):
    F, y = BATCHES["times 1"]
    learner = LEARNERS[name](**LEARNERS[name].test_params()).fit(F * scale, y)
    assert np.mean(learner.predict(F * scale) == y) > 0.9


def test_a_device_that_holds_no_numbers_is_refused():
    with pytest.raises(InputError, match="device='meta' cannot be used"):
        GDDSG(projection_dim=8, device="meta").fit(np.eye(4), ["a", "a", "b", "b"])
