"""What a class is called."""

from __future__ import annotations

import operator
from typing import Any

from gddsg.errors import InputError

Label = int | str
"""The labels of one model are all ``int`` or all ``str``."""

LONGEST_LABEL = 1000
"""Letters. Arrays of names take as much for every class as for the longest one."""

_LEAST, _LARGEST = -(2**63), 2**63 - 1
_LARGEST_FLOAT = 2**53


def checked_label(label: Any) -> Label:
    """The label as a plain ``int`` or ``str``, or an :class:`InputError`.

    Two labels that differ must stay apart in every array and file. NumPy drops NUL characters at the end of a string
    and keeps whole numbers in 64 bits; a float beyond 2⁵³ stands for several of them.

    Examples
    --------
    >>> checked_label("cat"), checked_label(3.0), checked_label(True)
    ('cat', 3, 1)
    """
    if isinstance(label, str):
        if "\0" in label:
            raise InputError(f"The label {label[:60]!r} contains a NUL character. Rename the class.")
        if len(label) > LONGEST_LABEL:
            raise InputError(
                f"The label {label[:60]!r}… has {len(label)} letters; expected at most {LONGEST_LABEL}. "
                "Rename the class."
            )
        return str(label)
    number = _whole(label)
    if not _LEAST <= number <= _LARGEST:
        raise InputError(
            f"The label {label!r} was given; expected a whole number from -2^63 to 2^63 - 1. Rename the class, "
            "say by a string."
        )
    return number


def _whole(label: Any) -> int:
    if isinstance(label, float) and label.is_integer():
        if abs(label) >= _LARGEST_FLOAT:
            raise InputError(
                f"The label {label!r} is a float too large to tell whole numbers apart. Give labels as integers."
            )
        return int(label)
    try:
        return operator.index(label)
    except TypeError as error:
        raise InputError(
            f"Unknown label type: {label!r} is neither a whole number nor a str. Rename the class."
        ) from error
