"""The bytes of a card: always the same."""

import numpy as np
import pytest

from gddsg.core.card_format import MALFORMED, pack, unpack

PACKED = (
    b'R\x00\x00\x00{"arrays": {"a": ["float32", [2]], "b": ["uint64", [1]]}, "scalars": {"count": 3}}'
    b"\x00\x00\x80?\x00\x00\x00@\x07\x00\x00\x00\x00\x00\x00\x00"
)


def contents():
    return {"count": 3}, {"b": np.array([7], dtype=np.uint64), "a": np.array([1, 2], dtype=np.float32)}


def test_the_format_does_not_change():
    assert pack(*contents()) == PACKED
    scalars, arrays = unpack(PACKED)
    assert scalars == {"count": 3}
    assert {name: (array.dtype.name, array.tolist()) for name, array in arrays.items()} == {
        "a": ("float32", [1.0, 2.0]),
        "b": ("uint64", [7]),
    }


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


def test_arrays_come_back_bit_for_bit_whatever_their_shape():
    arrays = {
        "codes": np.array([[-127, 0], [5, 127]], dtype=np.int8),
        "none": np.empty((0, 3), dtype=np.float32),
        "sums": np.array([1e300, -0.0]),
    }
    scalars, back = unpack(pack({"a": 1.5, "b": True}, arrays))
    assert scalars == {"a": 1.5, "b": True}
    for name, array in arrays.items():
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
        assert back[name].tobytes() == array.tobytes()


def test_transposed_arrays_are_packed_as_they_read():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert pack({}, {"a": array.T}) == pack({}, {"a": array.T.copy()})
    assert unpack(pack({}, {"a": array.T}))[1]["a"].tolist() == array.T.tolist()
