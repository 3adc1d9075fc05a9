"""The discriminant is the Gaussian log-likelihood it claims to be, and nothing depends on the order of arrival."""

import math

import pytest
import torch

from gddsg.core.class_card import Moments
from gddsg.core.discriminant import (
    CLASS_SHARE_MAX,
    CLASS_SHARE_MIN,
    CLASS_SHARE_PRIOR,
    SHRINKAGE_GRID,
    TEMPERATURE_PRIOR,
    TEMPERATURE_SCALE,
    Discriminant,
    choose_shrinkage,
)
from gddsg.core.scatter_pool import ScatterPool

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


def scatter(vectors):
    exact = vectors.double()
    return (exact - exact.mean(0)).T @ (exact - exact.mean(0))


def discriminant_of(samples, rank=RANK):
    moments = {i: Moments.of(vectors, rank) for i, vectors in enumerate(samples)}
    return Discriminant(list(moments.values()), ScatterPool().total(moments))


def own_share(n, dim):
    """b of a class: how far its own scatter is trusted."""
    return min(max(n / (n + CLASS_SHARE_PRIOR * dim), CLASS_SHARE_MIN), CLASS_SHARE_MAX)


def dense_scores(samples, shrinkage, queries):
    """Log-likelihoods ``(n, n_classes)`` up to a constant, with every matrix written out."""
    dim = queries.shape[1]
    freedom = sum(len(vectors) - 1 for vectors in samples)
    S = sum(scatter(vectors) for vectors in samples) / freedom
    T_0 = (1 - shrinkage) * S + shrinkage * S.trace() / dim * torch.eye(dim, dtype=torch.float64)
    columns = []
    for vectors in samples:
        b = own_share(len(vectors), dim)
        S_c = scatter(vectors) / max(len(vectors) - 1, 1)
        T_c = T_0 + (1 - shrinkage) * b / (1 - b) * S_c
        gaps = queries.double() - vectors.double().mean(0)
        squares = (gaps @ torch.linalg.inv(T_c) * gaps).sum(1)
        mean_error = torch.trace(S @ torch.linalg.inv(T_0)) / len(vectors)
        columns.append(-(squares + torch.logdet(T_c) - mean_error) / 2)
    return torch.stack(columns, dim=1)


def differences(scores):
    return scores - scores.mean(1, keepdim=True)


# Scores.


SCORE_PROBLEMS = [((30, 60, 250, 600), 5), ((1, 3, 40, 700), 5), ((8, 12, 20, 30), 12), ((3, 150, 200), 40)]


@pytest.mark.parametrize(("sizes", "dim"), SCORE_PROBLEMS)
def test_scores_are_gaussian_log_likelihoods(sizes, dim):
    samples = classes_of(sizes, dim, separation=0.5)
    discriminant = discriminant_of(samples)
    queries = torch.cat([vectors[:60] for vectors in samples])
    expected = dense_scores(samples, discriminant.whitening.shrinkage, queries)
    scores = discriminant.scores(queries) / discriminant.temperature
    linear = (
        discriminant.effective_dim / discriminant.counts - discriminant.distances(discriminant.whiten(queries))
    ) / 2
    contested = linear.amax(1) - linear.amin(1) < 11.9 / discriminant.temperature
    assert int(contested.sum()) >= 15  # here every class is a candidate
    torch.testing.assert_close(differences(scores[contested]), differences(expected[contested]), rtol=1e-4, atol=1e-4)


def test_those_problems_cover_the_range_of_class_shares():
    shares = {own_share(n, dim) for sizes, dim in SCORE_PROBLEMS for n in sizes if n > 1}
    assert {CLASS_SHARE_MIN, CLASS_SHARE_MAX} < shares


def test_classes_far_behind_hardly_change_a_probability():
    samples = classes_of((30, 50, 300, 700, 40, 60, 80), 6, separation=3.0)
    discriminant = discriminant_of(samples)
    queries = torch.cat([vectors[:30] for vectors in samples])
    expected = dense_scores(samples, discriminant.whitening.shrinkage, queries) * discriminant.temperature
    far = expected.amax(1, keepdim=True) - expected > 12
    assert 0.1 < float(far.double().mean()) < 0.9
    scores = discriminant.scores(queries)
    torch.testing.assert_close(scores.softmax(1), expected.softmax(1), rtol=0, atol=0.01)
    assert bool((scores.argmax(1) == expected.argmax(1)).all())


