"""The discriminant's parts are those of Gaussian classes, each made by itself and handed on as it is."""

import numpy as np
import pytest
import torch

from gddsg.core import discriminant as module
from gddsg.core.class_card import ClassCard
from gddsg.core.discriminant import Discriminant, moments_in
from gddsg.core.metric import own_weight, shared_metric

RANK = 64


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def classes_of(sizes, dim, seed=0, separation=1.0):
    """Samples of every class, each with a shape and a place of its own."""
    parts = []
    for i, n in enumerate(sizes):
        shape = torch.eye(dim) + 0.3 * normal(dim, dim, seed=seed + 50 + i)
        parts.append(separation * normal(dim, seed=seed + i) + normal(n, dim, seed=seed + 100 + i) @ shape + 2)
    return parts


def cards_of(samples, rank=RANK, plain=True):
    return tuple(ClassCard.of(vectors, lambda x: x, rank, plain=plain) for vectors in samples)


def shared_covariance(metric):
    """T_0, written out."""
    dim, g = len(metric.pooled), metric.shrinkage
    return (1 - g) * metric.pooled + g * metric.pooled.trace() / dim * torch.eye(dim, dtype=torch.float64)


def own_covariance(metric, card):
    """T_c, written out from the decoded factor."""
    part = card.raw.decoded()
    S_c = part.factor.double().T @ part.factor.double() / max(part.count - 1, 1)
    return shared_covariance(metric) + (1 - metric.shrinkage) * own_weight(card.raw) * S_c


PROBLEMS = [((30, 60, 250, 600), 5), ((1, 3, 40, 700), 5), ((8, 12, 20, 30), 12), ((3, 150, 200), 40)]


@pytest.mark.parametrize(("sizes", "dim"), PROBLEMS)
@pytest.mark.parametrize("rank", [RANK, 3], ids=["uncut", "cut"])
def test_own_scatter_turns_a_shared_likelihood_into_the_class_s_own(sizes, dim, rank):
    samples = classes_of(sizes, dim, separation=0.5)
    cards = cards_of(samples, rank)
    metric = shared_metric(cards)
    discriminant = Discriminant.of(metric, cards)
    queries = torch.cat([vectors[:20] for vectors in samples]).double()
    T_0 = shared_covariance(metric)
    for card in cards:
        T_c, gaps = own_covariance(metric, card), queries - card.raw.mean
        own = -((gaps @ torch.linalg.inv(T_c) * gaps).sum(1) + torch.logdet(T_c)) / 2
        shared = -((gaps @ torch.linalg.inv(T_0) * gaps).sum(1) + torch.logdet(T_0)) / 2
        term = discriminant.own[card.key]().term(torch.linalg.solve(T_0, gaps.T).T.numpy(), np.zeros(dim))
        np.testing.assert_allclose(term, (own - shared).numpy(), rtol=1e-4, atol=1e-4)
        log_det = float(torch.logdet(T_c) - torch.logdet(T_0))
        assert discriminant.own[card.key]().log_det == pytest.approx(log_det, abs=1e-4)


def test_a_class_of_one_sample_has_no_scatter_of_its_own():
    cards = cards_of(classes_of((1, 40), 5))
    own = Discriminant.of(shared_metric(cards), cards).own[cards[0].key]()
    assert (own.inner.shape, own.log_det) == ((0, 0), 0.0)
    assert own.term(normal(3, 5).double().numpy(), np.ones(5)).tolist() == [0.0] * 3


def canonical(cards):
    return tuple(sorted(cards, key=lambda card: card.key))


def test_means_and_biases_are_those_of_the_cards():
    cards = cards_of(samples := classes_of((30, 40, 50, 9), 4))
    discriminant = Discriminant.of(shared_metric(cards), cards)
    assert discriminant.cards == cards
    exact = torch.stack([vectors.double().mean(0) for vectors in samples])
    torch.testing.assert_close(discriminant.prototypes(), exact, rtol=1e-5, atol=1e-5)
    (means,) = (part() for part in discriminant.means.values())
    T_0, metric = shared_covariance(discriminant.metric), discriminant.metric
    solved = torch.linalg.solve(T_0, discriminant.prototypes().T).T
    np.testing.assert_allclose(means.solved(), solved.numpy(), rtol=1e-6)
    squares = (discriminant.prototypes() * solved).sum(1).numpy()
    np.testing.assert_allclose(np.square(means.whitened).sum(1), squares, rtol=1e-6)
    errors = metric.effective_dim / np.array([30, 40, 50, 9])
    np.testing.assert_allclose(means.biases, (squares - errors) / 2, rtol=1e-6)


