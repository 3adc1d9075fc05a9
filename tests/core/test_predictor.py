"""The predictor against the formula, written out row by row and class by class."""

import math

import numpy as np
import pytest
import torch

from gddsg.core import predictor as module
from gddsg.core.metric import own_weight
from gddsg.core.model import Model, Settings
from gddsg.core.projection import projection_weights
from gddsg.core.ridge import ridge_head
from gddsg.errors import InputError


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def learnt(samples, names=None, **settings):
    """A model of the classes of ``samples``, called by number unless they have names."""
    model = Model(Settings(**{"projection_dim": 24} | settings))
    names = list(range(len(samples))) if names is None else names
    labels = [name for name, vectors in zip(names, samples, strict=True) for _ in vectors]
    return model.plus(model.make_cards(torch.cat(samples).float(), labels))


def problem(n_classes=10, dim=5, separation=1.0, signed=False, sizes=(30, 60, 8)):
    """Classes that overlap, with shapes of their own; and fresh inputs ``(n, dim)``."""
    samples, fresh = [], []
    for i in range(n_classes):
        shape = torch.eye(dim) + 0.3 * normal(dim, dim, seed=50 + i)
        centre = separation * normal(dim, seed=i) + (0 if signed else 4)
        samples.append(centre + normal(sizes[i % len(sizes)], dim, seed=100 + i) @ shape)
        fresh.append(centre + normal(6, dim, seed=300 + i) @ shape)
    if not signed:
        samples, fresh = [x.abs() for x in samples], [x.abs() for x in fresh]
    return samples, torch.cat(fresh).numpy()


# The formula.


def log_total(values):
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))


def seen(x, view):
    x = np.float64(x)
    return np.sign(x) * np.sqrt(np.abs(x)) if view == "root" else x


class Formula:
    """Log-probabilities of one input at a time, in plain words: nothing is whitened, cached or put in blocks."""

    def __init__(self, model):
        self.model, self.labels, self.metric = model, list(model.labels), model.derived.metric
        dim, g, pooled = len(self.metric.pooled), self.metric.shrinkage, self.metric.pooled.numpy()
        self.T_0 = (1 - g) * pooled + g * np.trace(pooled) / dim * np.eye(dim)
        self.inverse = np.linalg.inv(self.T_0)
        self.effective_dim = np.trace(pooled @ self.inverse)
        self.group_of = {label: i for i, group in enumerate(model.groups) for label in group}
        self.heads = [ridge_head([model.cards[k] for k in group]).weights.numpy() for group in model.groups]

    def moments(self, label):
        return self.model.cards[label].view(self.metric.view).decoded()

    def linear(self, x, label):
        gap = seen(x, self.metric.view) - self.moments(label).mean.numpy()
        return (self.effective_dim / self.moments(label).count - gap @ self.inverse @ gap) / 2

    def quadratic(self, x, label):
        part = self.moments(label)
        gap, factor = seen(x, self.metric.view) - part.mean.numpy(), part.factor.double().numpy()
        weight = (1 - self.metric.shrinkage) * own_weight(self.model.cards[label].view(self.metric.view))
        T_c = self.T_0 + weight * factor.T @ factor / max(part.count - 1, 1)
        log_det = np.linalg.slogdet(T_c)[1] - np.linalg.slogdet(self.T_0)[1]
        return (self.effective_dim / part.count - gap @ np.linalg.inv(T_c) @ gap - log_det) / 2

    def alone(self, x):
        evidence = self.evidence(x)
        return [evidence[k] for k in self.labels]

    def evidence(self, x):
        linear = {k: self.linear(x, k) for k in self.labels}
        best = max(linear.values())
        near = [k for k in self.labels if linear[k] >= best - 12 / self.metric.temperature]
        near = sorted(near, key=linear.get)[-32:]
        scores = dict(linear)
        if len(near) > 1:
            exact = {k: self.quadratic(x, k) for k in near}
            shift = min(exact.values()) - min(linear[k] for k in near)
            scores = {k: exact[k] if k in exact else linear[k] + shift for k in self.labels}
        scores = {k: score * self.metric.temperature for k, score in scores.items()}
        whole = log_total(list(scores.values()))
        return {k: score - whole for k, score in scores.items()}

    def opinions(self, x, group):
        settings = self.model.settings
        view = "raw" if settings.plain else "root"
        weights = projection_weights(len(x), settings.projection_dim, settings.seed).double().numpy()
        scores = np.maximum(seen(x, view) @ weights, 0) @ self.heads[group]
        return dict(zip(self.model.groups[group], scores, strict=True))

    def soft(self, x):
        evidence = self.evidence(x)
        best = max(evidence.values())
        plausible = sorted((k for k in self.labels if evidence[k] >= best - 6), key=evidence.get)[-8:]
        heard = dict(evidence)
        self.contested = 0
        for group, members in enumerate(self.model.groups):
            if len(set(plausible) & set(members)) > 1:
                self.contested += 1
                opinions = self.opinions(x, group)
                heard |= {k: evidence[k] + 2 * opinions[k] for k in members}
        scores = {}
        for members in self.model.groups:
            group_evidence, within = (log_total([table[k] for k in members]) for table in (evidence, heard))
            scores |= {k: group_evidence + heard[k] - within for k in members}
        whole = log_total(list(scores.values()))
        return [scores[k] - whole for k in self.labels]

    def hard(self, x, group=None):
        group = self.best_group(x) if group is None else group
        opinions = {k: 2 * score for k, score in self.opinions(x, group).items()}
        whole = log_total(list(opinions.values()))
        return [opinions[k] - whole if k in opinions else -700.0 for k in self.labels]

    def best_group(self, x):
        evidence = self.evidence(x)
        totals = [log_total([evidence[k] for k in members]) for members in self.model.groups]
        return totals.index(max(totals))

    def ungated(self, x):
        scores = {}
        for group in range(len(self.model.groups)):
            scores |= {k: 2 * score for k, score in self.opinions(x, group).items()}
        whole = log_total(list(scores.values()))
        return [scores[k] - whole for k in self.labels]


