"""Hashes of content: the same wherever and whenever, and spread evenly."""

import numpy as np
import pytest
import torch

from gddsg.core.content_hash import HELD_OUT_ONE_IN, hash_bytes, hash_rows, is_held_out


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_hashes_never_change():
    """Which samples are held out and which classes make the metric follows from them, in models of years ago too."""
    rows = torch.tensor([[0.0, 1.0, -2.5], [3.25, 0.0, 1e-8]])
    assert hash_rows(rows).tolist() == [6042644955553029727, 7176845842326631389]
    assert hash_bytes(b"a class card") == 3165654454031359250


def test_a_sample_is_held_out_for_its_content_wherever_it_stands():
    features = normal(500, 6)
    held_out = is_held_out(hash_rows(features))
    order = torch.randperm(500, generator=torch.Generator().manual_seed(1))
    assert torch.equal(is_held_out(hash_rows(features[order])), held_out[order])
    assert torch.equal(is_held_out(hash_rows(features[100:])), held_out[100:])
    assert torch.equal(is_held_out(hash_rows(features[:, torch.arange(6)].clone())), held_out)


@pytest.mark.parametrize(
    "features",
    [
        normal(5000, 6),
        normal(5000, 1),
        normal(5000, 6).mul(16).round(),
        normal(5000, 300) > 0,
        torch.arange(5000)[:, None] / 64,
    ],
    ids=["normal", "one feature", "whole numbers", "bits", "counting"],
)
def test_about_one_sample_in_five_is_held_out(features):
    assert float(is_held_out(hash_rows(features.float())).double().mean()) == pytest.approx(
        1 / HELD_OUT_ONE_IN, abs=0.03
    )


def test_hashes_of_different_rows_differ():
    features = torch.cat([normal(3000, 5), torch.eye(5), -torch.eye(5), 2 * torch.eye(5)])
    assert len(np.unique(hash_rows(features))) == len(features)


def test_negative_zero_is_zero():
    features = normal(9, 4).round()
    negative = torch.where(features == 0, -torch.zeros(()), features)
    assert bool(torch.signbit(negative[features == 0]).all())
    assert bool((features == 0).any())
    assert np.array_equal(hash_rows(negative), hash_rows(features))


def test_double_precision_has_the_hash_of_its_float32():
    features = normal(20, 4)
    assert np.array_equal(hash_rows(features), hash_rows(features.double() * (1 + 1e-12)))


def test_every_bit_of_a_hash_is_fair():
    """Classes are halved and picked by the highest bits, large groups by the lowest."""
    hashes = np.array([hash_bytes(str(i).encode()) for i in range(4000)], dtype=np.uint64)
    for bit in range(64):
        assert 0.46 < np.mean(hashes >> np.uint64(bit) & np.uint64(1)) < 0.54