def test_only_the_nearest_classes_get_a_quadratic_term_and_the_others_follow_behind_them():
    samples = classes_of([40] * 50, 4, separation=0.3)
    discriminant = discriminant_of(samples)
    queries = samples[0][:10]
    linear = -discriminant.distances(discriminant.whiten(queries)) / 2
    order = linear.argsort(dim=1, descending=True)
    scores = discriminant.scores(queries) / discriminant.temperature
    expected = dense_scores(samples, discriminant.whitening.shrinkage, queries)
    near, rest = order[:, :32], order[:, 32:]
    torch.testing.assert_close(
        differences(scores.gather(1, near)), differences(expected.gather(1, near)), rtol=1e-4, atol=1e-4
    )
    torch.testing.assert_close(
        differences(scores.gather(1, rest)), differences(linear.gather(1, rest)), rtol=1e-6, atol=1e-6
    )
    assert bool((scores.gather(1, rest).amax(1) <= scores.gather(1, near).amin(1) + 1e-9).all())


def test_a_cut_factor_enters_a_class_covariance_as_it_is():
    samples = classes_of((40, 700), 8, separation=0.4)
    parts = [Moments.of(vectors, 3) for vectors in samples]
    S = sum(scatter(vectors) for vectors in samples)
    discriminant = Discriminant(parts, S)
    queries = torch.cat(samples)[::10]
    g = discriminant.whitening.shrinkage
    S = S / (740 - 2)
    T_0 = (1 - g) * S + g * S.trace() / 8 * torch.eye(8, dtype=torch.float64)
    columns = []
    for part in parts:
        b = own_share(part.count, 8)
        T_c = T_0 + (1 - g) * b / (1 - b) * part.factor.double().T @ part.factor.double() / (part.count - 1)
        gaps = queries.double() - part.mean
        mean_error = torch.trace(S @ torch.linalg.inv(T_0)) / part.count
        columns.append(-((gaps @ torch.linalg.inv(T_c) * gaps).sum(1) + torch.logdet(T_c) - mean_error) / 2)
    scores = discriminant.scores(queries) / discriminant.temperature
    torch.testing.assert_close(differences(scores), differences(torch.stack(columns, dim=1)), rtol=1e-4, atol=1e-4)


def test_rows_are_scored_one_by_one_whatever_their_number():
    samples = classes_of((30, 40, 50), 4)
    discriminant = discriminant_of(samples)
    queries = 2 + 2 * normal(4100, 4, seed=7)
    scores = discriminant.scores(queries)
    assert scores.shape == (4100, 3)
    torch.testing.assert_close(scores[4090:], discriminant.scores(queries[4090:]), rtol=1e-9, atol=1e-9)


def test_distances_are_squared_and_in_the_shrunk_metric():
    samples = classes_of((30, 40, 50), 4)
    discriminant = discriminant_of(samples)
    S = sum(map(scatter, samples)) / (120 - 3)
    g = discriminant.whitening.shrinkage
    inverse = torch.linalg.inv((1 - g) * S + g * S.trace() / 4 * torch.eye(4, dtype=torch.float64))
    queries = normal(9, 4, seed=3)
    distances = discriminant.distances(discriminant.whiten(queries))
    for c, vectors in enumerate(samples):
        gaps = queries.double() - vectors.double().mean(0)
        torch.testing.assert_close(distances[:, c], (gaps @ inverse * gaps).sum(1), rtol=1e-4, atol=1e-4)
    assert discriminant.effective_dim == pytest.approx(float(torch.trace(S @ inverse)), rel=1e-4)
    assert discriminant.optimism == pytest.approx((1 - g) * float(torch.trace(S @ inverse)) / 117, rel=1e-4)


# Temperature.


