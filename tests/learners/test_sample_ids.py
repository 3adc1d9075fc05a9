"""Samples with ids are learnt once; renaming; the backbone a model remembers."""

import numpy as np
import pytest

from gddsg import GDDSG, ClassCard
from gddsg.checks.laws import separated_classes
from gddsg.errors import InputError, UnknownClassError


def batch(n_classes=3):
    X, _ = separated_classes(n_classes, 10, 6, 0)
    return np.abs(X), np.arange(n_classes).repeat(10), np.arange(len(X)) * 10**15 + 7


def model():
    return GDDSG(projection_dim=32)


def test_a_batch_given_twice_counts_once():
    X, y, ids = batch()
    once, twice = model().partial_fit(X, y, sample_ids=ids), model().partial_fit(X, y, sample_ids=ids)
    twice.partial_fit(X[::2], y[::2], sample_ids=ids[::2])
    assert once.cards_ == twice.cards_
    assert once.cards_[y[0]].sample_ids.tolist() == ids[y == y[0]].tolist()


def test_ids_do_not_change_what_is_learnt():
    X, y, ids = batch()
    np.testing.assert_array_equal(
        model().partial_fit(X, y, sample_ids=ids).predict_proba(X), model().fit(X, y).predict_proba(X)
    )


def test_a_partly_new_batch_adds_the_new_samples():
    X, y, ids = batch()
    grown = model().partial_fit(X[:25], y[:25], sample_ids=ids[:25]).partial_fit(X, y, sample_ids=ids)
    assert sum(card.count for card in grown.cards_.values()) == 30
    assert set(grown.model_.label_samples()) == set(ids.tolist())


def test_a_sample_twice_in_one_batch_counts_once():
    X, y, ids = batch()
    doubled = model().partial_fit(np.concatenate([X, X]), [*y, *y], sample_ids=[*ids, *ids])
    assert doubled.cards_ == model().partial_fit(X, y, sample_ids=ids).cards_


@pytest.mark.parametrize("learnt_before", [True, False])
def test_one_sample_under_two_labels_is_an_error_and_nothing_is_learnt(learnt_before):
    X, y, ids = batch()
    learner = model().partial_fit(X, y, sample_ids=ids)
    before = dict(learner.cards_)
    rows = [0] if learnt_before else [0, 0]
    labels, some = ([y[-1]], [ids[0]]) if learnt_before else ([y[0], y[-1]], [5, 5])
    with pytest.raises(InputError, match="was learnt as"):
        learner.partial_fit(X[rows], labels, sample_ids=some)
    assert learner.cards_ == before


@pytest.mark.parametrize("ids", [[1, 2], [1.5] * 30, [-1] * 30, [2**64] * 30, ["a"] * 30, [None] * 30])
def test_ids_that_make_no_sense(ids):
    X, y, _ = batch()
    with pytest.raises(InputError, match="sample id"):
        model().partial_fit(X, y, sample_ids=ids)


def test_the_largest_id_survives_bytes_and_files(tmp_path):
    X, y, _ = batch()
    learner = model().partial_fit(X, y, sample_ids=[2**64 - 1 - i for i in range(30)])
    learner.save(tmp_path / "m.gddsg")
    again = GDDSG.load(tmp_path / "m.gddsg")
    assert again.cards_ == learner.cards_
    assert again.model_.label_samples() == learner.model_.label_samples()
    card = learner.cards_[y[0]]
    assert ClassCard.from_bytes(card.to_bytes(), learner.rank) == card


def test_forgetting_forgets_the_ids_too():
    X, y, ids = batch()
    learner = model().partial_fit(X, y, sample_ids=ids).forget(y[0])
    assert not set(ids[y == y[0]].tolist()) & set(learner.model_.label_samples())
    learner.partial_fit(X, y, sample_ids=ids)
    assert learner.cards_ == model().partial_fit(X, y, sample_ids=ids).cards_


def test_models_that_share_samples_do_not_merge():
    X, y, ids = batch()
    one, other = model().partial_fit(X[:20], y[:20], sample_ids=ids[:20]), model()
    other.partial_fit(X[15:], y[15:], sample_ids=ids[15:])
    with pytest.raises(InputError, match="5 samples were learnt by both"):
        one.merge(other)


# Renaming.


def test_a_new_name_changes_nothing_else():
    X, y, _ = batch()
    names = np.array(["ant", "bee", "cat"])[y]
    renamed = model().fit(X, names).rename("bee", "boa")
    expected = model().fit(X, np.where(names == "bee", "boa", names))
    assert renamed.cards_ == expected.cards_
    assert renamed.classes_.tolist() == ["ant", "boa", "cat"]
    np.testing.assert_array_equal(renamed.predict_proba(X), expected.predict_proba(X))


def test_renaming_keeps_the_groups_of_arrival():
    X, y, _ = batch()
    learner = GDDSG(projection_dim=32, grouping="arrival").fit(X, y).rename(1, 9)
    assert sorted(label for group in learner.class_groups_ for label in group) == [0, 2, 9]


def test_names_that_cannot_be_given():
    X, y, _ = batch()
    learner = model().fit(X, y)
    with pytest.raises(UnknownClassError):
        learner.rename(7, 8)
    with pytest.raises(InputError, match="already"):
        learner.rename(0, 1)
    with pytest.raises(InputError, match="one type"):
        learner.rename(0, "zero")
    assert learner.classes_.tolist() == [0, 1, 2]


# The backbone.


def test_models_of_different_backbones_do_not_merge():
    X, y, _ = batch()
    one, other = (GDDSG(projection_dim=32, backbone=name).fit(X, y) for name in ("a@1", "b@2"))
    with pytest.raises(InputError, match=r"backbone \('a@1' here, 'b@2' there\)"):
        one.merge(other)


def test_the_backbone_is_saved(tmp_path):
    X, y, _ = batch()
    GDDSG(projection_dim=32, backbone="a@1").fit(X, y).save(tmp_path / "m.gddsg")
    assert GDDSG.load(tmp_path / "m.gddsg").backbone == "a@1"
