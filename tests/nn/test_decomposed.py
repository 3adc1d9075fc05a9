"""Additive decomposition: every formula against loops, and what consolidation may and may not change."""

import numpy as np
import pytest
import torch

from gddsg.nn.decomposed import Decomposed, NewTask, consolidated, gated, retention
from gddsg.nn.sparse import Sparse


def drawn(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 1, shape)).float()


# Sparse tensors.


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 2, 2), (7,), (4, 0)])
def test_a_sparse_tensor_comes_back(shape):
    dense = drawn(*shape) * (drawn(*shape, seed=1) > 0)
    kept = Sparse.of(dense)
    assert torch.equal(kept.dense(), dense)
    assert kept.count == int(dense.count_nonzero())


def test_small_entries_are_dropped():
    assert Sparse.of(torch.tensor([0.5, -0.2, 0.21, -3.0]), 0.2).dense().tolist() == pytest.approx([0.5, 0, 0.21, -3])


# Weights.


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2, 2)])
def test_weights_are_gated_by_output_unit_and_added_up(shape):
    shared, mask, own, local = drawn(*shape), drawn(4, seed=1), drawn(*shape, seed=2), drawn(*shape, seed=3)
    found = Decomposed(mask, Sparse.of(own), Sparse.of(local)).weight(shared)
    for unit in range(4):
        expected = shared[unit] / (1 + np.exp(-float(mask[unit]))) + own[unit] + local[unit]
        torch.testing.assert_close(found[unit], expected)


def test_a_new_task_begins_with_the_shared_weights():
    begun = {"a.weight": drawn(4, 3), "a.bias": drawn(4)}
    first = NewTask(begun, {}, own=True, trains_shared=True)
    torch.testing.assert_close(first.weights()["a.weight"], begun["a.weight"])
    later = NewTask(begun, {"a.weight": drawn(4, 3, seed=5)}, own=True, trains_shared=False)
    torch.testing.assert_close(later.weights()["a.weight"], drawn(4, 3, seed=5))
    assert len(first.parameters()) == 4
    assert len(later.parameters()) == 3
    masked = NewTask(begun, {}, own=False, trains_shared=True)
    torch.testing.assert_close(masked.weights()["a.weight"], begun["a.weight"] / 2)


def test_penalties_of_a_new_task_are_sums_of_sizes_and_squares():
    task = NewTask({"a.weight": drawn(4, 3), "a.bias": drawn(4)}, {}, own=True, trains_shared=True)
    own, shared = task.own["a.weight"].detach().numpy(), task.shared["a.weight"].detach().numpy()
    assert float(task.length().detach()) == pytest.approx(np.abs(own).sum(), rel=1e-6)
    assert float(task.energy(shared=False).detach()) == pytest.approx((own**2).sum() / 2, rel=1e-6)  # the mask is zero
    assert float(task.energy(shared=True).detach()) == pytest.approx(((own**2).sum() + (shared**2).sum()) / 2, rel=1e-6)


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2, 2)])
def test_retention_is_half_the_squared_change_of_all_earlier_weights(shape):
    shared, masks, own, wanted = drawn(*shape), drawn(2, 4, seed=1), drawn(2, *shape, seed=2), drawn(2, *shape, seed=3)
    expected = sum(float((gated(shared, masks[i]) + own[i] - wanted[i]).square().sum()) / 2 for i in range(2))
    assert float(retention(shared, masks, own, wanted)) == pytest.approx(expected, rel=1e-5)


# Consolidation.


def tasks():
    """Two tasks that are nearly equal in the first column, and one far away."""
    near = torch.zeros(2, 3)
    near[:, 0] = 1
    other = near + torch.tensor([[0.004, 0.5, 0], [-0.004, 0, 0]])
    return [Decomposed(drawn(2, seed=i), Sparse.of(own)) for i, own in enumerate((near, other, near + 50))]


def test_entries_that_are_nearly_equal_in_a_cluster_are_kept_once():
    parts = consolidated(tasks(), 2, 0.01, 0)
    assert parts[0].local is parts[1].local is not parts[2].local
    expected = torch.tensor([[1.002, 0, 0], [0.998, 0, 0]])
    torch.testing.assert_close(parts[0].local.dense(), expected)
    assert parts[0].own.dense().count_nonzero() == 0
    torch.testing.assert_close(parts[1].own.dense(), torch.tensor([[0, 0.5, 0], [0, 0, 0]]))


def test_no_weight_changes_by_more_than_half_the_spread():
    shared = drawn(2, 3, seed=9)
    for spread in (0.0, 0.01, 0.2):
        parts = consolidated(tasks(), 2, spread, 0)
        again = consolidated(parts, 1, spread, 0)
        for before, after, twice in zip(tasks(), parts, again, strict=True):
            change = (before.weight(shared) - after.weight(shared)).abs().max()
            assert float(change) <= spread / 2 + 1e-5
            assert float((after.weight(shared) - twice.weight(shared)).abs().max()) <= spread / 2 + 1e-5


def test_tasks_that_are_all_alike_are_one_cluster():
    same = [Decomposed(torch.zeros(2), Sparse.of(torch.ones(2, 3))) for _ in range(3)]
    parts = consolidated(same, 2, 0.01, 0)
    assert all(part.own.count == 0 and part.local is parts[0].local for part in parts)