@pytest.mark.parametrize("sizes", [(1, 1), (1, 200), (2, 3), (500, 500), (5,)])
@pytest.mark.parametrize("dim", [1, 4, 100])
def test_temperature_lies_between_zero_and_one(sizes, dim):
    assert 0 < discriminant_of(classes_of(sizes, dim)).temperature <= 1


def test_temperature_falls_with_the_root_of_the_dimension_and_with_few_samples():
    """Scale · n / (n + prior) / √dim, and as much more as the classes' own scatter has widened their covariance."""
    for sizes in ((400, 600), (8, 12), (2, 18)):
        discriminant = discriminant_of(classes_of(sizes, 60))
        mean_count = sum(sizes) / 2
        share = mean_count / (mean_count + TEMPERATURE_PRIOR)
        widening = 1 + sum(own_share(n, 60) / (1 - own_share(n, 60)) for n in sizes) / 2
        expected = TEMPERATURE_SCALE * share * widening / math.sqrt(discriminant.effective_dim)
        assert discriminant.temperature == pytest.approx(expected)
        assert expected < 1
    assert discriminant_of(classes_of((400, 600), 3)).temperature == 1


# Shrinkage.


def shrinkage_by_loops(values, means, counts, dof):
    """The docstring of choose_shrinkage, pair by pair: both errors of every g, and those that may be chosen."""
    dim, level = len(values), sum(values) / len(values)
    tried, heavy, trusted = {}, {}, [SHRINKAGE_GRID[-1]]
    for g in SHRINKAGE_GRID:
        H = [1 / ((1 - g) * v + g * level) for v in values]
        trace = sum(v * h for v, h in zip(values, H, strict=True))
        a = (1 - g) * trace / dof
        trusted += [g] if a <= 0.5 else []
        inflation = 1 / (1 - min(a, 0.99))
        errors, heavy_errors = [], []
        for i, mean in enumerate(means):
            metric = [1 / (0.7 * v + 0.3 * level) for v in values]
            apart = {
                j: sum(metric[k] * (mean[k] - other[k]) ** 2 for k in range(dim))
                for j, other in enumerate(means)
                if j != i
            }
            for j in sorted(apart, key=apart.get)[:5]:
                delta = [mean[k] - means[j][k] for k in range(dim)]
                D = sum(H[k] * delta[k] ** 2 for k in range(dim))
                deviation = inflation * math.sqrt(sum(H[k] ** 2 * values[k] * delta[k] ** 2 for k in range(dim)))
                margin = D / 2 - inflation * trace / counts[i]
                errors.append(0.5 * math.erfc(margin / deviation / math.sqrt(2)))
                heavy_errors.append(1 / (1 + math.exp(margin / deviation)))
        tried[g], heavy[g] = sum(errors) / len(errors), sum(heavy_errors) / len(heavy_errors)
    return tried, heavy, trusted


SHRINKAGE_PROBLEMS = [
    (8, 10, 5, 2.0),
    (8, 10, 40, 0.5),
    (3, 30, 4, 1.0),
    (2, 6, 300, 3.0),
    (12, 20, 2, 0.3),
    (2, 40, 1, 1.0),  # its best g, 0.2, is not to be trusted
]


@pytest.mark.parametrize(("n_classes", "dim", "per_class", "separation"), SHRINKAGE_PROBLEMS)
def test_shrinkage_has_the_least_expected_error(n_classes, dim, per_class, separation):
    values = torch.logspace(-2, 1, dim, dtype=torch.float64)
    vectors = torch.linalg.qr(normal(dim, dim, seed=1).double()).Q
    means = separation * values.sqrt() * normal(n_classes, dim).double()  # in the basis of the eigenvectors
    counts = torch.arange(n_classes, dtype=torch.float64) + per_class
    dof = float(counts.sum()) - n_classes
    tried, heavy, trusted = shrinkage_by_loops(values.tolist(), means.tolist(), counts.tolist(), dof)
    g, error = choose_shrinkage(values, vectors, means @ vectors.T, counts, dof)
    assert g == min(trusted, key=tried.get)
    assert error == pytest.approx(heavy[g], rel=1e-5)
    assert max(tried.values()) > 1.001 * min(tried.values())


