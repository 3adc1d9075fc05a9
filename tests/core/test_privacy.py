"""Noisy cards: how far one sample moves a sum, how much noise there is, and what is made of it."""

import math

import numpy as np
import pytest
import torch

from gddsg.core.class_card import ClassCard
from gddsg.core.model import Model, Settings
from gddsg.core.privacy import CENTRED_SHARE, SHARES, SiteSums, clipped, private_cards, released
from gddsg.errors import InputError

SETTINGS = Settings(projection_dim=0, feature_transform="none")
CLIP, MULTIPLIER = 2.0, 0.5


class Quiet:
    """A generator whose noise is zero, and which remembers the scales that it was asked for."""

    def __init__(self):
        self.scales = []

    def normal(self, mean, scale, size):
        self.scales.append(scale)
        return np.zeros(size)


def samples(n=60, dim=8, classes=3, seed=0):
    """Some are longer than the clip."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, dim)) + 3 * np.eye(classes, dim)[np.arange(n) % classes]
    return rows, np.arange(n) % classes


def test_shares_add_up_to_one_mechanism():
    assert sum(SHARES.values()) == pytest.approx(1)


@pytest.mark.parametrize("length", [0.1, 2.0, 1e6])
def test_one_sample_moves_each_sum_by_no_more_than_its_noise_is_for(length):
    """Its moves, each over the deviation of its noise, are together at most 1 / multiplier: one Gaussian mechanism."""
    rows, place = samples()
    rng, near = np.random.default_rng(1), CENTRED_SHARE * CLIP
    quiet = Quiet()
    released(rows, place, 3, CLIP, MULTIPLIER, quiet)
    deviations = dict(zip(("counts", "centre", "sums", "energy"), quiet.scales, strict=True))
    for kind in range(3):
        one = rng.normal(size=(1, 8))
        one *= length / np.linalg.norm(one)
        before, after = (
            _sums_at_one_centre(rows, place),
            _sums_at_one_centre(np.vstack([rows, one]), np.append(place, kind)),
        )
        moves = {
            "counts": np.linalg.norm(after.counts - before.counts),
            "centre": np.linalg.norm(after.total - before.total),
            "sums": np.linalg.norm(after.sums - before.sums),
            "energy": abs(after.energy - before.energy),
        }
        assert 0 < moves["counts"] <= 1
        assert 0 < moves["centre"] <= CLIP + 1e-9
        assert 0 < moves["sums"] <= near + 1e-9
        assert 0 < moves["energy"] <= near**2 + 1e-9
        assert math.hypot(*(moves[what] / deviations[what] for what in moves)) <= 1 / MULTIPLIER + 1e-9


def _sums_at_one_centre(rows, place):
    """Without noise; distances to the same centre, which is released, and hence known, before they are taken."""

    class Moved(Quiet):
        def normal(self, mean, scale, size):
            drawn = super().normal(mean, scale, size)
            if len(self.scales) == 2:  # the noise of the total: whatever it is, the centre comes out at a third of clip
                drawn += counted * np.full(size, CLIP / 3) - clipped(rows, CLIP).sum(0)
            return drawn

    counted = len(rows)
    found = released(rows, place, 3, CLIP, MULTIPLIER, Moved())
    np.testing.assert_allclose(found.centre, CLIP / 3)
    return SiteSums(found.counts, clipped(rows, CLIP).sum(0), found.sums, found.energy)


def test_clipping_is_what_bounds_it(monkeypatch):
    rows, place = samples()
    far = np.vstack([rows, np.full((1, 8), 1e3)])
    quiet = Quiet()
    near, out = released(rows, place, 3, CLIP, 1, quiet), released(far, np.append(place, 0), 3, CLIP, 1, quiet)
    assert np.linalg.norm(out.total - near.total) == pytest.approx(CLIP)
    monkeypatch.setattr("gddsg.core.privacy.clipped", lambda rows, bound: rows)
    loose = released(far, np.append(place, 0), 3, CLIP, 1, quiet)
    assert np.linalg.norm(loose.total - released(rows, place, 3, CLIP, 1, quiet).total) > 100 * CLIP


def test_noise_is_as_wide_as_it_should_be():
    rows, place = samples(n=6, dim=4)
    random = np.random.default_rng(0)
    drawn = [released(rows, place, 3, CLIP, MULTIPLIER, random) for _ in range(4000)]
    near = CENTRED_SHARE * CLIP
    for what, found, most in (
        ("counts", np.array([one.counts for one in drawn]), 1),
        ("centre", np.array([one.total for one in drawn]), CLIP),
    ):
        expected = MULTIPLIER / math.sqrt(SHARES[what]) * most
        assert found.std(0) == pytest.approx(np.full(found.shape[1:], expected), rel=0.05)
    # the rows lie at zero, so that the centre, which moves from draw to draw, can be taken off again
    few = np.zeros((1, 4))
    apart = [released(few, np.array([1]), 3, CLIP, MULTIPLIER, random) for _ in range(4000)]
    expected = MULTIPLIER / math.sqrt(SHARES["sums"]) * near
    assert np.array([one.sums[0] for one in apart]).std(0) == pytest.approx(np.full(4, expected), rel=0.05)
    shown = np.array([one.energy - np.square(clipped(few - one.centre, near)).sum() for one in apart])
    assert shown.std() == pytest.approx(MULTIPLIER / math.sqrt(SHARES["energy"]) * near**2, rel=0.05)


def test_without_noise_cards_hold_counts_and_means():
    rows, place = samples()
    rows *= 0.1  # nothing is clipped
    cards = private_cards(rows, place.tolist(), clip=CLIP, noise_multiplier=0)
    for kind, card in cards.items():
        assert card.count == 20
        np.testing.assert_allclose(card.centroid, rows[place == kind].mean(0), atol=1e-6)


@pytest.mark.parametrize("multiplier", [0, 0.5, 20])
@pytest.mark.parametrize("n", [1, 3, 60])
def test_cards_are_valid_and_models_of_them_merge_and_answer(n, multiplier):
    def model(seed):
        rows, place = samples(n, seed=seed)
        random = np.random.default_rng(seed)
        return Model(SETTINGS).plus(
            private_cards(rows, place.tolist(), clip=CLIP, noise_multiplier=multiplier, generator=random)
        )

    one, other = model(0), model(1)
    for card in (*one.cards.values(), *one.merged(other).cards.values()):
        again = ClassCard.from_bytes(card.to_bytes(), SETTINGS.rank)
        assert again == card
        assert card.count >= 1
        assert len(card.sample_ids) == len(card.sketches) == card.projected.dim == card.held_out.count == 0
        assert card.root is None
    both = one.merged(other)
    assert both.labels == one.labels
    assert all(both.cards[k].count == one.cards[k].count + other.cards[k].count for k in both.labels)
    both.check_answers()


def test_noisy_cards_tell_well_separated_classes_apart():
    rng = np.random.default_rng(0)
    place = np.arange(600) % 3
    rows = rng.normal(0, 0.05, (600, 8)) + np.eye(3, 8)[place]
    cards = private_cards(rows, place.tolist(), clip=1.0, noise_multiplier=1.0, generator=rng)
    model = Model(SETTINGS).plus(cards)
    answers = model.predictor.predict_log_proba(rows.astype(np.float32)).argmax(1)
    assert (answers == place).mean() == 1


def test_the_same_seed_gives_the_same_noise_and_no_seed_never_does():
    rows, place = samples()

    def cards(generator):
        return private_cards(rows, place.tolist(), clip=CLIP, noise_multiplier=1, generator=generator)

    assert cards(np.random.default_rng(7)) == cards(np.random.default_rng(7))
    assert cards(None)[0] != cards(None)[0]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"clip": 0}, "clip=0"),
        ({"clip": -1.0}, "clip=-1"),
        ({"clip": math.nan}, "clip=nan"),
        ({"clip": math.inf}, "clip=inf"),
        ({"noise_multiplier": -1}, "noise_multiplier=-1"),
        ({"noise_multiplier": math.nan}, "noise_multiplier=nan"),
        ({"features": np.array([[1.0, math.nan]])}, "not finite"),
        ({"features": np.zeros((2, 3))}, "one label a row"),
        ({"features": np.zeros((0, 3)), "labels": []}, "one row at least"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, named):
    given = {"features": np.ones((1, 2)), "labels": ["a"], "clip": 1.0, "noise_multiplier": 1.0, **changes}
    with pytest.raises(InputError, match=named):
        private_cards(given.pop("features"), given.pop("labels"), **given)


def test_samples_of_no_length_are_no_trouble():
    cards = private_cards(np.zeros((2, 3)), ["a", "b"], clip=1.0, noise_multiplier=0)
    assert torch.equal(cards["a"].unit_sum, torch.zeros(3))
    ClassCard.from_bytes(cards["a"].to_bytes(), SETTINGS.rank)
