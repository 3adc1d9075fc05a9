"""Draws from the cards, novelty and its limit."""

import math

import numpy as np
import pytest
import torch

from gddsg.core.class_card import ClassCard
from gddsg.core.discriminant import Discriminant
from gddsg.core.known_inputs import KnownInputs, novelty_of, pseudo_features
from gddsg.core.metric import shared_metric, span_inflation
from gddsg.core.moments import CodedMoments, Moments
from gddsg.core.novelty import squared_distances


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def gaussian(centre, n, seed):
    """Samples of a class around ``centre``, wide in the first directions and narrow in the last."""
    return centre + normal(n, len(centre), seed=seed) * torch.logspace(0.3, -0.5, len(centre))


def centres_of(n_classes, dim):
    return 3 * normal(n_classes, dim, seed=1) + 4


def discriminant_of(samples, rank=64):
    cards = tuple(ClassCard.of(vectors, lambda x: x, rank, plain=True) for vectors in samples)
    return Discriminant.of(shared_metric(cards), cards)


def novelty_of_samples(samples, rank=64):
    return novelty_of(discriminant_of(samples, rank))


def measured(novelty, vectors):
    return torch.from_numpy(novelty.measure(vectors.double().numpy()))


def gaussian_classes(n_classes, dim, n):
    return [gaussian(centre, n, seed=10 + c) for c, centre in enumerate(centres_of(n_classes, dim))]


# Pseudo-features.


def drawn_covariance(part, pooled):
    """What a class is drawn from: its own covariance, trusted like n - 1 samples, and the pooled one, like four."""
    own, degrees = (part.count - 1) / (part.count + 3), max(part.count - 1, 1)
    factor = part.factor.double() * span_inflation(part)
    lost = part.residual / 2 * pooled / pooled.trace()
    return own * (factor.T @ factor + lost) / degrees + (1 - own) * pooled


@pytest.mark.parametrize("rank", [64, 2], ids=["uncut", "cut"])
def test_pseudo_features_have_the_mean_and_the_covariance_of_their_class(rank):
    samples = [gaussian(centre, n, seed=n) for centre, n in zip(centres_of(4, 5), (1, 2, 6, 40), strict=True)]
    metric = discriminant_of(samples, rank).metric
    vectors, classes = pseudo_features(metric, 100_000, seed=3)
    assert vectors.shape == (400_000, 5)
    assert torch.equal(classes, torch.arange(4).repeat_interleave(100_000))
    for c, card in enumerate(metric.sample):
        part = card.raw.decoded()
        draws, expected = vectors[classes == c], drawn_covariance(part, metric.pooled)
        deviation = expected.diagonal().sqrt()
        assert float(((draws.mean(0) - part.mean) / deviation).abs().max()) < 0.015
        correlations = (torch.cov(draws.T) - expected) / torch.outer(deviation, deviation)
        assert float(correlations.abs().max()) < 0.025


