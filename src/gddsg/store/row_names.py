"""What the rows of a model file are called."""

from __future__ import annotations

from gddsg.core.label import Label, checked_label
from gddsg.errors import InputError

PREDICTOR = "gddsg:predictor"
"""The row that holds no card but what answers, see :mod:`gddsg.core.kept_predictor`."""


def is_card(name: str) -> bool:
    """Whether the row of that name holds a card.

    Examples
    --------
    >>> is_card("str:fox"), is_card("gddsg:predictor")
    (True, False)
    """
    return not name.startswith("gddsg:")


def card_name(label: Label) -> str:
    """Name of the row of a class.

    Examples
    --------
    >>> card_name("fox"), card_name(7)
    ('str:fox', 'int:7')
    """
    return f"{type(label).__name__}:{label}"


def card_label(name: str) -> Label:
    """The class of the row of that name.

    Examples
    --------
    >>> card_label("str:fox"), card_label("int:7")
    ('fox', 7)
    """
    kind, _, text = name.partition(":")
    label = int(text) if kind == "int" else text
    if card_name(label) != name:  # else two rows could be one class
        raise InputError(f"the name {name[:60]!r} is not that of a card.")
    return checked_label(label)
