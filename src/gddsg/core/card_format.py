"""The bytes of a class card, or of a predictor: a JSON index, then the arrays it names."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MALFORMED = (struct.error, ValueError, LookupError, TypeError, OverflowError, RecursionError)
"""What reading other bytes may raise."""

_TYPES = ("float32", "float64", "int8", "uint64")


def pack(scalars: Mapping[str, float | int | str], arrays: Mapping[str, Array]) -> bytes:
    """Length of the index (4 bytes), the index, the arrays by name; equal contents always give equal bytes."""
    index = {"scalars": dict(scalars), "arrays": {k: [str(v.dtype), list(v.shape)] for k, v in arrays.items()}}
    head = json.dumps(index, sort_keys=True).encode()
    body = b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays))
    return struct.pack("<I", len(head)) + head + body


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """What :func:`pack` was given, the arrays as views of ``data``; one of :data:`MALFORMED` for other bytes."""
    (size,) = struct.unpack_from("<I", data)
    index, position, arrays = json.loads(data[4 : 4 + size]), 4 + size, {}
    for name in sorted(index["arrays"]):
        dtype, shape = index["arrays"][name]
        if dtype not in _TYPES or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"array {name} has the type {dtype} and the shape {shape}")
        array = np.frombuffer(data, dtype, math.prod(shape), position).reshape(shape)
        arrays[name], position = array, position + array.nbytes
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes too many")
    return index["scalars"], arrays
