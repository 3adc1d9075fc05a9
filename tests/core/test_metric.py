"""The metric that all classes share: pooled covariance, shrinkage, view and temperature, from a set of cards alone."""

import math

import pytest
import torch

from gddsg.core.class_card import ClassCard
from gddsg.core.metric import (
    ALL_CLASSES,
    CLASS_SHARE_MAX,
    CLASS_SHARE_MIN,
    CLASS_SHARE_PRIOR,
    SAMPLED_CLASSES,
    SHRINKAGE_GRID,
    TEMPERATURE_PRIOR,
    TEMPERATURE_SCALE,
    choose_shrinkage,
    own_weight,
    pooled_covariance,
    pooled_scatter,
    sample_classes,
    shared_metric,
    shrunk_whitener,
    span_inflation,
)
from gddsg.core.moments import CodedMoments, Moments
from gddsg.core.view_choice import choose_view

RANK = 64


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def scatter(vectors):
    exact = vectors.double()
    return (exact - exact.mean(0)).T @ (exact - exact.mean(0))


def classes_of(sizes, dim, seed=0, separation=1.0):
    """Samples of every class, each with a shape and a place of its own."""
    parts = []
    for i, n in enumerate(sizes):
        shape = torch.eye(dim) + 0.3 * normal(dim, dim, seed=seed + 50 + i)
        parts.append(separation * normal(dim, seed=seed + i) + normal(n, dim, seed=seed + 100 + i) @ shape + 2)
    return parts


def cards_of(samples, rank=RANK, plain=True):
    return [ClassCard.of(vectors, lambda x: x, rank, plain=plain) for vectors in samples]


def metric_of(samples, rank=RANK):
    return shared_metric(cards_of(samples, rank))


def own_share(n, dim):
    """b of a class: how far its own scatter is trusted."""
    return min(max(n / (n + CLASS_SHARE_PRIOR * dim), CLASS_SHARE_MIN), CLASS_SHARE_MAX)


# Pooled scatter.


def parts_of(rank=RANK, n_classes=42):
    return [CodedMoments.of(normal(6 + i, 9, seed=i), rank) for i in range(n_classes)]


@pytest.mark.parametrize("n_classes", [1, 42, 200])
def test_the_pooled_scatter_is_the_sum_over_classes(n_classes):
    expected = sum(scatter(normal(6 + i, 9, seed=i)) for i in range(n_classes))
    total = pooled_scatter(parts_of(n_classes=n_classes))
    assert total.dtype == torch.float64
    torch.testing.assert_close(total, expected, rtol=0, atol=5e-3 * float(expected.max()))


def test_lost_energy_comes_back_half_in_the_span_half_isotropic():
    parts = [part.decoded() for part in parts_of(rank=3)]
    expected = torch.zeros(9, 9, dtype=torch.float64)
    for part in parts:
        own = part.factor.double().T @ part.factor.double()
        kept = float(own.trace())
        expected += own * (kept + part.residual / 2) / kept
        expected += part.residual / 2 / 9 * torch.eye(9, dtype=torch.float64)
    total = pooled_scatter(parts_of(rank=3))
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-5 * float(expected.max()))
    assert float(total.trace()) == pytest.approx(sum(part.energy for part in parts), rel=1e-5)


def test_the_same_classes_give_the_same_bits():
    assert torch.equal(pooled_scatter(parts_of()), pooled_scatter(parts_of()))


def test_span_inflation_by_hand():
    def part(length, residual):
        factor = torch.tensor([[length, 0.0]])
        return Moments(5, torch.zeros(2, dtype=torch.float64), factor, residual)

    assert span_inflation(part(2.0, 0.0)) == 1.0
    assert span_inflation(part(2.0, 24.0)) == pytest.approx(2.0)
    assert span_inflation(part(0.0, 3.0)) == 1.0


def test_a_covariance_of_nothing_is_isotropic():
    means = torch.tensor([[0.0, 0.0], [4.0, 0.0]], dtype=torch.float64)
    found = pooled_covariance(torch.zeros(2, 2, dtype=torch.float64), means)
    assert torch.equal(found, 2 * torch.eye(2, dtype=torch.float64))  # the mean square of -2, 2, 0 and 0
    same = pooled_covariance(torch.zeros(2, 2, dtype=torch.float64), means[:1])
    assert torch.equal(same, torch.eye(2, dtype=torch.float64))
    some = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    assert pooled_covariance(some, means) is some


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_rounding_counts_as_no_scatter(scale):
    # what is left where float32 numbers of this size are subtracted from their mean
    noise = (1e-7 * scale) ** 2 * torch.eye(2, dtype=torch.float64)
    means = scale * torch.tensor([[3.0, 4.0], [3.0, 4.0]], dtype=torch.float64)
    torch.testing.assert_close(pooled_covariance(noise, means) / scale**2, 12.5 * torch.eye(2, dtype=torch.float64))
    apart = means + scale * torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(pooled_covariance(noise, apart) / scale**2, 0.125 * torch.eye(2, dtype=torch.float64))
    assert pooled_covariance(1e6 * noise, means).equal(1e6 * noise)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (3, 6, 2), (9, 9, 9, 9, 9)], ids=str)