def test_pseudo_features_depend_on_the_seed_alone():
    metric = discriminant_of(gaussian_classes(3, 5, 20)).metric
    state = torch.get_rng_state()
    one, again, other = (pseudo_features(metric, 10, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)


# Novelty.


def test_novelty_by_hand():
    """Means at (±3, 4), pooled covariance I: T_0 = I whatever the shrinkage, and all inputs together have
    variance 10 and 1, from which shrinkage g makes (1 - g) 10 + g 5.5 and (1 - g) 1 + g 5.5."""

    def card(x):
        moments = Moments(101, 101 * torch.tensor([x, 4.0], dtype=torch.float64), 10 * torch.eye(2), 0.0)
        coded = CodedMoments.coded(moments)
        return ClassCard(torch.zeros(2), None, coded, coded, CodedMoments.of(torch.empty(0, 2), 1))

    cards = (card(3.0), card(-3.0))
    discriminant = Discriminant.of(shared_metric(cards), cards)
    torch.testing.assert_close(discriminant.metric.pooled, torch.eye(2, dtype=torch.float64))
    g = discriminant.metric.shrinkage
    x, y = 4.0, 7.0
    nearest = 1 + 9
    background = x**2 / ((1 - g) * 10 + g * 5.5) + 9 / ((1 - g) + g * 5.5)
    cosine = (3 * x + 4 * y) / (5 * math.hypot(x, y))
    expected = math.log(nearest / background) + 0.2 * math.log(1 - cosine)
    assert float(novelty_of(discriminant).measure(np.array([[x, y]]))[0]) == pytest.approx(expected, rel=1e-6)


def test_novelty_grows_away_from_a_class():
    centres = centres_of(6, 8)
    novelty = novelty_of_samples(gaussian_classes(6, 8, 100))
    for c in range(6):
        for seed in range(5):
            direction = normal(8, seed=20 + seed) * torch.logspace(0.3, -0.5, 8)
            steps = torch.tensor([0.0, 0.3, 1.0, 2.0, 100.0, 1000.0, 10_000.0])
            values = measured(novelty, centres[c] + steps[:, None] * direction)
            assert bool((values.diff() > 0).all())
            # far away it is the squared distance that counts, however the ratio of distances levels off
            assert float(values[-1] - values[-2]) == pytest.approx(math.log(100), abs=0.1)


def test_unknown_classes_and_far_away_points_are_novel():
    centres = centres_of(20, 16)
    novelty = novelty_of_samples([gaussian(centre, 100, seed=c) for c, centre in enumerate(centres[:12])])
    known = measured(novelty, torch.cat([gaussian(centre, 50, seed=50 + c) for c, centre in enumerate(centres[:12])]))
    unknown = measured(novelty, torch.cat([gaussian(centre, 50, seed=90 + c) for c, centre in enumerate(centres[12:])]))
    far = measured(novelty, 100 * normal(200, 16, seed=5))
    assert float(torch.quantile(known, 0.99)) < float(torch.quantile(unknown, 0.01))
    assert float(torch.quantile(known, 0.99)) < float(torch.quantile(far, 0.01))
    assert float(far.median()) > novelty.limit(0.99)
    assert float(unknown.median()) > novelty.limit(0.99)


@pytest.mark.parametrize(("n_classes", "dim", "n"), [(12, 8, 10), (12, 8, 30), (20, 16, 100), (12, 24, 200)])
def test_the_limit_keeps_about_the_share_asked_for(n_classes, dim, n):
    novelty = novelty_of_samples(gaussian_classes(n_classes, dim, n))
    fresh = [gaussian(centre, 300, seed=500 + c) for c, centre in enumerate(centres_of(n_classes, dim))]
    values = measured(novelty, torch.cat(fresh))
    for kept in (0.9, 0.95, 0.99):
        assert float((values <= novelty.limit(kept)).double().mean()) == pytest.approx(kept, abs=0.04)
    assert novelty.limit(0.5) < novelty.limit(0.9) < novelty.limit(1.0)


@pytest.mark.parametrize(("n_classes", "dim", "n"), [(2, 24, 10), (2, 64, 30), (10, 256, 20)])
def test_the_limit_keeps_most_known_inputs_where_samples_are_fewer_than_features(n_classes, dim, n):
    novelty = novelty_of_samples(gaussian_classes(n_classes, dim, n))
    fresh = [gaussian(centre, 100, seed=500 + c) for c, centre in enumerate(centres_of(n_classes, dim))]
    assert float((measured(novelty, torch.cat(fresh)) <= novelty.limit(0.99)).double().mean()) > 0.9


@pytest.mark.parametrize(
    "samples",
    [
        [normal(1, 4)],
        [normal(9, 4)],
        [normal(1, 4, seed=i) for i in range(3)],
        [torch.zeros(5, 4), torch.ones(5, 4)],
        [torch.ones(5, 4)] * 2,
    ],
    ids=["one sample", "one class", "one-sample classes", "constant classes", "constant features"],
)
def test_novelty_of_degenerate_classes_is_finite(samples):
    novelty = novelty_of_samples(samples)
    queries = torch.cat([*samples, torch.zeros(1, 4), 10 * normal(3, 4, seed=9)])
    assert bool(torch.isfinite(measured(novelty, queries)).all())
    assert math.isfinite(novelty.limit(0.99))


def test_many_classes_and_rows_are_taken_in_parts_without_a_difference(monkeypatch):
    samples = gaussian_classes(30, 6, 12)
    cards = [ClassCard.of(vectors, lambda x: x, 64, plain=True) for vectors in samples]
    cards = tuple(sorted(cards, key=lambda card: card.key))
    metric = shared_metric(cards)
    whole = novelty_of(Discriminant.of(metric, cards))
    monkeypatch.setattr("gddsg.core.canonical_order.BLOCK_SIZE", 8)
    parts = novelty_of(Discriminant.of(metric, cards))
    assert len(parts.means) > 3 > len(whole.means)
    queries = (4 + 3 * normal(3000, 6, seed=7)).double().numpy()
    np.testing.assert_allclose(parts.measure(queries), whole.measure(queries), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(whole.measure(queries[1020:1030]), whole.measure(queries)[1020:1030], rtol=1e-9)
    assert parts.limit(0.99) == pytest.approx(whole.limit(0.99), rel=1e-9)


def test_squared_distances_by_hand():
    means = (np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[1.0, 0.0]]))
    assert squared_distances(np.array([[0.0, 0.0], [1.0, 1.0]]), means).tolist() == [[0, 25, 1], [2, 13, 1]]
    near = np.full((1, 3), 1e8)
    assert squared_distances(near, (near,)).tolist() == [[0.0]]  # rounding makes no distance negative


