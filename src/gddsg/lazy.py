"""Names that a package gives out without importing their modules before somebody uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A ``__getattr__`` for a package: torch takes seconds to import, and much can be done without it.

    Parameters
    ----------
    package : str
        Its name.
    homes : mapping of str to str
        The module of every name.

    Examples
    --------
    >>> find = lazy_names("shapes", {"pi": "math"})
    >>> find("pi")
    3.141592653589793
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find
