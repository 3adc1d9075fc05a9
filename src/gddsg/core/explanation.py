"""Why an input got its label, as data and as a text."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gddsg.core.derived import Derived
from gddsg.core.identification import group_probabilities
from gddsg.core.similarity_graph import Label

_RIVALS = 5


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


def explanation(derived: Derived, probabilities: Tensor, novelty: float) -> Explanation:
    """Why an input with these ``probabilities`` ``(n_classes,)`` and this novelty gets its label."""
    labels, graph, group_of = list(derived.cards), derived.graph, derived.group_of_class.tolist()
    order = probabilities.argsort(descending=True).tolist()
    best = int(probabilities.argmax())
    rivals = tuple(
        Rival(
            label=labels[c],
            probability=float(probabilities[c]),
            group=group_of[c],
            similar=bool(graph.adjacency[best, c]),
            distance=float(graph.distances[best, c]),
        )
        for c in [c for c in order if c != best][:_RIVALS]
    )
    groups = group_probabilities(probabilities[None], derived.group_of_class)[0]
    return Explanation(
        label=labels[best],
        probability=float(probabilities[best]),
        group=group_of[best],
        group_members=derived.groups[group_of[best]],
        group_probabilities={g: float(p) for g, p in enumerate(groups)},
        rivals=rivals,
        novelty=novelty,
        novelty_limit=derived.novelty.limit(0.99),
    )