def test_classes_outside_the_sample_are_known_too():
    """The metric and the limit are made of some classes; how far the nearest mean is, of all."""
    samples = gaussian_classes(8, 6, 60)
    cards = tuple(ClassCard.of(vectors, lambda x: x, 64, plain=True) for vectors in samples)
    metric = shared_metric(cards[:6])
    some, everyone = (novelty_of(Discriminant.of(metric, known)) for known in (cards[:6], cards))
    strangers = torch.cat(samples[6:])
    assert float((measured(some, strangers) > some.limit(0.99)).double().mean()) > 0.9
    assert float((measured(everyone, strangers) > everyone.limit(0.99)).double().mean()) < 0.1


def test_a_newcomer_that_leaves_the_metric_alone_is_measured_by_the_draws_there_are(monkeypatch):
    """And the result is, to the bit, that of all classes taken at once."""
    monkeypatch.setattr("gddsg.core.canonical_order.BLOCK_SIZE", 4)
    cards = [ClassCard.of(vectors, lambda x: x, 64, plain=True) for vectors in gaussian_classes(12, 6, 30)]
    cards.sort(key=lambda card: card.key)
    metric = shared_metric(tuple(cards[:6]))
    before = KnownInputs.of(Discriminant.of(metric, tuple(cards[:11])))
    before.novelty().limit(0.99)
    grown = Discriminant.of(metric, tuple(cards), before.discriminant)
    afresh = novelty_of(Discriminant.of(metric, tuple(cards))).known()
    with monkeypatch.context() as patch:
        patch.setattr("gddsg.core.known_inputs.pseudo_features", None)  # nobody may draw again
        after = KnownInputs.of(grown, before)
        found = after.novelty().known()
    assert np.array_equal(found[0], afresh[0])
    assert found[1] == afresh[1]
    kept = [block for block, nearest in after.nearest.items() if nearest is before.nearest.get(block)]
    assert 0 < len(kept) < len(after.nearest)


def test_draws_of_a_small_model_are_let_go():
    inputs = KnownInputs.of(discriminant_of(gaussian_classes(4, 5, 20)))
    inputs.novelty().limit(0.99)
    assert inputs.draws.peek() is None
