"""Typed values to JSON and back: what a field of a dataclass is annotated with is what its value has to be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gddsg.errors import DataError

T = TypeVar("T")

_WORDS = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false"}


def dataclass_from(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """A dataclass from what JSON made of it.

    Parameters
    ----------
    cls : type
        The dataclass. Its fields are ``str``, ``int``, ``float``, ``bool``, ``Any``, tuples and mappings of these, or
        one of them or None.
    values : Mapping
        Fields by name; those with a default may be missing.
    where : str
        What the values are of, as an error is to name it.

    Returns
    -------
    T
        The dataclass, checked.

    Raises
    ------
    DataError
        If a field is missing, unknown or of another type.
    """
    known = {one.name: one for one in fields(cls)}  # type: ignore[arg-type]  # a dataclass, which mypy cannot know
    missing = [
        name
        for name, one in known.items()
        if name not in values and one.default is MISSING and one.default_factory is MISSING
    ]
    unknown = sorted(set(map(str, values)) - set(known))
    if missing or unknown:
        wrong = f"has no {missing[0]!r}" if missing else f"has a field {unknown[0]!r} that none of its kind has"
        raise DataError(
            f"{where} {wrong} (it has {', '.join(sorted(map(str, values))) or 'nothing'}); expected the fields "
            "that `gddsg bench run` writes. Leave the record out, or measure it again."
        )
    hints = get_type_hints(cls)
    return cls(**{name: value_of(value, hints[name], f"{where}: {name}") for name, value in values.items()})


def value_of(value: Any, wanted: Any, where: str) -> Any:
    """A value of the type that is wanted, lists turned into tuples.

    Parameters
    ----------
    value : Any
        As JSON has it.
    wanted : Any
        The annotation.
    where : str
        Where the value is, as an error is to name it.

    Returns
    -------
    Any
        The value.

    Raises
    ------
    DataError
        If it is of another type.

    Examples
    --------
    >>> value_of([["a", 1], ["b", 2]], tuple[tuple[str, int], ...], "pairs")
    (('a', 1), ('b', 2))
    """
    origin, inner = get_origin(wanted), get_args(wanted)
    if wanted is Any or (value is None and NoneType in inner):
        return value
    if origin in (Union, UnionType):
        return value_of(value, next(one for one in inner if one is not NoneType), where)
    if origin is tuple:
        return _tuple_of(value, inner, where)
    if origin is Mapping:
        return _mapping_of(value, inner[1], where)
    return _scalar_of(value, wanted, where)


def _tuple_of(value: Any, inner: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise DataError(f"{where} is {_short(value)}; expected a list.")
    wanted = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
    if len(wanted) != len(value):
        raise DataError(f"{where} is {_short(value)}; expected a list of {len(wanted)}.")
    return tuple(value_of(one, kind, where) for one, kind in zip(value, wanted, strict=True))


def _mapping_of(value: Any, inner: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError(f"{where} is {_short(value)}; expected an object of names and values.")
    return {str(name): value_of(one, inner, f"{where}: {name}") for name, one in value.items()}


def _scalar_of(value: Any, wanted: Any, where: str) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted is float and number and math.isfinite(value):
        return float(value)
    if isinstance(value, wanted) and (wanted is not int or number) and wanted is not float:
        return value
    raise DataError(f"{where} is {_short(value)}; expected {_WORDS[wanted]}.")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
