"""Features that came in a request, as JSON or as a file of NumPy; nothing in them is ever run."""

from __future__ import annotations

import io
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from gddsg.errors import InputError

_EXPECTED = "expected rows of numbers of equal length"

# NumPy takes a header that it cannot read for one of Python 2, which it tokenises, and warns of
_OF_PYTHON_2 = (TokenError, UserWarning)
_MALFORMED = (ValueError, TypeError, SyntaxError, EOFError, OverflowError, MemoryError, RecursionError, *_OF_PYTHON_2)


def features_of_json(body: bytes) -> NDArray[np.float32]:
    """Features ``(n, feature_dim)`` of ``{"features": [[…], …]}``.

    Parameters
    ----------
    body : bytes
        Of the request.
    """
    try:
        given = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(f"The body is not JSON ({error}).") from error
    if not isinstance(given, dict) or set(given) != {"features"}:
        raise InputError('The JSON is not of the form {"features": [[…], …]}.')
    try:
        found = np.array(given["features"])
    except ValueError as error:
        raise InputError(f"The features are of unequal lengths; {_EXPECTED}.") from error
    return _checked(found)


def features_of_npy(body: bytes) -> NDArray[np.float32]:
    """Features ``(n, feature_dim)`` of a file as ``numpy.save`` writes it.

    Parameters
    ----------
    body : bytes
        Of the request.
    """
    file = io.BytesIO(body)
    try:
        major, _ = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, in_columns, dtype = read(file)
        start = file.tell()
        if dtype.hasobject or len(body) - start != int(np.prod(shape, dtype=object)) * dtype.itemsize:
            raise InputError("The NumPy file does not hold what its header says.")
        found = np.frombuffer(body, dtype, offset=start).reshape(shape, order="F" if in_columns else "C")
    except _MALFORMED as error:
        raise InputError(f"The body is not a NumPy file ({error}).") from error
    return _checked(found)


def _checked(found: NDArray[Any]) -> NDArray[np.float32]:
    if found.dtype.kind not in "fiu" or found.ndim != 2:
        raise InputError(f"The features are of type {found.dtype.kind} and shape {found.shape}; {_EXPECTED}.")
    with np.errstate(over="ignore"):  # what is too large is refused where features are used
        return np.ascontiguousarray(found, dtype=np.float32)
