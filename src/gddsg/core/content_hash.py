"""Hashes of content: what is picked by them does not depend on order, batch, machine or names."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

HELD_OUT_ONE_IN = 5
"""One sample in five, picked by a hash of its content, only judges the ridge heads before it joins them."""

Hashes = NDArray[np.uint64]


def hash_rows(features: Tensor) -> Hashes:
    """A 64-bit hash of each row's float32 content, equal wherever and whenever the row comes."""
    bits = (features.cpu().numpy().astype(np.float32) + np.float32(0)).view(np.uint32)  # -0 and 0 are one number
    weights = np.random.RandomState(0).randint(1, 2**63, bits.shape[1], dtype=np.uint64) * 2 + 1
    hashes = (bits.astype(np.uint64) * weights).sum(1, dtype=np.uint64)
    hashes ^= hashes >> np.uint64(32)  # the low bits of a sum of products are the weakest: fold the high ones in
    return np.asarray(hashes * np.uint64(0x9E3779B97F4A7C15))


def is_held_out(hashes: Hashes) -> Tensor:
    """Which samples are held out: a matter of their content alone."""
    return torch.from_numpy((hashes >> np.uint64(32)) % np.uint64(HELD_OUT_ONE_IN) == 0)


def hash_bytes(data: bytes) -> int:
    """A 64-bit hash of some bytes."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
