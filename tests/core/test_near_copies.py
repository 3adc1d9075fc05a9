"""Near copies of a sample weigh no more than the sample, whatever order and batches they come in."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gddsg.core import near_copies
from gddsg.core.class_card import ClassCard
from gddsg.core.model import Model, Settings
from gddsg.core.near_copies import MOST_BITS, NO_SKETCHES, SKETCH_BITS, count_distinct, has_copies, sketch_samples
from gddsg.errors import InputError

DIM = 256
SETTINGS = Settings(projection_dim=16, rank=8)


def originals(n, seed=0):
    return np.abs(np.random.default_rng(seed).normal(size=(n, DIM))).astype(np.float32)


def with_copies(X, copies, noise=0.02, seed=1):
    """Every row, and so many rows more that are all but the same."""
    again = np.repeat(X, copies + 1, axis=0)
    jitter = noise * np.random.default_rng(seed).normal(size=again.shape)
    jitter[:: copies + 1] = 0
    return np.abs(again + jitter).astype(np.float32)


def card_of(X, first=0):
    blank = Model(SETTINGS)
    ids = np.arange(first, first + len(X), dtype=np.uint64)
    return blank.make_cards(torch.from_numpy(X), ["a"] * len(X), ids)["a"]


def test_two_samples_differ_in_the_share_of_bits_that_is_their_angle():
    a, b = (X - X.mean(1, keepdims=True) for X in np.sqrt(originals(2)).reshape(2, 1, DIM))
    angle = np.arccos((a @ b.T).item() / np.linalg.norm(a) / np.linalg.norm(b))
    found = np.bitwise_count(np.bitwise_xor(*sketch_samples(originals(2)))).sum() / SKETCH_BITS
    assert found == pytest.approx(angle / np.pi, abs=3 * (0.25 / SKETCH_BITS) ** 0.5)


def test_near_copies_count_as_one_and_others_by_themselves():
    X = originals(12)
    assert card_of(X).distinct == card_of(X).count == 12
    card = card_of(with_copies(X, 9))
    assert (card.count, card.distinct) == (120, 12)
    one_burst = np.concatenate([X, with_copies(X[:1], 50)[1:]])
    assert (card_of(one_burst).count, card_of(one_burst).distinct) == (62, 12)


def test_samples_without_an_id_are_no_copies():
    X = torch.from_numpy(with_copies(originals(3), 9))
    bare = Model(SETTINGS).make_cards(X, ["a"] * 30)["a"]
    assert (bare.distinct, len(bare.sketches)) == (30, 0)
    assert bare.merge(card_of(X.numpy()), 8).distinct == 33


def test_in_few_dimensions_nothing_is_a_copy():
    X = np.ones((5, SKETCH_BITS - 1), dtype=np.float32)
    assert sketch_samples(X).shape == NO_SKETCHES.shape
    assert card_of(X).distinct == 5


def test_samples_that_are_all_the_same_or_zero_are_one():
    for value in (0.0, 1.0):
        assert card_of(np.full((7, DIM), value, dtype=np.float32)).distinct == 1


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(24)), st.integers(1, 23))
def test_neither_order_nor_split_changes_the_number(order, cut):
    X = with_copies(originals(6), 3)
    whole = card_of(X)
    parts = [card_of(X[np.array(part)], first) for part, first in ((order[:cut], 0), (order[cut:], 100))]
    for joined in (parts[0].merge(parts[1], 8), parts[1].merge(parts[0], 8)):
        assert joined.distinct == whole.distinct == 6
        np.testing.assert_array_equal(joined.sketches, whole.sketches)


def test_samples_of_a_class_that_all_look_alike_are_no_copies():
    """As letters do to a network of photos: it is by what is usual in the class that copies are found."""
    alike = originals(1).repeat(30, 0)
    alike = np.abs(alike + 0.12 * np.random.default_rng(2).normal(size=alike.shape)).astype(np.float32)
    distances = np.bitwise_count(sketch_samples(alike)[:1] ^ sketch_samples(alike)[1:]).sum(1)
    assert np.median(distances) <= MOST_BITS
    assert card_of(alike).distinct == 30
    assert card_of(with_copies(alike, 3, noise=0.005)).distinct == 30


def test_others_may_be_copies_of_samples_of_a_class():
    X = originals(20)
    fresh, again = originals(5, seed=9), with_copies(X[:5], 1)[1::2]
    every = sketch_samples(X)
    assert not has_copies(sketch_samples(fresh), every).any()
    assert has_copies(sketch_samples(again), every).all()
    assert not has_copies(sketch_samples(again), NO_SKETCHES).any()
    assert has_copies(every[:1], every[:1]).all()


def test_of_very_many_samples_some_are_asked_about(monkeypatch):
    sketches = sketch_samples(with_copies(originals(100), 4))
    assert count_distinct(500, sketches) == 100
    monkeypatch.setattr(near_copies, "_ASKED_ABOUT", 60)
    monkeypatch.setattr(near_copies, "_ROWS_AT_ONCE", 7)
    assert count_distinct(500, sketches) == pytest.approx(100, abs=5)


def test_a_model_of_exact_copies_is_the_model_without_them():
    rng = np.random.default_rng(3)
    centres = np.abs(rng.normal(size=(6, DIM))) + 1
    X = np.abs(centres.repeat(10, 0) + 0.8 * rng.normal(size=(60, DIM))).astype(np.float32)
    labels = [f"class {i}" for i in np.arange(6).repeat(10)]
    tests = torch.from_numpy(np.abs(centres.repeat(20, 0) + 0.8 * rng.normal(size=(120, DIM))).astype(np.float32))
    found = []
    for copies in (1, 6):
        model, rows = Model(SETTINGS), np.tile(X, (copies, 1))
        cards = model.make_cards(torch.from_numpy(rows), labels * copies, np.arange(len(rows), dtype=np.uint64))
        grown = model.plus(cards)
        metric = grown.derived.metric
        found.append((metric.shrinkage, metric.temperature, grown.predictor.predict_log_proba(tests.numpy())))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1])
    np.testing.assert_allclose(np.exp(found[0][2]), np.exp(found[1][2]), atol=0.02)


def test_a_thinned_card_has_the_mean_and_covariance_of_the_card():
    card = card_of(with_copies(originals(12), 9))
    thin = card.thinned
    assert (thin.count, thin.raw.count, thin.projected.count + thin.held_out.count) == (12, 12, 12)
    torch.testing.assert_close(thin.centroid, card.centroid)
    torch.testing.assert_close(thin.raw.factor.decoded() * 10**0.5, card.raw.factor.decoded())
    assert thin.raw.residual == pytest.approx(card.raw.residual / 10)
    torch.testing.assert_close(thin.unit_sum * 10, card.unit_sum)
    alone = card_of(originals(12))
    assert alone.thinned is alone


FORGERIES = {
    "in disorder": lambda sketches: sketches[::-1].copy(),
    "more sketches than samples": lambda sketches: np.zeros((len(sketches) + 1, 2), dtype=np.uint64),
    "sketches are none": lambda sketches: sketches.ravel(),
}


@pytest.mark.parametrize("wrong", FORGERIES)
def test_forged_sketches_are_refused(wrong):
    card = card_of(originals(5))
    object.__setattr__(card, "sketches", FORGERIES[wrong](card.sketches))
    with pytest.raises(InputError, match=wrong):
        ClassCard.from_bytes(card.to_bytes(), 8)


def test_sketches_survive_bytes():
    card = card_of(with_copies(originals(4), 2))
    again = ClassCard.from_bytes(card.to_bytes(), 8)
    assert again == card
    assert (again.distinct, again.sketches.shape) == (4, (12, 2))


def test_near_is_far_from_chance():
    """Of independent directions half of the bits differ; that as few do as near copies have is out of the question."""
    assert MOST_BITS < SKETCH_BITS / 2 - 7 * (SKETCH_BITS / 4) ** 0.5
