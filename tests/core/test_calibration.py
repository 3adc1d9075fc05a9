"""Draws from the cards, novelty and its limit, and the identification of groups that learns from such draws."""

import math
import sys

import pytest
import torch

from gddsg.core.calibration import Novelty, pseudo_features
from gddsg.core.class_card import Moments
from gddsg.core.discriminant import Discriminant
from gddsg.core.identification import VOTERS, SoftVote, group_counts, group_probabilities, meta_features
from gddsg.core.scatter_pool import ScatterPool, span_inflation
from gddsg.errors import MissingExtraError


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def gaussian(centre, n, seed):
    """Samples of a class around ``centre``, wide in the first directions and narrow in the last."""
    return centre + normal(n, len(centre), seed=seed) * torch.logspace(0.3, -0.5, len(centre))


def centres_of(n_classes, dim):
    return 3 * normal(n_classes, dim, seed=1) + 4


def discriminant_of(samples, rank=64):
    moments = {i: Moments.of(vectors, rank) for i, vectors in enumerate(samples)}
    return Discriminant(list(moments.values()), ScatterPool().total(moments))


def gaussian_classes(n_classes, dim, n):
    return [gaussian(centre, n, seed=10 + c) for c, centre in enumerate(centres_of(n_classes, dim))]


# Pseudo-features.


def drawn_covariance(part, discriminant):
    """What a class is drawn from: its own covariance, trusted like n - 1 samples, and the pooled one, like four."""
    own, degrees = (part.count - 1) / (part.count + 3), max(part.count - 1, 1)
    factor = part.factor.double() * span_inflation(part)
    lost = part.residual / 2 * discriminant.pooled / discriminant.pooled.trace()
    return own * (factor.T @ factor + lost) / degrees + (1 - own) * discriminant.pooled


@pytest.mark.parametrize("rank", [64, 2], ids=["uncut", "cut"])
def test_pseudo_features_have_the_mean_and_the_covariance_of_their_class(rank):
    samples = [gaussian(centre, n, seed=n) for centre, n in zip(centres_of(4, 5), (1, 2, 6, 40), strict=True)]
    discriminant = discriminant_of(samples, rank)
    vectors, classes = pseudo_features(discriminant, 100_000, seed=3)
    assert vectors.shape == (400_000, 5)
    assert torch.equal(classes, torch.arange(4).repeat_interleave(100_000))
    for c, part in enumerate(discriminant.moments):
        draws, expected = vectors[classes == c], drawn_covariance(part, discriminant)
        deviation = expected.diagonal().sqrt()
        assert float(((draws.mean(0) - part.mean) / deviation).abs().max()) < 0.015
        correlations = (torch.cov(draws.T) - expected) / torch.outer(deviation, deviation)
        assert float(correlations.abs().max()) < 0.025


