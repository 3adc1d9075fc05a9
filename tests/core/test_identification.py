"""Which group? Classifiers that learn from draws of the cards."""

import math
import sys

import numpy as np
import pytest
import torch

from gddsg.core.class_card import ClassCard
from gddsg.core.discriminant import Discriminant
from gddsg.core.identification import VOTERS, SoftVote, meta_features
from gddsg.core.metric import shared_metric
from gddsg.errors import MissingExtraError


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


def gaussian_classes(n_classes, dim, n):
    return [gaussian(centre, n, seed=10 + c) for c, centre in enumerate(centres_of(n_classes, dim))]


def test_meta_features_are_distances_to_all_prototypes():
    rho = meta_features(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]]))
    assert rho.dtype == "float64"
    assert rho.tolist() == [pytest.approx([5.0, 1.0, 0.0]), pytest.approx([0.0, math.sqrt(18), 5.0])]


def fresh_samples(n):
    drawn = [gaussian(centre, n, seed=500 + c) for c, centre in enumerate(centres_of(6, 8))]
    return torch.cat(drawn).double().numpy()


@pytest.fixture(scope="module")
def separated():
    return discriminant_of(gaussian_classes(6, 8, 40))


def test_the_vote_learns_separated_groups(separated):
    group_of_class = np.array([0, 1, 2, 1, 0, 2])
    vote = SoftVote(separated, group_of_class, seed=0)
    fresh = fresh_samples(50)
    probabilities = vote.probabilities(fresh)
    assert probabilities.shape == (300, 3)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    right = probabilities.argmax(1) == group_of_class.repeat(50)
    assert right.mean() > 0.97
    assert np.array_equal(SoftVote(separated, group_of_class, seed=0).probabilities(fresh), probabilities)
    assert not np.array_equal(SoftVote(separated, group_of_class, seed=1).probabilities(fresh), probabilities)


def test_the_vote_is_the_mean_of_its_voters(separated):
    vote = SoftVote(separated, np.array([0, 1, 1, 1, 0, 0]), seed=0)
    queries = 4 + 4 * normal(20, 8, seed=3)
    rho = meta_features(queries, separated.prototypes())
    single = [voter.predict_proba(rho) for voter in vote._voters]
    assert len(single) == 3
    np.testing.assert_allclose(vote.probabilities(queries.double().numpy()), sum(single) / 3)


@pytest.mark.parametrize("name", [name for name in VOTERS if name != "vote"])
def test_each_voter_alone_learns_separated_groups(separated, name):
    group_of_class = np.array([0, 1, 2, 1, 0, 2])
    alone = SoftVote(separated, group_of_class, seed=0, members=VOTERS[name])
    assert len(alone._voters) == 1
    fresh = fresh_samples(20)
    probabilities = alone.probabilities(fresh)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    right = probabilities.argmax(1) == group_of_class.repeat(20)
    assert right.mean() > 0.9
    again = SoftVote(separated, group_of_class, seed=0, members=VOTERS[name])
    assert np.array_equal(again.probabilities(fresh), probabilities)


def test_the_voters_are_of_different_kinds(separated):
    kinds = {
        name: type(getattr(voter, "steps", [("", voter)])[-1][1]).__name__
        for name in VOTERS
        if name != "vote"
        for voter in SoftVote(separated, np.array([0, 1, 0, 1, 0, 1]), seed=0, members=VOTERS[name])._voters
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
    SoftVote(separated, np.array([0, 1, 0, 1, 0, 1]), seed=0, members=VOTERS["tree"])
    with pytest.raises(MissingExtraError, match=r"gddsg\[vote\]"):
        SoftVote(separated, np.array([0, 1, 0, 1, 0, 1]), seed=0, members=VOTERS["lightgbm"])


def test_a_single_group_needs_no_vote(separated, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    vote = SoftVote(separated, np.zeros(6, dtype=np.intp), seed=0)
    assert vote.probabilities(normal(4, 8).double().numpy()).tolist() == [[1.0]] * 4


def test_a_missing_voter_is_named(separated, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingExtraError, match=r"gddsg\[vote\]"):
        SoftVote(separated, np.array([0, 1, 0, 1, 0, 1]), seed=0)


def test_groups_without_a_sampled_class_are_never_voted_for():
    """The voters learn from the classes that the metric is made of; the others only serve as prototypes."""
    cards = tuple(ClassCard.of(vectors, lambda x: x, 64, plain=True) for vectors in gaussian_classes(6, 8, 40))
    discriminant = Discriminant.of(shared_metric(cards[:4]), cards)
    vote = SoftVote(discriminant, np.array([0, 2, 0, 2, 1, 3]), seed=0, members=VOTERS["tree"])
    probabilities = vote.probabilities(fresh_samples(20))
    assert probabilities.shape == (120, 4)
    assert not probabilities[:, [1, 3]].any()
    assert np.mean(probabilities[:80].argmax(1) == np.array([0, 2, 0, 2]).repeat(20)) > 0.9