def test_the_spectrum_of_few_samples_is_that_of_their_covariance(sizes, scale):
    metric = metric_of([scale * vectors for vectors in classes_of(sizes, 100)])
    rebuilt = metric.vectors.double() * metric.values @ metric.vectors.double().T
    torch.testing.assert_close(rebuilt, metric.pooled, rtol=0, atol=1e-5 * float(metric.pooled.max()))
    torch.testing.assert_close(metric.vectors.T @ metric.vectors, torch.eye(100), rtol=0, atol=1e-5)


@pytest.mark.parametrize("shrinkage", [0.01, 0.4, 0.9])
def test_the_whitener_makes_the_shrunk_covariance_the_identity(shrinkage):
    S = scatter(normal(30, 6))
    T_0 = (1 - shrinkage) * S + shrinkage * S.trace() / 6 * torch.eye(6, dtype=torch.float64)
    W = shrunk_whitener(S, shrinkage)
    torch.testing.assert_close(W.T @ T_0 @ W, torch.eye(6, dtype=torch.float64))
    torch.testing.assert_close(W @ W.T, torch.linalg.inv(T_0))


# The metric.


def test_the_metric_is_that_of_the_pooled_covariance():
    metric = metric_of(samples := classes_of((30, 40, 50), 4))
    S, g = sum(map(scatter, samples)) / (120 - 3), metric.shrinkage
    torch.testing.assert_close(metric.pooled, S, rtol=0, atol=2e-3 * float(S.max()))
    rebuilt = metric.vectors.double() * metric.values @ metric.vectors.double().T
    torch.testing.assert_close(rebuilt, metric.pooled, rtol=1e-5, atol=1e-5)
    S = metric.pooled
    inverse = torch.linalg.inv((1 - g) * S + g * S.trace() / 4 * torch.eye(4, dtype=torch.float64))
    gaps = normal(9, 4, seed=3).double()
    torch.testing.assert_close(metric.whiten(gaps).square().sum(1), (gaps @ inverse * gaps).sum(1), rtol=1e-6, atol=0)
    assert metric.degrees_of_freedom == 117
    assert metric.effective_dim == pytest.approx(float(torch.trace(S @ inverse)), rel=1e-6)
    assert metric.optimism == pytest.approx((1 - g) * float(torch.trace(S @ inverse)) / 117, rel=1e-6)


class Counted:
    """Stands for a card of which only the numbers of samples and features matter."""

    def __init__(self, count, dim):
        self.count, self.raw = count, type("Raw", (), {"dim": dim})


@pytest.mark.parametrize(
    ("n_classes", "count", "dim", "sampled"),
    [
        (ALL_CLASSES, 1, 1000, ALL_CLASSES),
        (ALL_CLASSES + 1, 50, 8, SAMPLED_CLASSES),
        (5000, 11, 400, 160),  # 10 degrees of freedom each, four for each of 400 dimensions
        (300, 3, 400, 300),
        (5000, 1, 8, 5000),
    ],
)
def test_the_metric_is_made_of_as_few_classes_as_suffice(n_classes, count, dim, sampled):
    cards = [Counted(count, dim) for _ in range(n_classes)]
    assert sample_classes(iter(cards)) == tuple(cards[:sampled])


def test_the_metric_remembers_its_sample():
    cards = cards_of(classes_of((30, 40), 4))
    assert shared_metric(cards).sample == tuple(cards)


def test_the_metric_has_the_same_bits_whenever_it_is_made():
    one, other = (metric_of(classes_of((30, 40, 5), 7)) for _ in range(2))
    assert torch.equal(one.whitener, other.whitener)
    assert (one.temperature, one.effective_dim) == (other.temperature, other.effective_dim)


# The view.


def test_cards_without_roots_are_seen_plainly():
    samples = [vectors.abs() for vectors in classes_of((30, 40), 4)]
    assert shared_metric(cards_of(samples, plain=True)).view == "raw"
    mixed = [*cards_of(samples[:1], plain=True), *cards_of(samples[1:], plain=False)]
    assert shared_metric(mixed).view == "raw"


