import numpy as np
import pytest
import torch
from tests.scale.samples import features

from gddsg.core.class_card import ClassCard
from gddsg.core.model import Model, Settings
from gddsg.data.dataset import Skipped
from gddsg.errors import DataError
from gddsg.scale.partial import Merger, Rows, fold_by_number

RANK = 16
MERGER = Merger(Settings(projection_dim=40, rank=RANK))


def parts_of(rows, labels, size, ids=None):
    for start in range(0, len(rows), size):
        cut = slice(start, start + size)
        yield MERGER.partial(rows[cut], labels[cut].tolist(), None if ids is None else ids[cut])


def cards_at_once(rows, labels, ids=None):
    return Model(MERGER.settings).make_cards(torch.from_numpy(rows), labels.tolist(), ids)


@pytest.mark.parametrize("size", [1, 4, 7, 48])
def test_classes_of_few_samples_get_the_card_of_one_batch_bit_for_bit(size):
    rows, labels = features(3 * RANK)
    ids = np.arange(3 * RANK, dtype=np.uint64)
    found = MERGER.finished(MERGER.merge_all(parts_of(rows, labels, size, ids)))
    expected = cards_at_once(rows, labels, ids)
    assert {k: card.to_bytes() for k, card in found.classes.items()} == {k: c.to_bytes() for k, c in expected.items()}


def test_one_sample_more_than_the_rank_makes_a_card():
    rows, labels = features(3 * RANK)
    assert not any(isinstance(one, ClassCard) for one in MERGER.merge_all(parts_of(rows, labels, 5)).classes.values())
    rows, labels = features(3 * RANK + 3)
    assert all(isinstance(one, ClassCard) for one in MERGER.merge_all(parts_of(rows, labels, 5)).classes.values())


def test_classes_of_many_samples_have_the_same_counts_and_predictions():
    rows, labels = features(600)
    found = MERGER.finished(MERGER.merge_all(parts_of(rows, labels, 50))).classes
    expected = cards_at_once(rows, labels)
    assert {k: card.count for k, card in found.items()} == {k: card.count for k, card in expected.items()}
    asked, _ = features(200, seed=1)
    one, other = (Model(MERGER.settings).plus(cards).predictor.predict_log_proba(asked) for cards in (found, expected))
    assert (one.argmax(1) == other.argmax(1)).all()
    assert np.abs(np.exp(one) - np.exp(other)).max() < 0.02


def test_the_tree_is_over_numbers():
    seen = [fold_by_number("abcdefg"[:n], lambda one, other: f"({one}{other})") for n in (1, 2, 3, 6, 7)]
    assert seen == ["a", "(ab)", "((ab)c)", "(((ab)(cd))(ef))", "(((ab)(cd))((ef)g))"]
    assert fold_by_number([], max) is None


@pytest.mark.parametrize("ids", [None, np.arange(90, dtype=np.uint64)])
def test_stored_parts_come_back_as_they_were(ids):
    rows, labels = features(90)
    few = MERGER.partial(rows[:30], labels[:30].tolist(), None if ids is None else ids[:30], (Skipped("a", "b"),))
    part = MERGER.merge(few, MERGER.partial(rows[30:], ["big"] * 60, None if ids is None else ids[30:]))
    assert {type(one) for one in part.classes.values()} == {Rows, ClassCard}
    again = MERGER.decode(MERGER.encode(part))
    assert MERGER.encode(again) == MERGER.encode(part)
    assert again.skipped == part.skipped
    assert again.classes["big"] == part.classes["big"]


@pytest.mark.parametrize("place", [0, 20, 60, -1])
def test_damaged_parts_are_refused(place):
    rows, labels = features(30)
    data = bytearray(MERGER.encode(MERGER.partial(rows, labels.tolist(), None)))
    data[place] ^= 1
    with pytest.raises(DataError, match="damaged"):
        MERGER.decode(bytes(data))
