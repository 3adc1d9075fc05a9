"""Why an input got its label, as data and as a text."""

from __future__ import annotations

from dataclasses import dataclass

from gddsg.core.similarity_graph import Label


@dataclass(frozen=True)
class Rival:
    """Another class the input could have been."""

    label: Label
    probability: float
    group: int
    similar: bool
    distance: float


@dataclass(frozen=True)
class Explanation:
    """Label, group and rivals of one input; ``str()`` says it in words."""

    label: Label
    probability: float
    group: int
    group_members: tuple[Label, ...]
    group_probabilities: dict[int, float]
    rivals: tuple[Rival, ...]
    novelty: float
    novelty_limit: float

    @property
    def unlike_every_class(self) -> bool:
        """True where 99 % of known inputs are more like some class than this one."""
        return self.novelty > self.novelty_limit

    def __str__(self) -> str:
        lines = [
            f"{self.label}: probability {self.probability:.2f}, group {self.group} "
            f"(probability {self.group_probabilities[self.group]:.2f}, {len(self.group_members)} classes)"
        ]
        for rival in self.rivals:
            where = "same group" if rival.group == self.group else f"group {rival.group}"
            kin = "similar class" if rival.similar else "dissimilar class"
            lines.append(f"  rather than {rival.label}: {rival.probability:.2f} ({kin}, {where})")
        if self.unlike_every_class:
            lines.append("  It is unlike every known class: fewer than 1 % of known inputs are stranger.")
        return "\n".join(lines)
