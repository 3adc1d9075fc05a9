"""What came of an attack."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Counts:
    """How often what happened.

    Attributes
    ----------
    tried : int
        Attacks in all.
    outcomes : Counter
        What came of them, in words of the attack: all of these are as they should be.
    failures : list of str
        What should not have happened.
    """

    tried: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
