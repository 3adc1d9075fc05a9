"""How messages put numbers, lists and names: one photo, two photos; ten of forty names; the name that was meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_LISTED = 10
_MEANT = 3


def counted(n: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun, in the singular or in the plural.

    Parameters
    ----------
    n : int
        The number.
    singular, plural : str or None
        The noun; the plural ends in s, or in es after an s, unless it is given.

    Examples
    --------
    >>> counted(1, "photo"), counted(2, "photo"), counted(0, "class")
    ('1 photo', '2 photos', '0 classes')
    """
    return f"{n} {singular if n == 1 else plural or singular + ('es' if singular.endswith('s') else 's')}"


def listed(names: Sequence[object], most: int = _LISTED) -> str:
    """Names in quotes; of many the first, and how many more there are.

    Parameters
    ----------
    names : sequence
        Strings, or whole numbers.
    most : int
        How many to show.

    Examples
    --------
    >>> listed(["cat", "dog", "owl"], most=2)
    "'cat', 'dog' and 1 more"
    """
    return joined([repr(name) for name in names[:most]], len(names))


def joined(some: Sequence[str], total: int) -> str:
    """Words with commas between them, and how many more there are.

    Parameters
    ----------
    some : sequence of str
        The first of them.
    total : int
        How many there are in all.

    Examples
    --------
    >>> joined(["fox (12)", "owl (3)"], 32)
    'fox (12), owl (3) and 30 more'
    """
    rest = total - len(some)
    return ", ".join(some) + (f" and {rest} more" if rest > 0 else "")


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """The few names that somebody may have meant who gave one that there is not, the likeliest first.

    Parameters
    ----------
    name : str
        What was given.
    known : iterable of str
        The names there are.

    Examples
    --------
    >>> similar_names("Arctic fux", ["arctic fox", "grey wolf"]), similar_names("wolf", ["arctic fox", "grey wolf"])
    (['arctic fox'], ['grey wolf'])
    """
    spelt = {one.casefold(): one for one in known}
    wanted = name.casefold()
    close = get_close_matches(wanted, spelt, n=_MEANT)
    parts = [one for one in spelt if wanted.strip() and wanted in one and one not in close]
    return [spelt[one] for one in [*close, *parts][:_MEANT]]