SETTINGS = [
    {},
    {"feature_transform": "none"},
    {"rank": 3},
    {"grouping": "one"},
    {"distance": "euclidean"},
    {"seed": 3},
]


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("mode", ["soft", "hard", "ungated", "evidence"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_probabilities_are_those_of_the_formula(settings, mode, signed):
    samples, fresh = problem(signed=signed)
    model = learnt(samples, decision=mode, **settings)
    formula = Formula(model)
    decide = formula.alone if mode == "evidence" else getattr(formula, mode)
    expected = [decide(x) for x in fresh]
    found = model.predictor.predict_log_proba(fresh)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.exp(found).sum(1), 1)
    assert model.predictor.predict(fresh).tolist() == np.argmax(expected, axis=1).tolist()


def test_the_formula_hears_heads_and_groups_in_these_problems():
    """Were no two plausible classes ever in one group, the tests above would prove nothing about heads."""
    samples, fresh = problem()
    model = learnt(samples)
    formula = Formula(model)
    contested = [formula.soft(x) and formula.contested for x in fresh]
    assert len(model.groups) > 2
    assert sum(map(bool, contested)) > 10
    assert len({formula.best_group(x) for x in fresh}) > 1


@pytest.mark.parametrize("separation", [0.3, 3.0])
def test_many_classes_of_which_few_are_candidates(separation):
    samples, fresh = problem(n_classes=60, separation=separation, sizes=(20,))
    model = learnt(samples)
    formula = Formula(model)
    rows = fresh[::17]
    found = model.predictor.predict_log_proba(rows)
    np.testing.assert_allclose(found, [formula.soft(x) for x in rows], rtol=1e-5, atol=1e-5)
    evidence = model.predictor.evidence(rows)[:, model.predictor.columns]
    np.testing.assert_allclose(evidence, [list(formula.evidence(x).values()) for x in rows], rtol=1e-5, atol=1e-5)


def test_groups_are_identified_and_obeyed():
    samples, fresh = problem()
    model = learnt(samples)
    formula, predictor = Formula(model), model.predictor
    assert predictor.predict_group(fresh).tolist() == [formula.best_group(x) for x in fresh]
    for group in range(len(model.groups)):
        labels = predictor.predict_in_group(fresh, np.full(len(fresh), group))
        assert labels.tolist() == [int(np.argmax(formula.hard(x, group))) for x in fresh]


def test_a_group_is_as_probable_as_its_classes_together():
    samples, fresh = problem()
    predictor = learnt(samples).predictor
    evidence = predictor.evidence(fresh)
    found = np.exp(predictor.group_evidence(fresh, evidence))
    expected = np.stack([np.exp(evidence)[:, group].sum(1) for group in predictor.groups], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert sorted(np.concatenate(predictor.groups).tolist()) == list(range(10))
    assert all((predictor.group_of[members] == group).all() for group, members in enumerate(predictor.groups))


def test_columns_are_in_the_order_of_the_labels():
    samples, fresh = problem()
    numbers, words = learnt(samples), learnt(samples, names=list("jihgfedcba"))
    assert words.predictor.labels.tolist() == list("abcdefghij")
    assert np.array_equal(words.predictor.predict_log_proba(fresh), numbers.predictor.predict_log_proba(fresh)[:, ::-1])
    assert [ord("j") - ord(k) for k in words.predictor.predict(fresh).tolist()] == numbers.predictor.predict(
        fresh
    ).tolist()


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_rows_are_scored_one_by_one_whatever_their_number(monkeypatch, mode):
    samples, fresh = problem()
    predictor = learnt(samples, decision=mode).predictor
    whole = predictor.predict_log_proba(fresh), predictor.predict_group(fresh), predictor.predict(fresh)
    monkeypatch.setattr(module, "_SCORES_AT_ONCE", 70)
    monkeypatch.setattr(module, "_LEAST_ROWS", 7)
    monkeypatch.setattr(module, "_SCORES_IN_CACHE", 30)
    assert [len(part) for part in predictor._chunks(fresh)] == [7] * 8 + [4]
    np.testing.assert_allclose(predictor.predict_log_proba(fresh), whole[0], rtol=1e-9, atol=1e-9)
    assert np.array_equal(predictor.predict_group(fresh), whole[1])
    assert np.array_equal(predictor.predict_in_group(fresh, whole[1]), predictor.predict_in_group(fresh[:], whole[1]))
    for row in (0, 13, 59):
        np.testing.assert_allclose(predictor.predict_log_proba(fresh[[row]])[0], whole[0][row], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_classes", [1, 2, 10])
def test_a_single_row_is_scored_like_many(n_classes):
    """A table of one row or column has the same memory read either way: what is written must not reach the other."""
    samples, fresh = problem(n_classes=n_classes, separation=2.0)
    predictor = learnt(samples).predictor
    whole = predictor.predict_log_proba(fresh)
    for row, x in enumerate(fresh):
        np.testing.assert_allclose(predictor.predict_log_proba(x[None])[0], whole[row], rtol=1e-9, atol=1e-9)


def test_asking_changes_nothing():
    samples, fresh = problem()
    predictor = learnt(samples).predictor
    before, asked = predictor.predict_log_proba(fresh), fresh.copy()
    kept = [block.copy() for block in predictor.means], predictor.biases.copy(), predictor.whitener.copy()
    for _ in range(3):
        predictor.predict_group(fresh)
        predictor.predict_in_group(fresh, predictor.predict_group(fresh))
        predictor.measure_novelty(fresh)
        assert np.array_equal(predictor.predict_log_proba(fresh), before)
    assert np.array_equal(fresh, asked)
    assert all(np.array_equal(a, b) for a, b in zip(kept[0], predictor.means, strict=True))
    assert np.array_equal(kept[1], predictor.biases)
    assert np.array_equal(kept[2], predictor.whitener)


def test_a_vote_weighs_the_groups():
    """In the soft decision a group is as probable as the vote says, and inside it evidence and head decide."""
    samples, fresh = problem()
    model = learnt(samples)
    predictor, voted = model.predictor, model.configured("tree", "soft").predictor
    votes = voted.vote(seen(fresh, predictor.view)).clip(min=1e-12)
    table, by_evidence = (np.exp(one.predict_log_proba(fresh)) for one in (voted, predictor))
    columns = [np.flatnonzero(np.isin(predictor.columns, group)) for group in predictor.groups]
    for group, own in enumerate(columns):
        np.testing.assert_allclose(table[:, own].sum(1), votes[:, group] / votes.sum(1), rtol=1e-6, atol=1e-9)
        shares = by_evidence[:, own] / by_evidence[:, own].sum(1, keepdims=True)
        np.testing.assert_allclose(table[:, own] / table[:, own].sum(1, keepdims=True), shares, rtol=1e-6)


def test_only_what_is_asked_for_is_computed():
    samples, fresh = problem(separation=30.0)
    model = learnt(samples)
    predictor = model.predictor
    assert [own.peek() for own in predictor.own] == [None] * 10
    predictor.predict_log_proba(fresh[:6])
    assert [head.peek() for head in predictor.heads] == [None] * len(predictor.heads)
    assert predictor.novelty.peek() is None


def test_of_classes_that_differ_by_rounding_alone_the_first_is_taken():
    scores = np.log([[0.25, 0.25 * (1 + 1e-13), 0.5], [0.4, 0.4 * (1 + 1e-13), 0.2], [0.2, 0.4 * (1 + 1e-6), 0.4]])
    assert module.first_best(scores).tolist() == [2, 0, 1]


# Novelty and rejection.


def test_novelty_and_its_limit_are_those_of_the_discriminant_in_its_view():
    samples, fresh = problem()
    fresh, predictor = np.square(fresh), learnt([rows.square() for rows in samples]).predictor
    assert predictor.view == "root"
    found = predictor.measure_novelty(fresh)
    np.testing.assert_array_equal(found, predictor.novelty().measure(np.sqrt(fresh).astype(np.float64)))
    strange = predictor.predict(fresh, reject=0.5) == "unknown"
    assert strange.tolist() == (found > predictor.novelty_limit(0.5)).tolist()
    assert 0 < strange.sum() < len(fresh)


@pytest.mark.parametrize("kept", [0, -0.1, 1.01, float("nan"), "0.9", [0.9]])
def test_a_share_to_keep_that_is_none_is_refused(kept):
    predictor = learnt(problem()[0]).predictor
    with pytest.raises(InputError, match="reject"):
        predictor.novelty_limit(kept)


# Degenerate classes.

DEGENERATE = {
    "one class": [normal(10, 4)],
    "one class of one sample": [normal(1, 4)],
    "one-sample classes": [normal(1, 4, seed=i) for i in range(5)],
    "one sample among many": [normal(1, 4), normal(50, 4, seed=1)],
    "constant features": [torch.ones(5, 4), torch.ones(6, 4)],
    "zeros": [torch.zeros(5, 4), torch.zeros(1, 4)],
    "constant classes": [torch.full((5, 4), float(i)) for i in range(3)],
    "a dead feature": [normal(9, 4, seed=i) * torch.tensor([1.0, 0, 1, 0]) + i for i in range(3)],
    "equal classes": [normal(9, 4)] * 3,
    "one feature": [normal(9, 1, seed=i) + i for i in range(3)],
    "tiny": [1e-12 * (normal(9, 4, seed=i) + i) for i in range(3)],
    "huge": [1e12 * (normal(9, 4, seed=i) + i) for i in range(3)],
}


@pytest.mark.parametrize("samples", DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.parametrize("mode", ["soft", "hard", "ungated"])
def test_degenerate_classes_have_finite_scores(samples, mode):
    predictor = learnt(samples, decision=mode).predictor
    queries = torch.cat([*samples, normal(3, samples[0].shape[1], seed=9)]).numpy()
    scores = predictor.predict_log_proba(queries)
    assert scores.shape == (len(queries), len(samples))
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(np.exp(scores).sum(1), 1)
    assert np.isfinite(predictor.measure_novelty(queries)).all()


@pytest.mark.parametrize("name", ["one-sample classes", "constant classes", "a dead feature", "tiny", "huge"])
def test_degenerate_classes_are_told_apart_where_they_can_be(name):
    samples = DEGENERATE[name]
    means = torch.stack([vectors.mean(0) for vectors in samples]).numpy()
    assert learnt(samples, feature_transform="none").predictor.predict(means).tolist() == list(range(len(samples)))


def test_equal_classes_get_equal_probabilities():
    scores = learnt(DEGENERATE["equal classes"]).predictor.predict_log_proba(normal(5, 4, seed=3).numpy())
    np.testing.assert_allclose(scores, -math.log(3), atol=1e-9)


def test_of_twins_rounding_does_not_choose_and_a_table_names_the_same_class():
    """Probabilities that differ by rounding alone are a tie, whatever the order of the labels."""
    samples, fresh = problem(n_classes=4, separation=3.0)
    for names in (["a", "b", "c", "d", "e"], ["e", "d", "c", "b", "a"]):
        predictor = learnt([*samples, samples[0]], names).predictor
        table = predictor.predict_log_proba(fresh)
        expected = predictor.predict(fresh).tolist()
        for noise in (-1e-12, 1e-12):
            wobbling = table + noise * np.arange(table.shape[1])
            assert predictor.labels[predictor.best_columns(wobbling)].tolist() == expected
        assert {names[0], names[4]} & set(expected)
        assert not {names[0], names[4]} <= set(expected)
