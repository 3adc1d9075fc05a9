"""The directions that are kept are those of a singular value decomposition of everything that was kept before."""

import numpy as np
import pytest
import torch

from gddsg.core import growing_svd
from gddsg.core.growing_svd import GrowingSVD


def rows(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    spread = rng.normal(size=(n, dim)) * (0.9 ** np.arange(dim))
    return torch.from_numpy((spread @ np.linalg.qr(rng.normal(size=(dim, dim)))[0] + 1).astype(np.float32))


def leading(matrix, rank):
    """``diag(σ) Uᵀ`` of the columns of ``matrixᵀ``, from NumPy's decomposition."""
    _, values, directions = np.linalg.svd(matrix, full_matrices=False)
    return (values[:, None] * directions)[:rank]


@pytest.mark.parametrize("columns_at_once", [4096, 7])
@pytest.mark.parametrize(("n", "dim"), [(12, 30), (50, 30)], ids=["fewer rows than columns", "more"])
def test_batches_are_cut_like_singular_value_decompositions(monkeypatch, n, dim, columns_at_once):
    monkeypatch.setattr(growing_svd, "_COLUMNS_AT_ONCE", columns_at_once)
    H = rows(n, dim)
    svd, expected = GrowingSVD.empty(dim), np.zeros((0, dim))
    for part, rank in zip(H.split(n // 3 + 1), (3, 6, 9), strict=True):
        svd = svd.plus(part, rank)
        expected = leading(np.concatenate([expected, part.double().numpy()]), rank)
        assert svd.factor.shape == expected.shape
        np.testing.assert_allclose(svd.factor.T.double() @ svd.factor.double(), expected.T @ expected, atol=1e-4)
        lengths = np.linalg.norm(expected, axis=1)
        np.testing.assert_allclose(svd.factor.double().norm(dim=1), lengths, rtol=1e-5)
    assert svd.count == n
    B = np.random.default_rng(1).normal(size=(dim, 4))
    U = (expected / lengths[:, None]).T
    solution = svd.least_squares(torch.from_numpy(B))
    np.testing.assert_allclose(solution, U @ (U.T @ B / lengths[:, None] ** 2), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("n", "dim"), [(12, 30), (50, 30)])
def test_uncut_it_is_least_squares_of_least_norm(n, dim):
    H, Y = rows(n, dim), np.random.default_rng(1).normal(size=(n, 3))
    svd = GrowingSVD.empty(dim).plus(H[:5], dim).plus(H[5:], dim)
    expected = np.linalg.lstsq(H.double().numpy(), Y, rcond=None)[0]
    np.testing.assert_allclose(svd.least_squares(H.double().T @ torch.from_numpy(Y)), expected, rtol=1e-2, atol=1e-3)


def test_rows_that_are_all_the_same_have_one_direction_and_zeros_none():
    assert len(GrowingSVD.empty(20).plus(torch.full((8, 20), 0.1), 6).factor) == 1
    nothing = GrowingSVD.empty(20).plus(torch.zeros(8, 20), 6)
    assert len(nothing.factor) == 0
    assert torch.equal(nothing.least_squares(torch.ones(20, 3).double()), torch.zeros(20, 3).double())


def test_growing_leaves_the_one_before_as_it_was():
    before = GrowingSVD.empty(20).plus(rows(5, 20), 4)
    factor = before.factor.clone()
    before.plus(rows(9, 20, seed=1), 10)
    assert torch.equal(before.factor, factor)
    assert before.count == 5
