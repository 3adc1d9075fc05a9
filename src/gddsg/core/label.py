"""What a class is called."""

from __future__ import annotations

from gddsg.errors import InputError

Label = int | str
"""The labels of one model are all ``int`` or all ``str``."""

LONGEST_LABEL = 1000
"""Letters. Arrays of names take as much for every class as for the longest one."""


def check_label(label: Label) -> None:
    """Refuse a name that two ways of keeping it would not keep alike.

    Parameters
    ----------
    label : int or str
        Of a class.
    """
    if isinstance(label, str):
        if "\0" in label:  # arrays of text drop it at the end, and "a" and "a\0" would be one class
            raise InputError(f"The label {label[:60]!r} holds a NUL character. Rename the class.")
        if len(label) > LONGEST_LABEL:
            raise InputError(
                f"The label {label[:60]!r}… has {len(label)} letters; expected at most {LONGEST_LABEL}. "
                "Rename the class."
            )
    elif not -(2**63) <= label < 2**63:
        raise InputError(f"The label {label} was given; expected a whole number of 64 bits. Rename the class.")
