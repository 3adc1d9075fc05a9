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
        What should not have happened: an exception of a library's, a wrong answer, something lost or left behind.
    """

    tried: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def count(self, outcome: str) -> None:
        """One more attack with this outcome."""
        self.tried += 1
        self.outcomes[outcome] += 1

    def fail(self, what: str) -> None:
        """One more attack, and it succeeded."""
        self.tried += 1
        self.failures.append(what)
