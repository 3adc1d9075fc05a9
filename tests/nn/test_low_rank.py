"""Scales, residuals of low rank, their ranks and pruning: against brute force."""

import numpy as np
import pytest
import torch
from scipy.optimize import least_squares

from gddsg.nn.low_rank import LowRank, choose_ranks, factors, perturbed, pruned, scaled, scales, singular


def drawn(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 1, shape))


@pytest.mark.parametrize("shape", [(4, 3), (3, 5), (4, 3, 2, 2)])
def test_scales_are_the_least_squares_of_a_general_solver(shape):
    base = drawn(*shape)
    free = scaled(base, 1 + drawn(shape[0], seed=1) / 5, 1 + drawn(shape[1], seed=2) / 5) + drawn(*shape, seed=3) / 10

    def misses(both):
        rows, columns = torch.from_numpy(both[: shape[0]]), torch.from_numpy(both[shape[0] :])
        return (free - scaled(base, rows, columns)).flatten().numpy()

    least = 2 * least_squares(misses, np.ones(sum(shape[:2])), xtol=1e-12, ftol=1e-12).cost
    found = float((free - scaled(base, *scales(base, free))).square().sum())
    assert found == pytest.approx(least, rel=1e-3)


def test_scales_that_made_it_are_found_and_empty_rows_keep_one():
    base = drawn(4, 3)
    base[2], base[:, 1] = 0, 0
    rows, columns = torch.tensor([2.0, 3, 1, 0.5]).double(), torch.tensor([1.0, 1, 2]).double()
    free = scaled(base, rows, columns)
    found = scales(base, free)
    torch.testing.assert_close(scaled(base, *found), free, rtol=1e-3, atol=1e-3)
    assert float(found[0][2]) == float(found[1][1]) == 1


def test_the_first_directions_are_the_nearest_of_their_rank():
    residual = drawn(6, 4)
    left, right = factors(*singular(residual), 2)
    values = np.linalg.svd(residual.numpy(), compute_uv=False)
    assert float((residual - left @ right).square().sum()) == pytest.approx((values[2:] ** 2).sum())
    whole = factors(*singular(residual), 4)
    torch.testing.assert_close(whole[0] @ whole[1], residual)


def test_a_convolution_has_the_mean_of_its_kernel_for_a_residual():
    kernel = drawn(4, 3, 2, 2)
    left, right = factors(*singular(kernel), 3)
    torch.testing.assert_close(left @ right, kernel.mean((2, 3)))
    found = perturbed(torch.zeros_like(kernel), torch.ones(4), torch.ones(3), left, right)
    torch.testing.assert_close(found, kernel.mean((2, 3), keepdim=True).expand_as(kernel))


def brute_ranks(worth, rate):
    """The fewest directions of all layers that carry the rate, by trying how many."""
    every = sorted(((value, name) for name, values in worth.items() for value in values), reverse=True)
    total = sum(value for value, _ in every)
    for count in range(1, len(every) + 1):
        if sum(value for value, _ in every[:count]) >= rate * total:
            return {name: max(1, sum(one == name for _, one in every[:count])) for name in worth}
    raise AssertionError


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.7, 0.9, 0.99])
def test_ranks_are_the_fewest_directions_that_carry_the_rate(rate):
    values = {"a": torch.tensor([4.0, 2, 1]), "b": torch.tensor([3.0, 2.5, 0.5, 0.1])}
    importance = {"a": 0.5, "b": 2.0}
    worth = {name: [importance[name] * float(one) ** 2 for one in found] for name, found in values.items()}
    assert choose_ranks(values, importance, rate, 100) == brute_ranks(worth, rate)


def test_ranks_have_a_limit_and_are_at_least_one():
    values = {"a": torch.ones(5), "b": torch.full((3,), 1e-9)}
    assert choose_ranks(values, {"a": 1.0, "b": 1.0}, 1.0, 2) == {"a": 2, "b": 1}
    assert choose_ranks(values, {"a": 1.0, "b": 1.0}, 0.5, 9)["b"] == 1
    assert set(choose_ranks(values, {"a": 0.0, "b": 0.0}, 0.9, 9)) == {"a", "b"}  # nothing was learnt: any will do


def layers():
    return {
        name: LowRank.of([1 + drawn(6, seed=i), 1 + drawn(4, seed=i + 1), drawn(6, 3, seed=i), drawn(3, 4, seed=i)])
        for i, name in enumerate(("a", "b"))
    }


@pytest.mark.parametrize("most", [0, 5, 20, 21, 40, 80, 1000])
def test_pruning_keeps_the_bound_and_the_largest(most):
    found = pruned(layers(), most)
    kept = sum(layer.extra for layer in found.values())
    assert kept == min(most, sum(layer.extra for layer in layers().values()))
    before = torch.cat([part.flatten() for layer in layers().values() for part in layer.parts()[2:]])
    after = torch.cat([part.flatten() for layer in found.values() for part in layer.parts()[2:]])
    there = after != 0
    assert torch.equal(after[there], before[there])
    if there.any() and not there.all():
        assert before[there].abs().min() >= before[~there].abs().max()
    if most < 20:  # not even the scales fit
        assert not there.any()


def test_nothing_changed_is_the_base_to_the_bit():
    base = drawn(4, 3, 2, 2).float()
    layer = LowRank.unchanged(base)
    assert torch.equal(layer.weight(base), base)
    assert layer.extra == 0
