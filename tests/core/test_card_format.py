"""The bytes of a card: always the same, and readable without torch."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from gddsg.core.card_format import MALFORMED, pack, packed_sample_ids, unpack
from gddsg.core.class_card import ClassCard

PACKED = (
    b'R\x00\x00\x00{"arrays": {"a": ["float32", [2]], "b": ["uint64", [1]]}, "scalars": {"count": 3}}'
    b"\x00\x00\x80?\x00\x00\x00@\x07\x00\x00\x00\x00\x00\x00\x00"
)


def contents():
    return {"count": 3}, {"b": np.array([7], dtype=np.uint64), "a": np.array([1, 2], dtype=np.float32)}


def card(n, sample_ids=None):
    features = torch.rand(n, 6, generator=torch.Generator().manual_seed(n))
    return ClassCard.of(features, lambda x: x, rank=4, sample_ids=sample_ids)


def test_the_format_does_not_change():
    assert pack(*contents()) == PACKED
    scalars, arrays = unpack(PACKED)
    assert scalars == {"count": 3}
    assert {name: (array.dtype.name, array.tolist()) for name, array in arrays.items()} == {
        "a": ("float32", [1.0, 2.0]),
        "b": ("uint64", [7]),
    }


def test_sample_ids_can_be_read_alone():
    ids = np.array([3, 2**64 - 1, 5], dtype=np.uint64)
    assert packed_sample_ids(card(3, ids).to_bytes()) == [3, 5, 2**64 - 1]
    assert packed_sample_ids(card(3).to_bytes()) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        PACKED[:3],
        PACKED[:40],
        PACKED[:-1],
        PACKED + b"x",
        PACKED.replace(b"float32", b"float99"),
        PACKED.replace(b'"arrays"', b'"arroys"'),
        PACKED.replace(b"[1]", b"{1]"),
    ],
)
def test_other_bytes_are_refused(data):
    with pytest.raises(MALFORMED):
        unpack(data)


def test_reading_needs_no_torch():
    script = "import sys, gddsg.core.card_format; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
