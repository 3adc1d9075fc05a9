"""Lists of names and of numbers from MATLAB files (version 5), as data sets are published with.

SciPy reads far more of that format, but a damaged file can crash the whole program there.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np

__all__ = ["read_mat"]

_MATRIX, _COMPRESSED = 14, 15
_CELLS, _TEXT = 1, 4
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CHARACTERS = {2: "utf-8", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_MOST_BYTES = 200_000_000  # of a compressed variable

Values = list[str] | list[float]


def read_mat(content: bytes) -> dict[str, Values]:
    """The variables of a file that are lists of names (cells) or of numbers, each in the order they are stored in.

    Parameters
    ----------
    content : bytes
        Of the file.

    Raises
    ------
    ValueError
        If this is no such file, or it is damaged.
    """
    orders = {b"IM": "<", b"MI": ">"}
    if content[126:128] not in orders:
        raise ValueError("it does not begin as a MATLAB file of version 5 does")
    order = orders[content[126:128]]
    found: dict[str, Values] = {}
    try:
        for kind, data in _elements(content[128:], order):
            matrices = _elements(_unpacked(data), order) if kind == _COMPRESSED else [(kind, data)]
            found |= {name: values for one, body in matrices for name, values in _variable(one, body, order)}
    except (struct.error, zlib.error) as error:
        raise ValueError(str(error)) from error
    return found


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Kind and content of one element after the other; up to four bytes may be packed in with their kind."""
    place = 0
    while place < len(content):
        kind, size = struct.unpack_from(f"{order}II", content, place)
        start, packed_in = place + 8, kind >> 16
        if packed_in:
            kind, size, start = kind & 0xFFFF, packed_in, place + 4
        if packed_in > 4 or start + size > len(content):
            raise ValueError(f"an element of {size} bytes goes beyond the end")
        yield kind, content[start : start + size]
        place = start + size + (0 if kind == _COMPRESSED else (place - start - size) % 8)


def _unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    unpacked = unpacker.decompress(data, _MOST_BYTES)
    if not unpacker.eof:
        raise ValueError(f"a compressed variable is cut off or has more than {_MOST_BYTES:,} bytes")
    return unpacked


def _variable(kind: int, body: bytes, order: str) -> Iterator[tuple[str, Values]]:
    """Name and values of a variable, if it is of a kind that is read."""
    if kind != _MATRIX:
        return
    class_, name, parts = _matrix(body, order)
    if class_ == _CELLS:
        yield name, [_text(*part, order) for part in parts]
    elif class_ > _TEXT and parts and parts[0][0] in _NUMBERS:
        yield name, np.frombuffer(parts[0][1], order + _NUMBERS[parts[0][0]]).tolist()


def _matrix(body: bytes, order: str) -> tuple[int, str, list[tuple[int, bytes]]]:
    """Class, name and content of a matrix, which begins with flags, sizes and name."""
    elements = list(_elements(body, order))
    if len(elements) < 3:
        raise ValueError("a variable has no name")
    (_, flags), _, (_, name), *parts = elements
    return struct.unpack_from(f"{order}I", flags)[0] & 0xFF, name.decode("utf-8"), parts


def _text(kind: int, body: bytes, order: str) -> str:
    class_, _, parts = _matrix(body, order) if kind == _MATRIX else (0, "", [])
    if class_ != _TEXT or len(parts) != 1 or parts[0][0] not in _CHARACTERS:
        raise ValueError("a cell holds something else than text")
    encoding = _CHARACTERS[parts[0][0]]
    suffix = {"<": "-le", ">": "-be"}[order] if encoding != "utf-8" else ""
    return parts[0][1].decode(encoding + suffix)