def test_pseudo_features_depend_on_the_seed_alone():
    discriminant = discriminant_of(gaussian_classes(3, 5, 20))
    state = torch.get_rng_state()
    one, again, other = (pseudo_features(discriminant, 10, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)


# Novelty.


def test_novelty_by_hand():
    """Means at (±3, 4), pooled covariance I: T_0 = I whatever the shrinkage, and all inputs together have
    variance 10 and 1, from which shrinkage g makes (1 - g) 10 + g 5.5 and (1 - g) 1 + g 5.5."""
    parts = [
        Moments(101, 101 * torch.tensor([x, 4.0], dtype=torch.float64), 10 * torch.eye(2), 0.0) for x in (3.0, -3.0)
    ]
    discriminant = Discriminant(parts, 200 * torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(discriminant.pooled, torch.eye(2, dtype=torch.float64))
    g = discriminant.whitening.shrinkage
    x, y = 4.0, 7.0
    nearest = 1 + 9
    background = x**2 / ((1 - g) * 10 + g * 5.5) + 9 / ((1 - g) + g * 5.5)
    cosine = (3 * x + 4 * y) / (5 * math.hypot(x, y))
    expected = math.log(nearest / background) + 0.2 * math.log(1 - cosine)
    assert float(Novelty(discriminant).of(torch.tensor([[x, y]]))) == pytest.approx(expected, rel=1e-6)


def test_novelty_grows_away_from_a_class():
    centres = centres_of(6, 8)
    novelty = Novelty(discriminant_of(gaussian_classes(6, 8, 100)))
    for c in range(6):
        for seed in range(5):
            direction = normal(8, seed=20 + seed) * torch.logspace(0.3, -0.5, 8)
            steps = torch.tensor([0.0, 0.3, 1.0, 2.0, 100.0, 1000.0, 10_000.0])
            values = novelty.of(centres[c] + steps[:, None] * direction)
            assert bool((values.diff() > 0).all())
            # far away it is the squared distance that counts, however the ratio of distances levels off
            assert float(values[-1] - values[-2]) == pytest.approx(math.log(100), abs=0.1)


def test_unknown_classes_and_far_away_points_are_novel():
    centres = centres_of(20, 16)
    novelty = Novelty(discriminant_of([gaussian(centre, 100, seed=c) for c, centre in enumerate(centres[:12])]))
    known = novelty.of(torch.cat([gaussian(centre, 50, seed=50 + c) for c, centre in enumerate(centres[:12])]))
    unknown = novelty.of(torch.cat([gaussian(centre, 50, seed=90 + c) for c, centre in enumerate(centres[12:])]))
    far = novelty.of(100 * normal(200, 16, seed=5))
    assert float(torch.quantile(known, 0.99)) < float(torch.quantile(unknown, 0.01))
    assert float(torch.quantile(known, 0.99)) < float(torch.quantile(far, 0.01))
    assert float(far.median()) > novelty.limit(0.99)
    assert float(unknown.median()) > novelty.limit(0.99)


@pytest.mark.parametrize(("n_classes", "dim", "n"), [(12, 8, 10), (12, 8, 30), (20, 16, 100), (12, 24, 200)])
def test_the_limit_keeps_about_the_share_asked_for(n_classes, dim, n):
    novelty = Novelty(discriminant_of(gaussian_classes(n_classes, dim, n)))
    fresh = [gaussian(centre, 300, seed=500 + c) for c, centre in enumerate(centres_of(n_classes, dim))]
    values = novelty.of(torch.cat(fresh))
    for kept in (0.9, 0.95, 0.99):
        assert float((values <= novelty.limit(kept)).double().mean()) == pytest.approx(kept, abs=0.04)
    assert novelty.limit(0.5) < novelty.limit(0.9) < novelty.limit(1.0)


@pytest.mark.parametrize(("n_classes", "dim", "n"), [(2, 24, 10), (2, 64, 30), (10, 256, 20)])
def test_the_limit_keeps_most_known_inputs_where_samples_are_fewer_than_features(n_classes, dim, n):
    novelty = Novelty(discriminant_of(gaussian_classes(n_classes, dim, n)))
    fresh = [gaussian(centre, 100, seed=500 + c) for c, centre in enumerate(centres_of(n_classes, dim))]
    assert float((novelty.of(torch.cat(fresh)) <= novelty.limit(0.99)).double().mean()) > 0.9


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
    novelty = Novelty(discriminant_of(samples))
    queries = torch.cat([*samples, torch.zeros(1, 4), 10 * normal(3, 4, seed=9)])
    assert bool(torch.isfinite(novelty.of(queries)).all())
    assert math.isfinite(novelty.limit(0.99))


# Identification of the group.


def test_a_group_is_as_probable_as_its_classes_together():
    classes = torch.tensor([[0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    groups = group_probabilities(classes, torch.tensor([1, 0, 1, 2]))
    expected = torch.tensor([[0.2, 0.4, 0.4], [0.0, 1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(groups, expected, rtol=1e-12, atol=0)


def test_chosen_classes_are_counted_by_group():
    chosen = torch.tensor([[True, True, True, False], [False, False, False, True], [False] * 4])
    counts = group_counts(chosen, torch.tensor([1, 0, 1, 2]))
    assert counts.tolist() == [[1, 2, 0], [0, 0, 1], [0, 0, 0]]


def test_meta_features_are_distances_to_all_prototypes():
    rho = meta_features(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]]))
    assert rho.dtype == "float64"
    assert rho.tolist() == [pytest.approx([5.0, 1.0, 0.0]), pytest.approx([0.0, math.sqrt(18), 5.0])]


@pytest.fixture(scope="module")
def separated():
    return discriminant_of(gaussian_classes(6, 8, 40))


def test_the_vote_learns_separated_groups(separated):
    group_of_class = torch.tensor([0, 1, 2, 1, 0, 2])
    vote = SoftVote(separated, group_of_class, seed=0)
    fresh = torch.cat([gaussian(centre, 50, seed=500 + c) for c, centre in enumerate(centres_of(6, 8))])
    probabilities = vote.probabilities(fresh)
    assert probabilities.shape == (300, 3)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(300, dtype=torch.float64))
    right = probabilities.argmax(1) == group_of_class.repeat_interleave(50)
    assert float(right.double().mean()) > 0.97
    assert torch.equal(SoftVote(separated, group_of_class, seed=0).probabilities(fresh), probabilities)
    assert not torch.equal(SoftVote(separated, group_of_class, seed=1).probabilities(fresh), probabilities)


def test_the_vote_is_the_mean_of_its_voters(separated):
    vote = SoftVote(separated, torch.tensor([0, 1, 1, 1, 0, 0]), seed=0)
    queries = 4 + 4 * normal(20, 8, seed=3)
    rho = meta_features(queries, separated.means)
    single = [torch.from_numpy(voter.predict_proba(rho)) for voter in vote._voters]
    assert len(single) == 3
    torch.testing.assert_close(vote.probabilities(queries), sum(single) / 3)


@pytest.mark.parametrize("name", [name for name in VOTERS if name != "vote"])
def test_each_voter_alone_learns_separated_groups(separated, name):
    group_of_class = torch.tensor([0, 1, 2, 1, 0, 2])
    alone = SoftVote(separated, group_of_class, seed=0, members=VOTERS[name])
    assert len(alone._voters) == 1
    fresh = torch.cat([gaussian(centre, 20, seed=500 + c) for c, centre in enumerate(centres_of(6, 8))])
    probabilities = alone.probabilities(fresh)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(120, dtype=torch.float64))
    right = probabilities.argmax(1) == group_of_class.repeat_interleave(20)
    assert float(right.double().mean()) > 0.9
    again = SoftVote(separated, group_of_class, seed=0, members=VOTERS[name])
    assert torch.equal(again.probabilities(fresh), probabilities)


def test_the_voters_are_of_different_kinds(separated):
    kinds = {
        name: type(getattr(voter, "steps", [("", voter)])[-1][1]).__name__
        for name in VOTERS
        if name != "vote"
        for voter in SoftVote(separated, torch.tensor([0, 1, 0, 1, 0, 1]), seed=0, members=VOTERS[name])._voters
    }
    assert kinds == {
        "forest": "RandomForestClassifier",
        "knn": "KNeighborsClassifier",
        "lightgbm": "LGBMClassifier",
        "tree": "DecisionTreeClassifier",
        "mlp": "MLPClassifier",
    }


def test_only_lightgbm_needs_lightgbm(separated, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    SoftVote(separated, torch.tensor([0, 1, 0, 1, 0, 1]), seed=0, members=VOTERS["tree"])
    with pytest.raises(MissingExtraError, match=r"gddsg\[vote\]"):
        SoftVote(separated, torch.tensor([0, 1, 0, 1, 0, 1]), seed=0, members=VOTERS["lightgbm"])


def test_a_single_group_needs_no_vote(separated, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    vote = SoftVote(separated, torch.zeros(6, dtype=torch.long), seed=0)
    assert vote.probabilities(normal(4, 8)).tolist() == [[1.0]] * 4


def test_a_missing_voter_is_named(separated, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingExtraError, match=r"gddsg\[vote\]"):
        SoftVote(separated, torch.tensor([0, 1, 0, 1, 0, 1]), seed=0)
