"""How work is cut up."""

from __future__ import annotations

from dataclasses import dataclass, fields

from gddsg.errors import InputError


@dataclass(frozen=True)
class Sizes:
    """How much is done at a time. Other sizes give cards that agree up to rounding, not bit for bit.

    Attributes
    ----------
    photos : int
        Of a unit of work.
    rows : int
        Of a unit of work of features.
    units : int
        Whose results are merged, and stored, together: so much at most is done again, for every worker, after the
        program was killed.
    """

    photos: int = 256
    rows: int = 4096
    units: int = 16

    def check(self) -> None:
        """Refuse sizes that make no sense."""
        for field in fields(self):
            value, least = getattr(self, field.name), 2 if field.name == "units" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"Sizes({field.name}={value!r}) was given; expected a whole number from {least}.")