def test_many_classes_are_judged_by_some_of_them():
    """Classes on a circle: each has the same rivals, so any choice of classes gives the same error."""
    n, dof = 600, 5400.0
    angles = torch.arange(n, dtype=torch.float64) * 2 * math.pi / n
    radius = n / 2 / math.pi  # neighbours are about 1 apart
    means = radius * torch.stack([angles.cos(), angles.sin()], dim=1)
    identity = torch.eye(2, dtype=torch.float64)
    g, error = choose_shrinkage(torch.ones(2, dtype=torch.float64), identity, means, torch.full((n,), 10.0), dof)
    inflation = 1 / (1 - (1 - g) * 2 / dof)
    expected = 0.0
    for steps in (1, 1, 2, 2, 3):
        D = (2 * radius * math.sin(math.pi * steps / n)) ** 2
        expected += 1 / (1 + math.exp((D / 2 - inflation * 2 / 10) / (inflation * math.sqrt(D)))) / 5
    assert error == pytest.approx(expected, rel=1e-5)


def test_shrinkage_of_well_separated_classes_is_not_decided_by_underflow():
    """The farther apart the classes, the less the noise of their means matters, but these are all few samples."""
    values, vectors = torch.logspace(-2, 1, 30, dtype=torch.float64), torch.eye(30, dtype=torch.float64)
    counts = torch.full((3,), 5.0, dtype=torch.float64)
    means = values.sqrt() * normal(3, 30).double()
    chosen = [choose_shrinkage(values, vectors, scale * means, counts, 12.0) for scale in (5.0, 50.0, 500.0)]
    assert chosen[0][1] > 0
    assert [g for g, _ in chosen[1:]] == [chosen[0][0]] * 2


def test_few_samples_ask_for_more_shrinkage():
    few, many = discriminant_of(classes_of([6] * 5, 30)), discriminant_of(classes_of([300] * 5, 30))
    assert few.whitening.shrinkage > many.whitening.shrinkage
    assert few.whitening.expected_error > many.whitening.expected_error


def test_one_class_has_nothing_to_choose():
    values, vectors, mean = (torch.ones(shape, dtype=torch.float64) for shape in ((3,), (3, 3), (1, 3)))
    assert choose_shrinkage(values, vectors, mean, torch.tensor([5.0]), 4.0) == (0.5, 0.0)


def test_the_whitening_is_that_of_the_pooled_covariance():
    discriminant = discriminant_of(classes_of((30, 40), 4))
    whitening = discriminant.whitening
    rebuilt = whitening.vectors * whitening.values @ whitening.vectors.T
    torch.testing.assert_close(rebuilt, discriminant.pooled, rtol=1e-5, atol=1e-5)
    expected = (1 - whitening.shrinkage) * whitening.values + whitening.shrinkage * whitening.values.mean()
    torch.testing.assert_close(whitening.shrunk, expected)
    assert whitening.level == pytest.approx(float(discriminant.pooled.trace()) / 4)


# Degenerate inputs.

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
def test_degenerate_classes_have_finite_scores(samples):
    discriminant = discriminant_of(samples)
    queries = torch.cat([*samples, normal(3, samples[0].shape[1], seed=9)])
    scores = discriminant.scores(queries)
    assert scores.shape == (len(queries), len(samples))
    assert bool(torch.isfinite(scores).all())
    assert 0 < discriminant.temperature <= 1
    assert discriminant.whitening.shrinkage in SHRINKAGE_GRID
    assert float(discriminant.whitening.shrunk.min()) > 0


@pytest.mark.parametrize("name", ["one-sample classes", "constant classes", "a dead feature", "tiny", "huge"])
def test_degenerate_classes_are_told_apart_where_they_can_be(name):
    samples = DEGENERATE[name]
    means = torch.stack([vectors.mean(0) for vectors in samples])
    assert discriminant_of(samples).scores(means).argmax(1).tolist() == list(range(len(samples)))


def test_equal_classes_get_equal_scores():
    scores = discriminant_of(DEGENERATE["equal classes"]).scores(normal(5, 4, seed=3))
    torch.testing.assert_close(scores, scores[:, :1].expand_as(scores))
