"""Rows in a byte an entry: near the exact ones, and always the same."""

import numpy as np
import pytest
import torch

from gddsg.core.coded_rows import CodedRows


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_coding_by_hand():
    coded = CodedRows.of(torch.tensor([[127.0, -63.4, 0.6, 0.0], [0.0, 0.0, 0.0, 0.0], [-0.5, 0.25, 0.0, 0.001]]))
    assert coded.codes.dtype == np.int8
    assert coded.scales.dtype == np.float32
    assert coded.codes.tolist() == [[127, -63, 1, 0], [0, 0, 0, 0], [-127, 64, 0, 0]]
    assert coded.scales.tolist() == [1.0, 0.0, np.float32(0.5) / np.float32(127)]
    assert (len(coded), coded.dim) == (3, 4)


@pytest.mark.parametrize("scale", [1e-15, 1.0, 1e15])
def test_an_entry_is_off_by_half_a_step_at_most(scale):
    rows = scale * normal(40, 30) * torch.logspace(-3, 0, 40)[:, None]
    found = CodedRows.of(rows).decoded()
    assert found.dtype == torch.float32
    steps = rows.abs().amax(1, keepdim=True) / 127
    assert bool(((found - rows).abs() <= 0.5001 * steps).all())
    assert float(((found - rows).abs() / steps).max()) > 0.45


def test_the_energy_is_that_of_the_decoded_rows():
    coded = CodedRows.of(normal(20, 300))
    assert coded.energy == pytest.approx(float(coded.decoded().double().square().sum()), rel=1e-6)
    wide = CodedRows(np.full((2, 100_000), -127, dtype=np.int8), np.ones(2, dtype=np.float32))
    assert wide.energy == 2 * 100_000 * 127**2  # more than 32 bits hold


def test_decoded_rows_are_coded_as_they_were():
    once = CodedRows.of(normal(30, 12))
    again = CodedRows.of(once.decoded())
    assert np.array_equal(again.codes, once.codes)
    np.testing.assert_allclose(again.scales, once.scales, rtol=1e-6)


def test_no_rows_are_no_obstacle():
    nothing = CodedRows.of(torch.empty(0, 7))
    assert (len(nothing), nothing.dim, nothing.energy, nothing.decoded().shape) == (0, 7, 0.0, (0, 7))


def test_double_precision_is_coded_as_its_float32():
    rows = normal(5, 6)
    assert np.array_equal(CodedRows.of(rows.double()).codes, CodedRows.of(rows).codes)
