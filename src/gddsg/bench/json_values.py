"""Typed values from JSON and TOML: what a field of a dataclass is annotated with is what its value has to be."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gddsg.errors import DataError

T = TypeVar("T")

_LARGEST = 2**63 - 1
_DEEPEST = 10
_WORDS = {str: "text", int: "a whole number below 2⁶³", float: "a finite number below 2⁶³", bool: "true or false"}


@dataclass(frozen=True)
class Between:
    """The range of a number: ``Annotated[float, Between(0, 1)]``.

    Attributes
    ----------
    low, high : float
        Its ends, which belong to it.
    """

    low: float
    high: float


def dataclass_from(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """A dataclass from what JSON made of it.

    Parameters
    ----------
    cls : type
        The dataclass. Its fields are ``str``, ``int``, ``float``, ``bool``, ``Any``, tuples and mappings of these, or
        one of them or None; numbers may have a range.
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
        If a field is missing, unknown, of another type or out of its range.
    """
    known = {one.name: one for one in fields(cls)}  # type: ignore[arg-type]  # a dataclass, which mypy cannot know
    missing = [
        name
        for name, one in known.items()
        if name not in values and one.default is MISSING and one.default_factory is MISSING
    ]
    unknown = sorted(set(map(str, values)) - set(known))
    if missing or unknown:
        wrong = f"has no {missing[0]!r}" if missing else f"has a field {short(unknown[0])} that none of its kind has"
        has = ", ".join(short(name) for name in sorted(map(str, values))[:20]) or "nothing"
        raise DataError(
            f"{where} {wrong} (it has {has}); expected the fields that `gddsg bench run` writes. Leave the record out, "
            "or measure it again."
        )
    hints = get_type_hints(cls, include_extras=True)
    return cls(**{name: value_of(value, hints[name], f"{where}: {name}") for name, value in values.items()})


def value_of(value: Any, wanted: Any, where: str) -> Any:
    """A value of the type that is wanted, lists turned into tuples.

    Parameters
    ----------
    value : Any
        As JSON or TOML has it.
    wanted : Any
        The annotation; ``Any`` stands for all that JSON can say, and lists in it stay lists.
    where : str
        Where the value is, as an error is to name it.

    Returns
    -------
    Any
        The value.

    Raises
    ------
    DataError
        If it is of another type, or out of its range.

    Examples
    --------
    >>> value_of([["a", 1], ["b", 2]], tuple[tuple[str, int], ...], "pairs")
    (('a', 1), ('b', 2))
    >>> value_of(1.5, Annotated[float, Between(0, 1)], "share")
    Traceback (most recent call last):
    gddsg.errors.DataError: share is 1.5; expected a number from 0 to 1.
    """
    if wanted is Any:
        return _plain(value, where)
    origin, inner = get_origin(wanted), get_args(wanted)
    if value is None and NoneType in inner:
        return value
    if origin in (Union, UnionType):
        return value_of(value, next(one for one in inner if one is not NoneType), where)
    if origin is Annotated:
        return _number_within(value, inner[0], inner[1], where)
    if origin is tuple:
        return _tuple_of(value, inner, where)
    if origin is Mapping:
        return _mapping_of(value, inner[1], where)
    return _scalar_of(value, wanted, where)


def short(value: Any) -> str:
    """What was given, as a message shows it: in a line of bounded length, whatever it is.

    Parameters
    ----------
    value : Any
        As JSON or TOML has it.

    Returns
    -------
    str
        Like ``repr``, with the middle left out where it is long.

    Examples
    --------
    >>> short("a" * 1000)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaa'"
    """
    return _SHORT.repr(value)


class _Short(reprlib.Repr):
    """Bounds what `repr` does not: deep nesting, and whole numbers of more digits than Python agrees to print."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 3, 60, 60

    def repr_int(self, x: int, level: int) -> str:
        bits = x.bit_length()
        return repr(x) if bits <= 128 else f"a whole number of {bits} bits"


_SHORT = _Short()


def _number_within(value: Any, wanted: Any, between: Between, where: str) -> Any:
    number = _scalar_of(value, wanted, where)
    if not between.low <= number <= between.high:
        whole = "a whole number" if wanted is int else "a number"
        raise DataError(f"{where} is {short(value)}; expected {whole} from {between.low:g} to {between.high:g}.")
    return number


def _tuple_of(value: Any, inner: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise DataError(f"{where} is {short(value)}; expected a list.")
    wanted = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
    if len(wanted) != len(value):
        raise DataError(f"{where} is {short(value)}; expected a list of {len(wanted)}.")
    return tuple(value_of(one, kind, where) for one, kind in zip(value, wanted, strict=True))


def _mapping_of(value: Any, inner: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError(f"{where} is {short(value)}; expected an object of names and values.")
    names = (_scalar_of(name, str, f"A name in {where}") for name in value)
    return {name: value_of(value[name], inner, f"{where}: {short(name)}") for name in names}


def _scalar_of(value: Any, wanted: Any, where: str) -> Any:
    if wanted in (int, float):
        number = isinstance(value, int if wanted is int else int | float) and not isinstance(value, bool)
        fits = number and abs(value) <= _LARGEST  # what is not a number is not below anything either
    else:
        fits = isinstance(value, wanted)
    if not fits:
        raise DataError(f"{where} is {short(value)}; expected {_WORDS[wanted]}.")
    if wanted is str and not _can_be_written(value):
        raise DataError(f"{where} is {short(value)}; expected text without halves of characters.")
    return float(value) if wanted is float else value


def _can_be_written(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Any, where: str, depth: int = 0) -> Any:
    """The value itself, if JSON can say it, in a few levels."""
    if depth > _DEEPEST:
        raise DataError(f"{where} is nested more than {_DEEPEST} levels deep; expected fewer.")
    if isinstance(value, list | tuple):
        return [_plain(one, where, depth + 1) for one in value]
    if isinstance(value, Mapping):
        names = [_scalar_of(name, str, f"A name in {where}") for name in value]
        return {name: _plain(value[name], where, depth + 1) for name in names}
    kind = next((kind for kind in (bool, int, float, str) if isinstance(value, kind)), None)
    if kind is None and value is not None:
        raise DataError(f"{where} is {short(value)}; expected text, a number, true or false, or a list or table of it.")
    return value if kind is None else _scalar_of(value, kind, where)
