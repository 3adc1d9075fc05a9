"""Why an input got its label, as data and as a text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gddsg.core.grouping import ClassGroups
from gddsg.core.label import Label
from gddsg.core.predictor import Features, Predictor
from gddsg.core.similarity_graph import SimilarityGraph
from gddsg.wording import counted

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
            f"(probability {self.group_probabilities[self.group]:.2f}, {counted(len(self.group_members), 'class')})"
        ]
        for rival in self.rivals:
            where = "same group" if rival.group == self.group else f"group {rival.group}"
            kin = "similar class" if rival.similar else "dissimilar class"
            lines.append(f"  rather than {rival.label}: {rival.probability:.2f} ({kin}, {where})")
        if self.unlike_every_class:
            lines.append("  It is unlike every known class: fewer than 1 % of known inputs are stranger.")
        return "\n".join(lines)


def explain(predictor: Predictor, graph: SimilarityGraph, groups: ClassGroups, features: Features) -> Explanation:
    """Why one input gets its label.

    Parameters
    ----------
    predictor : Predictor
        What answers.
    graph : SimilarityGraph
        Of all classes, in the order of the predictor's labels.
    groups : tuple of tuple of Label
        The class groups.
    features : ndarray
        Of the input, ``(1, n_features)``.
    """
    probabilities = np.exp(predictor.predict_log_proba(features)[0])
    group_of = {label: group for group, members in enumerate(groups) for label in members}
    best, *others = np.argsort(-probabilities, kind="stable")[: _RIVALS + 1].tolist()
    rivals = tuple(
        Rival(
            label=graph.labels[c],
            probability=float(probabilities[c]),
            group=group_of[graph.labels[c]],
            similar=bool(graph.adjacency[best, c]),
            distance=float(graph.distances[best, c]),
        )
        for c in others
    )
    own = group_of[graph.labels[best]]
    by_group = dict.fromkeys(range(len(groups)), 0.0)
    for label, probability in zip(graph.labels, probabilities.tolist(), strict=True):
        by_group[group_of[label]] += probability
    return Explanation(
        label=graph.labels[best],
        probability=float(probabilities[best]),
        group=own,
        group_members=groups[own],
        group_probabilities=by_group,
        rivals=rivals,
        novelty=float(predictor.measure_novelty(features)[0]),
        novelty_limit=predictor.novelty().limit(0.99),
    )
