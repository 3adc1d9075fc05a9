"""Gram matrices as running sums."""

from __future__ import annotations

import pytest
import torch

from gddsg.core.gram import add_gram


@pytest.mark.parametrize("dim", [1, 7, 1023, 1024, 1025, 2500])
def test_it_is_the_product(dim: int) -> None:
    rows = torch.randn(9, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(dim))
    total = torch.eye(dim, dtype=torch.float64)
    add_gram(total, rows)
    torch.testing.assert_close(total, torch.eye(dim, dtype=torch.float64) + rows.T @ rows, rtol=1e-12, atol=1e-12)


def test_no_row_adds_nothing() -> None:
    total = torch.ones(3, 3)
    add_gram(total, torch.empty(0, 3))
    assert torch.equal(total, torch.ones(3, 3))