def test_blocks_of_means_are_those_of_content(monkeypatch):
    cards = canonical(cards_of(classes_of([5] * 20, 4)))
    metric = shared_metric(cards)
    whole = Discriminant.of(metric, cards)
    monkeypatch.setattr("gddsg.core.canonical_order.BLOCK_SIZE", 6)
    parts = Discriminant.of(metric, cards)
    assert [key for block in parts.means for key in block] == [card.key for card in cards]
    assert len(parts.means) > 3
    assert max(map(len, parts.means)) <= 6
    (expected,) = (means().whitened for means in whole.means.values())
    found = np.concatenate([means().whitened for means in parts.means.values()])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_card_without_the_view_is_seen_plainly():
    samples = [vectors.abs() for vectors in classes_of((30, 40), 4)]
    with_roots, plain = cards_of(samples, plain=False), cards_of(samples[:1])[0]
    metric = shared_metric(with_roots)
    assert metric.view == "root"
    assert moments_in(metric, with_roots[0]) is with_roots[0].root
    assert moments_in(metric, plain) is plain.raw


# Each class by itself, handed on as it is.


def test_what_was_known_in_the_same_metric_is_kept(monkeypatch):
    monkeypatch.setattr("gddsg.core.canonical_order.BLOCK_SIZE", 6)
    cards = canonical(cards_of(classes_of([5] * 21, 4)))
    before = tuple(card for card in cards if card is not cards[10])
    metric = shared_metric(before)
    first = Discriminant.of(metric, before)
    first.own[before[0].key]()
    second = Discriminant.of(metric, cards, first)
    same = first.means.keys() & second.means.keys()
    assert len(same) == len(first.means) - 1
    assert all(second.means[block] is first.means[block] for block in same)
    assert all(second.own[card.key] is first.own[card.key] for card in before)
    assert second.own[before[0].key].peek() is not None
    assert second.own[cards[10].key].peek() is None
    assert cards[10].key not in first.own  # the first is as it was


def test_another_metric_keeps_nothing():
    cards = canonical(cards_of(classes_of((30, 40, 50, 9), 4)))
    first = Discriminant.of(shared_metric(cards[:3]), cards)
    second = Discriminant.of(shared_metric(cards), cards, first)
    assert all(second.means[block] is not first.means[block] for block in first.means)
    assert all(second.own[card.key] is not first.own[card.key] for card in cards)


def test_a_class_s_own_part_has_the_same_bits_whoever_its_company():
    cards = cards_of(classes_of((30, 40, 50, 9), 4))
    metric = shared_metric(cards)
    alone, all_of_them = Discriminant.of(metric, cards[1:2]), Discriminant.of(metric, cards)
    one, other = alone.own[cards[1].key](), all_of_them.own[cards[1].key]()
    assert np.array_equal(one.inner, other.inner)
    assert one.log_det == other.log_det


def test_large_models_take_factors_from_the_cards_and_score_alike(monkeypatch):
    cards = cards_of(classes_of((30, 40, 50, 9), 4))
    metric, gaps = shared_metric(cards), normal(5, 4).double()
    small = Discriminant.of(metric, cards)
    monkeypatch.setattr(module, "READY_CLASSES", 3)
    large = Discriminant.of(metric, cards)
    whitened, nowhere = gaps @ metric.whitener, np.zeros(4)
    solved = whitened @ metric.whitener.T
    for card in cards:
        ready, taken = small.own[card.key](), large.own[card.key]()
        assert ready is not taken  # the two round differently, so that none may pass for the other
        assert len(taken.directions) == 0
        np.testing.assert_allclose(
            ready.term_ready(whitened.numpy(), nowhere), ready.term(solved.numpy(), nowhere), rtol=1e-4, atol=1e-4
        )
        assert np.array_equal(ready.term(solved.numpy(), nowhere), taken.term(solved.numpy(), nowhere))
