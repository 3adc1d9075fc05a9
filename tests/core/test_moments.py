"""Moments: exact up to the rank, whatever the batches; and what the coding in a byte an entry costs."""

import numpy as np
import pytest
import torch

from gddsg.core.moments import CodedMoments, Moments, principal_factor
from gddsg.core.transform import unit

RANK = 64


def normal(*shape, seed=0, mean=0.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) + mean


def decaying(n, dim, seed=0):
    """Samples whose scatter has a falling spectrum, off the origin."""
    return normal(n, dim, seed=seed) * torch.logspace(0, -2, dim) + normal(dim, seed=seed + 100)


def explicit(vectors):
    """Mean and scatter in float64, straight from their definition."""
    exact = vectors.double()
    mean = exact.mean(0)
    return mean, (exact - mean).T @ (exact - mean)


def scatter(moments):
    return moments.factor.double().T @ moments.factor.double()


def assert_close(actual, expected, relative=1e-5):
    """Equal up to a share of the largest entry expected."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=relative * float(expected.abs().max()))


def assert_same_moments(a, b):
    assert (a.count, a.residual) == (b.count, b.residual)
    assert torch.equal(a.total, b.total)
    assert torch.equal(a.factor, b.factor)


# Moments of a batch.


@pytest.mark.parametrize(("n", "dim"), [(1, 5), (2, 5), (9, 30), (60, 7), (64, 64)])
def test_moments_are_exact_up_to_the_rank(n, dim):
    vectors = normal(n, dim, seed=n, mean=3.0)
    moments = Moments.of(vectors, RANK)
    mean, expected = explicit(vectors)
    assert (moments.count, moments.dim) == (n, dim)
    assert len(moments.factor) == min(n - 1, dim)
    assert (moments.total.dtype, moments.factor.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(moments.mean, mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(scatter(moments), expected, rtol=0, atol=1e-5 * max(float(expected.trace()), 1e-3))
    assert moments.residual <= 1e-5 * float(expected.trace()) + 1e-12


def test_moments_of_nothing():
    nothing = Moments.of(torch.empty(0, 3), RANK)
    assert (nothing.count, nothing.dim, nothing.energy, nothing.factor.shape) == (0, 3, 0.0, (0, 3))
    assert torch.equal(nothing.mean, torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize(("n", "dim", "rank"), [(20, 50, 8), (50, 20, 8), (90, 200, 8), (200, 90, 8), (40, 40, 1)])
def test_a_cut_factor_is_the_leading_part_of_the_scatter(n, dim, rank):
    """Both Gram matrices, each by the full decomposition and by subspace iteration."""
    vectors = decaying(n, dim)
    moments = Moments.of(vectors, rank)
    _, expected = explicit(vectors)
    values, directions = torch.linalg.eigh(expected)
    values, directions = values.flip(0)[:rank], directions.flip(1)[:, :rank]
    assert moments.factor.shape == (rank, dim)
    torch.testing.assert_close(moments.factor.double().square().sum(1), values, rtol=2e-3, atol=0)
    assert_close(scatter(moments), directions * values @ directions.T, relative=0.02)


@pytest.mark.parametrize(("n", "dim", "rank"), [(30, 50, 8), (50, 30, 8), (90, 200, 8), (2500, 12, 4), (9, 9, RANK)])
def test_kept_and_residual_energy_make_up_the_trace(n, dim, rank):
    vectors = normal(n, dim)
    moments = Moments.of(vectors, rank)
    trace = float(explicit(vectors)[1].trace())
    kept = float(moments.factor.double().square().sum())
    assert kept + moments.residual == pytest.approx(trace, rel=1e-5)
    assert moments.energy == pytest.approx(trace, rel=1e-5)
    assert (moments.residual > 0.1 * trace) == (rank < min(n, dim))


def test_many_rows_are_taken_in_chunks_without_a_difference():
    vectors = decaying(2500, 10)
    moments = Moments.of(vectors, RANK)
    mean, expected = explicit(vectors)
    assert moments.count == 2500
    torch.testing.assert_close(moments.mean, mean, rtol=1e-6, atol=1e-6)
    assert_close(scatter(moments), expected)


def test_constant_vectors_have_no_scatter():
    moments = Moments.of(torch.full((7, 4), 2.5), RANK)
    assert (moments.energy, len(moments.factor)) == (0.0, 0)
    assert torch.equal(moments.mean, torch.full((4,), 2.5, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(12, 30), (30, 12)])
def test_an_uncut_factor_is_turned_into_principal_directions_and_holds_no_sample(shape):
    vectors = normal(*shape, mean=1.0)
    centred = vectors - vectors.mean(0)
    factor, residual = principal_factor(centred, RANK)
    products = factor @ factor.T
    lengths = products.diagonal()
    assert residual <= 1e-5 * float(lengths.sum())
    assert bool((lengths[:-1] >= lengths[1:]).all())
    assert float((products - torch.diag(lengths)).abs().max()) < 1e-5 * float(lengths[0])
    for samples in (vectors, centred):
        assert float((unit(factor) @ unit(samples).T).abs().max()) < 0.95


@pytest.mark.parametrize(("n", "dim"), [(1, 5), (40, 90), (300, 8), (2500, 10)])
def test_without_a_rank_nothing_is_cut_off(n, dim):
    vectors = normal(n, dim, mean=3.0) * torch.logspace(0, -4, dim)
    moments = Moments.of(vectors)
    mean, expected = explicit(vectors)
    assert len(moments.factor) == min(n - 1, dim)
    torch.testing.assert_close(moments.mean, mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(scatter(moments), expected, rtol=0, atol=1e-6 * max(float(expected.max()), 1e-9))
    merged = Moments.of(vectors[: n // 2]).merge(Moments.of(vectors[n // 2 :]))
    torch.testing.assert_close(scatter(merged), expected, rtol=0, atol=2e-6 * max(float(expected.max()), 1e-9))
    assert merged.residual <= 1e-6 * max(float(expected.trace()), 1e-9)


# Merging moments.


@pytest.mark.parametrize(("sizes", "dim"), [((4, 9), 40), ((1, 1), 6), ((30, 2), 8), ((1, 50), 5)])
def test_merging_equals_one_batch_while_the_rank_is_not_exceeded(sizes, dim):
    parts = [normal(n, dim, seed=n, mean=4.0 * i) for i, n in enumerate(sizes)]
    merged = Moments.of(parts[0], RANK).merge(Moments.of(parts[1], RANK), RANK)
    mean, expected = explicit(torch.cat(parts))
    assert merged.count == sum(sizes)
    torch.testing.assert_close(merged.mean, mean, rtol=1e-6, atol=1e-6)
    assert_close(scatter(merged), expected)
    assert merged.residual <= 1e-5 * float(expected.trace())


def test_many_merges_equal_one_batch():
    parts = [normal(n, 9, seed=n, mean=n / 5) for n in range(1, 12)]
    merged = Moments.empty(9)
    for part in parts:
        merged = merged.merge(Moments.of(part, RANK), RANK)
    mean, expected = explicit(torch.cat(parts))
    torch.testing.assert_close(merged.mean, mean, rtol=1e-6, atol=1e-6)
    assert_close(scatter(merged), expected)


@pytest.mark.parametrize("sizes", [(5, 9), (6, 6), (1, 1), (40, 70), (0, 3)])
def test_merging_commutes_bit_for_bit(sizes):
    a, b = (Moments.of(normal(n, 20, seed=i), 8) for i, n in enumerate(sizes))
    assert_same_moments(a.merge(b, 8), b.merge(a, 8))


def test_merging_commutes_bit_for_bit_where_counts_and_sums_agree():
    halves = normal(6, 5, seed=0), normal(6, 5, seed=1)
    a, b = (Moments.of(torch.cat([half, -half]), 8) for half in halves)
    assert torch.equal(a.total, b.total)
    assert_same_moments(a.merge(b, 8), b.merge(a, 8))


def test_merging_with_nothing_changes_nothing():
    moments, nothing = Moments.of(normal(5, 4), RANK), Moments.empty(4)
    assert_same_moments(moments.merge(nothing, RANK), moments)
    assert_same_moments(nothing.merge(moments, RANK), moments)


def test_merging_beyond_the_rank_stays_near_one_batch():
    rank, parts = 12, [decaying(60, 40, seed=0), decaying(80, 40, seed=0) + 0.1]
    merged = Moments.of(parts[0], rank).merge(Moments.of(parts[1], rank), rank)
    batch = Moments.of(torch.cat(parts), rank)
    trace = float(explicit(torch.cat(parts))[1].trace())
    assert len(merged.factor) == rank
    assert merged.energy == pytest.approx(trace, rel=1e-5)
    assert 0 < batch.residual <= merged.residual * 1.001 < 1.2 * batch.residual
    assert_close(scatter(merged), scatter(batch), relative=0.03)


# Coded moments.


def coded_scatter(moments):
    return scatter(moments.decoded())


def assert_same_coded(a, b):
    assert (a.count, a.residual) == (b.count, b.residual)
    assert torch.equal(a.total, b.total)
    assert np.array_equal(a.factor.codes, b.factor.codes)
    assert np.array_equal(a.factor.scales, b.factor.scales)


@pytest.mark.parametrize(("n", "dim", "rank"), [(1, 5, 8), (9, 30, 64), (60, 7, 64), (90, 200, 8), (500, 40, 16)])
def test_coding_keeps_mean_scatter_and_energy(n, dim, rank):
    vectors = decaying(n, dim)
    exact, coded = Moments.of(vectors, rank), CodedMoments.of(vectors, rank)
    assert (coded.count, coded.dim, len(coded.factor)) == (n, dim, len(exact.factor))
    assert coded.total.dtype == torch.float32
    torch.testing.assert_close(coded.mean, exact.mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(coded.decoded().mean, coded.mean, rtol=0, atol=0)
    # half a step of 127 at most, hence by a hundredth of the largest direction
    torch.testing.assert_close(coded_scatter(coded), scatter(exact), rtol=0, atol=0.01 * exact.energy + 1e-12)
    assert coded.energy == pytest.approx(exact.energy, rel=1e-4, abs=1e-12)
    assert coded.energy >= exact.energy * (1 - 1e-4)
    assert coded.decoded().energy == pytest.approx(coded.energy, rel=1e-5, abs=1e-12)


def test_energy_that_the_coding_loses_goes_to_the_residual():
    exact = Moments(5, torch.zeros(4, dtype=torch.float64), torch.tensor([[127.0, 0.4, 0.4, 0.4]]), 2.0)
    coded = CodedMoments.coded(exact)
    assert coded.factor.codes.tolist() == [[127, 0, 0, 0]]
    assert coded.residual == pytest.approx(2.0 + 3 * 0.16, rel=1e-3)
    gained = Moments(5, torch.zeros(4, dtype=torch.float64), torch.tensor([[127.0, 0.6, 0.6, 0.6]]), 0.0)
    assert CodedMoments.coded(gained).residual == 0.0


def test_coded_moments_of_nothing():
    nothing = CodedMoments.of(torch.empty(0, 3), RANK)
    assert (nothing.count, nothing.dim, nothing.energy, len(nothing.factor)) == (0, 3, 0.0, 0)
    assert torch.equal(nothing.mean, torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("sizes", [(5, 9), (6, 6), (1, 1), (40, 70), (0, 3)])
def test_merging_coded_moments_commutes_bit_for_bit(sizes):
    a, b = (CodedMoments.of(normal(n, 20, seed=i), 8) for i, n in enumerate(sizes))
    assert_same_coded(a.merge(b, 8), b.merge(a, 8))


def test_merging_coded_moments_with_nothing_changes_nothing():
    moments, nothing = CodedMoments.of(normal(5, 4), RANK), CodedMoments.of(torch.empty(0, 4), RANK)
    assert moments.merge(nothing, RANK) is moments
    assert nothing.merge(moments, RANK) is moments


@pytest.mark.parametrize(("batches", "error"), [(2, 0.01), (10, 0.01), (50, 0.025)])
def test_many_merges_of_coded_moments_stay_near_one_batch(batches, error):
    vectors = decaying(500, 24)
    merged = CodedMoments.of(torch.empty(0, 24), RANK)
    for part in vectors.chunk(batches):
        merged = merged.merge(CodedMoments.of(part, RANK), RANK)
    mean, expected = explicit(vectors)
    assert merged.count == 500
    torch.testing.assert_close(merged.mean, mean, rtol=1e-5, atol=1e-5)
    assert_close(coded_scatter(merged), expected, relative=error)
    # the rounding of every merge adds up: 0.1 to 0.6 % over seeds
    assert merged.energy == pytest.approx(float(expected.trace()), rel=1e-2)


# Scales.


@pytest.mark.parametrize("scale", [2.0**-80, 2.0**-40, 2.0**40, 2.0**60])
@pytest.mark.parametrize("n", [5, 40, 500])
def test_moments_of_any_scale_are_those_of_the_same_samples(n, scale):
    vectors = decaying(n, 30)
    usual, scaled = (Moments.of(one, 8) for one in (vectors, vectors * scale))
    assert_close(scatter(scaled) / scale**2, scatter(usual))
    assert scaled.residual / scale**2 == pytest.approx(usual.residual, rel=1e-4, abs=1e-4 * usual.energy)


def test_copies_of_one_sample_scatter_by_rounding_at_most():
    moments = Moments.of(normal(1, 30, mean=5.0).repeat(7, 1), RANK)
    assert moments.energy <= 1e-12 * float(moments.mean.square().sum())
