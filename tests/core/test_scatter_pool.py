"""The pool of scatters: exact sums, whatever comes and goes."""

import pytest
import torch

from gddsg.core.class_card import Moments
from gddsg.core.scatter_pool import SampledSpectrum, ScatterPool, pooled_covariance, span_inflation

RANK = 64
LABELS = [*range(40), "cat", "dog"]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def scatter(vectors):
    exact = vectors.double()
    return (exact - exact.mean(0)).T @ (exact - exact.mean(0))


def moments_by_label(rank=RANK):
    return {label: Moments.of(normal(6 + i, 9, seed=i), rank) for i, label in enumerate(LABELS)}


def test_total_scatter_is_the_sum_over_classes():
    expected = sum(scatter(normal(6 + i, 9, seed=i)) for i in range(len(LABELS)))
    total = ScatterPool().total(moments_by_label())
    assert total.dtype == torch.float64
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-5 * float(expected.max()))


def test_lost_energy_comes_back_half_in_the_span_half_isotropic():
    parts = moments_by_label(rank=3)
    expected = torch.zeros(9, 9, dtype=torch.float64)
    for part in parts.values():
        own = part.factor.double().T @ part.factor.double()
        kept = float(own.trace())
        expected += own * (kept + part.residual / 2) / kept
        expected += part.residual / 2 / 9 * torch.eye(9, dtype=torch.float64)
    total = ScatterPool().total(parts)
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-5 * float(expected.max()))
    assert float(total.trace()) == pytest.approx(sum(part.energy for part in parts.values()), rel=1e-5)


def test_span_inflation_by_hand():
    def part(length, residual):
        factor = torch.tensor([[length, 0.0]])
        return Moments(5, torch.zeros(2, dtype=torch.float64), factor, residual)

    assert span_inflation(part(2.0, 0.0)) == 1.0
    assert span_inflation(part(2.0, 24.0)) == pytest.approx(2.0)
    assert span_inflation(part(0.0, 3.0)) == 1.0


def test_only_what_changed_is_added_and_taken_away(monkeypatch):
    pool, parts = ScatterPool(), moments_by_label()
    pool.total(parts)
    asked, original = [], pool._scatter
    monkeypatch.setattr(pool, "_scatter", lambda some, dim: asked.append(list(some)) or original(asked[-1], dim))
    changed = {**parts, 7: Moments.of(normal(30, 9, seed=99) / 2, RANK)}
    total = pool.total(changed)
    assert asked == [[changed[7]], [parts[7]]]
    assert torch.equal(total, ScatterPool().total(changed))
    assert not torch.equal(total, ScatterPool().total(parts))


def test_a_class_far_larger_than_all_others_changes_the_quantum_for_all():
    pool, parts = ScatterPool(), moments_by_label()
    pool.total(parts)
    grown = {**parts, "whale": Moments.of(1e4 * normal(30, 9, seed=99), RANK)}
    assert torch.equal(pool.total(grown), ScatterPool().total(grown))
    assert torch.equal(pool.total(parts), ScatterPool().total(parts))


def test_total_has_the_same_bits_however_the_classes_arrived():
    parts = moments_by_label()
    expected = ScatterPool().total(parts)
    for seed in range(3):
        order = torch.randperm(len(LABELS), generator=torch.Generator().manual_seed(seed)).tolist()
        pool, seen = ScatterPool(), set()
        for start in range(0, len(order), 5):
            seen |= {LABELS[i] for i in order[start : start + 5]}
            total = pool.total({label: parts[label] for label in LABELS if label in seen})
        assert torch.equal(total, expected)


def test_the_order_of_the_mapping_does_not_matter():
    parts = moments_by_label()
    assert torch.equal(ScatterPool().total(dict(reversed(parts.items()))), ScatterPool().total(parts))


def test_total_is_right_after_a_class_was_forgotten():
    pool, parts = ScatterPool(), moments_by_label()
    pool.total(parts)
    rest = {label: part for label, part in parts.items() if label not in (3, "dog")}
    assert torch.equal(pool.total(rest), ScatterPool().total(rest))
    only = {3: parts[3]}
    assert torch.equal(pool.total(only), ScatterPool().total(only))


def test_a_total_handed_out_is_not_touched_again():
    pool, parts = ScatterPool(), moments_by_label()
    total = pool.total(parts)
    total.zero_()
    assert torch.equal(pool.total(parts), ScatterPool().total(parts))


# The sampled spectrum.


def covariance_of(spectrum):
    values, vectors = spectrum
    return vectors * values @ vectors.T


def test_few_classes_are_their_own_sample():
    parts = moments_by_label()
    expected = pooled_covariance(parts.values(), ScatterPool().total(parts))
    found = covariance_of(SampledSpectrum().of(parts, ScatterPool().total(parts)))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_many_classes_are_sampled_and_most_newcomers_leave_the_sample_alone():
    parts = {i: Moments.of(normal(8, 5, seed=i), RANK) for i in range(900)}
    sampled, pool = SampledSpectrum(), ScatterPool()
    before = sampled.of(parts, pool.total(parts))
    untouched = 0
    for newcomer in range(900, 920):
        parts[newcomer] = Moments.of(normal(8, 5, seed=newcomer), RANK)
        after = sampled.of(parts, pool.total(parts))
        untouched += after is before
        before = after
        assert torch.equal(after[0], SampledSpectrum().of(parts, pool.total(parts))[0])
    assert 10 <= untouched < 20
    exact = pooled_covariance(parts.values(), pool.total(parts))
    torch.testing.assert_close(covariance_of(before), exact, rtol=0.1, atol=0.1)