def test_the_view_is_that_of_the_sample_unless_another_class_has_no_roots():
    squares = [(3 + vectors).square() for vectors in classes_of((60, 60, 60), 8)]
    cards = cards_of(squares, plain=False)
    assert shared_metric(cards).view == choose_view(cards) == "root"
    assert shared_metric(cards, rooted=False).view == "raw"
    assert shared_metric(cards_of([*squares, -squares[0]], plain=False)).view == "raw"


# Own scatter.


@pytest.mark.parametrize(("n", "dim"), [(1, 5), (3, 40), (30, 5), (600, 5)])
def test_the_weight_of_own_scatter(n, dim):
    b = own_share(n, dim)
    assert own_weight(CodedMoments.of(normal(n, dim), RANK)) == pytest.approx(b / (1 - b))


# Temperature.


@pytest.mark.parametrize("sizes", [(1, 1), (1, 200), (2, 3), (500, 500), (5,)])
@pytest.mark.parametrize("dim", [1, 4, 100])
def test_temperature_lies_between_zero_and_one(sizes, dim):
    assert 0 < metric_of(classes_of(sizes, dim)).temperature <= 1


def test_temperature_falls_with_the_root_of_the_dimension_and_with_few_samples():
    """Scale · n / (n + prior) / √dim, and as much more as the classes' own scatter has widened their covariance."""
    for sizes in ((400, 600), (8, 12), (2, 18)):
        metric = metric_of(classes_of(sizes, 60))
        mean_count = sum(sizes) / 2
        share = mean_count / (mean_count + TEMPERATURE_PRIOR)
        widening = 1 + sum(own_share(n, 60) / (1 - own_share(n, 60)) for n in sizes) / 2
        expected = TEMPERATURE_SCALE * share * widening / math.sqrt(metric.effective_dim)
        assert metric.temperature == pytest.approx(expected)
        assert expected < 1
    assert metric_of(classes_of((400, 600), 3)).temperature == 1


# Shrinkage.


def shrinkage_by_loops(values, means, counts, dof):
    """The docstring of choose_shrinkage, pair by pair: the errors of every g, and those that may be chosen."""
    dim, level = len(values), sum(values) / len(values)
    tried, trusted = {}, [SHRINKAGE_GRID[-1]]
    for g in SHRINKAGE_GRID:
        H = [1 / ((1 - g) * v + g * level) for v in values]
        trace = sum(v * h for v, h in zip(values, H, strict=True))
        a = (1 - g) * trace / dof
        trusted += [g] if a <= 0.5 else []
        inflation = 1 / (1 - min(a, 0.99))
        errors = []
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
        tried[g] = sum(errors) / len(errors)
    return tried, trusted


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
    tried, trusted = shrinkage_by_loops(values.tolist(), means.tolist(), counts.tolist(), dof)
    assert choose_shrinkage(values, vectors, means @ vectors.T, counts, dof) == min(trusted, key=tried.get)
    assert max(tried.values()) > 1.001 * min(tried.values())


def test_shrinkage_of_well_separated_classes_is_not_decided_by_underflow():
    """The farther apart the classes, the less the noise of their means matters, but these are all few samples."""
    values, vectors = torch.logspace(-2, 1, 30, dtype=torch.float64), torch.eye(30, dtype=torch.float64)
    counts = torch.full((3,), 5.0, dtype=torch.float64)
    means = values.sqrt() * normal(3, 30).double()
    chosen = [choose_shrinkage(values, vectors, scale * means, counts, 12.0) for scale in (5.0, 50.0, 500.0)]
    assert len(set(chosen)) == 1


def test_few_samples_ask_for_more_shrinkage():
    few, many = metric_of(classes_of([6] * 5, 30)), metric_of(classes_of([300] * 5, 30))
    assert few.shrinkage > many.shrinkage


def test_one_class_has_nothing_to_choose():
    values, vectors, mean = (torch.ones(shape, dtype=torch.float64) for shape in ((3,), (3, 3), (1, 3)))
    assert choose_shrinkage(values, vectors, mean, torch.tensor([5.0]), 4.0) == 0.5


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
def test_degenerate_classes_have_a_finite_metric(samples):
    metric = metric_of(samples)
    assert 0 < metric.temperature <= 1
    assert metric.shrinkage in SHRINKAGE_GRID
    assert bool(metric.whitener.isfinite().all())
    assert float(metric.whitener.diagonal().min()) > 0
    assert math.isfinite(metric.effective_dim)
