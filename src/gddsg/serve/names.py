"""What a class of the service may be called. Names are data: never paths, never HTML."""

from __future__ import annotations

import unicodedata

from gddsg.data.dataset import clean_label
from gddsg.errors import DataError
from gddsg.photos.prediction import UNKNOWN

LONGEST_NAME = 200
"""Letters; the library itself allows more, and a page has to show them."""

_CONTROLS = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HINT = "Choose a name of 1 to 200 letters, without / and control characters."


def checked_name(name: str) -> str:
    """A name in one spelling, or a :class:`gddsg.errors.DataError` if no class can get it.

    Parameters
    ----------
    name : str
        As the client gives it.

    Examples
    --------
    >>> checked_name("  grey wolf ")
    'grey wolf'
    """
    clean = clean_label(name)
    fault = _fault(clean)
    if fault:
        raise DataError(f"A class cannot be given the name {clean[:60]!r}: {fault}. {_HINT}")
    return clean


def _fault(name: str) -> str:
    if not name:
        return "it is empty"
    if len(name) > LONGEST_NAME:
        return f"it has {len(name)} letters, and at most {LONGEST_NAME} are taken"
    if name.casefold() == UNKNOWN:
        return "that is what photos are called that are like no class"
    if name in {".", ".."} or "/" in name or "\\" in name:
        return "it looks like a path"
    if any(unicodedata.category(one) in _CONTROLS or one in _DIRECTIONS for one in name):
        return "it contains control characters"
    return ""
