"""The view is chosen by what nearest class means would err, which the cards tell truly."""

import math

import pytest
import torch

from gddsg.core.class_card import ClassCard
from gddsg.core.moments import CodedMoments
from gddsg.core.view_choice import choose_view, nearest_mean_error


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def card(features, rank=64, plain=False):
    return ClassCard.of(features, lambda x: x[:, :1], rank, plain=plain)


def places(n_classes, dim, apart):
    return apart * normal(n_classes, dim, seed=7)


def samples_about(centres, n, seed=0):
    """Classes whose samples vary along a few directions more than along others."""
    dim = centres.shape[1]
    shape = torch.eye(dim) + normal(dim, dim, seed=3) / 3
    return [centre + normal(n, dim, seed=seed + i) @ shape for i, centre in enumerate(centres)]


def by_hand(samples):
    """The docstring of nearest_mean_error, pair by pair."""
    means = [vectors.double().mean(0) for vectors in samples]
    errors = []
    for i, vectors in enumerate(samples):
        n = len(vectors)
        covariance = (vectors.double() - means[i]).T @ (vectors.double() - means[i]) / (n - 1)
        others = sorted((float((means[i] - mean).norm()), j) for j, mean in enumerate(means) if j != i)
        for _, j in others[:5]:
            gap = means[i] - means[j]
            margin = float(gap @ gap) / 2 - float(covariance.trace()) / n
            errors.append(0.5 * math.erfc(margin / math.sqrt(2 * float(gap @ covariance @ gap))))
    return sum(errors) / len(errors)


@pytest.mark.parametrize(("n_classes", "n", "apart"), [(2, 30, 1.0), (4, 200, 0.5), (9, 12, 1.0)])
def test_the_estimate_by_hand(n_classes, n, apart):
    samples = samples_about(places(n_classes, 6, apart), n)
    parts = [CodedMoments.of(vectors, 64) for vectors in samples]
    assert nearest_mean_error(parts, [6] * n_classes) == pytest.approx(by_hand(samples), rel=0.02)


@pytest.mark.parametrize("n", [6, 20, 300])
def test_the_estimate_is_what_fresh_samples_show(n):
    """Of few samples, too, whose means err: without the allowance for that, it would be too good by half."""
    centres, estimated, counted = places(6, 40, 0.35), [], []
    for draw in range(30):
        samples, fresh = (samples_about(centres, m, seed=10_000 * draw + s) for m, s in ((n, 0), (100, 5_000)))
        estimated.append(nearest_mean_error([CodedMoments.of(vectors, 64) for vectors in samples], [40] * 6))
        means = torch.stack([vectors.mean(0) for vectors in samples])
        for i, vectors in enumerate(fresh):
            distances = torch.cdist(vectors, means)
            others = [j for j in range(6) if j != i]
            counted.append(float((distances[:, others] < distances[:, i : i + 1]).double().mean()))
    assert sum(estimated) / len(estimated) == pytest.approx(sum(counted) / len(counted), rel=0.12)


def test_directions_that_do_not_count_are_taken_to_be_alike():
    samples = samples_about(places(3, 8, 1.0), 50)
    parts = [CodedMoments.of(vectors, 64) for vectors in samples]
    few, every = (nearest_mean_error(parts, [rows] * 3) for rows in (3, 8))
    assert few != every
    cut = [CodedMoments.of(vectors, 3) for vectors in samples]
    assert nearest_mean_error(cut, [3] * 3) == pytest.approx(few, rel=1e-2)
    for part, vectors in zip(parts, samples, strict=True):
        assert part.energy == pytest.approx(float((vectors - vectors.mean(0)).square().sum()), rel=1e-2)
    round_parts = [CodedMoments.of(centre + normal(4000, 8, seed=9), 64) for centre in places(3, 8, 1.0)]
    assert nearest_mean_error(round_parts, [0] * 3) == pytest.approx(nearest_mean_error(round_parts, [8] * 3), rel=0.05)


def test_squares_of_gaussian_features_are_seen_through_their_root():
    samples = [(3 + vectors).square() for vectors in samples_about(places(8, 16, 0.7), 60)]
    assert choose_view([card(vectors) for vectors in samples]) == "root"


def test_gaussian_features_cut_off_at_zero_are_seen_plainly():
    """A root would stretch what lies near zero, where nothing tells the classes apart."""
    centres = 2.0 + 2.0 * (torch.rand(8, 32, generator=torch.Generator().manual_seed(0)) < 0.3)
    samples = [(centre + normal(60, 32, seed=i)).clamp(min=0) for i, centre in enumerate(centres)]
    assert choose_view([card(vectors) for vectors in samples]) == "raw"


def test_no_scale_and_no_order_of_classes_matters():
    samples = [(3 + vectors).square() for vectors in samples_about(places(5, 16, 0.7), 60)]
    errors = [
        nearest_mean_error([CodedMoments.of(scale * vectors, 64) for vectors in order], [16] * 5)
        for scale in (1e-6, 1.0, 1e6)
        for order in (samples, samples[::-1])
    ]
    assert errors == pytest.approx([errors[0]] * 6, rel=1e-4)


def test_where_nothing_is_at_stake_roots_are_taken():
    features = normal(20, 4).abs()
    assert choose_view([card(features)]) == "root"
    assert choose_view([card(features[:1]), card(features[1:2])]) == "root"  # one sample a class has no scatter
    assert choose_view([card(features), card(features)]) == "root"
    assert choose_view([card(torch.zeros(5, 4)), card(torch.zeros(3, 4))]) == "root"


def test_one_class_without_roots_makes_all_be_seen_plainly():
    samples = [(3 + vectors).square() for vectors in samples_about(places(8, 16, 0.7), 60)]
    roots = [card(vectors) for vectors in samples]
    assert choose_view([*roots, card(-samples[0])]) == "raw"
    assert choose_view([*roots[:-1], card(samples[-1], plain=True)]) == "raw"


def test_both_views_are_judged_by_as_many_directions(monkeypatch):
    """A card keeps fewer of the plain features: all of the roots' would make these look worse."""
    samples = [(3 + vectors).square() for vectors in samples_about(places(6, 40, 0.5), 200)]
    cards = [card(vectors, rank=16) for vectors in samples]
    assert {(len(one.root.factor), len(one.raw.factor)) for one in cards} == {(16, 4)}
    counted = []
    monkeypatch.setattr("gddsg.core.view_choice.nearest_mean_error", lambda _, rows: counted.append(list(rows)) or 0.0)
    choose_view(cards)
    assert counted == [[4] * 6] * 2
