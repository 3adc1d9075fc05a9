"""From features to the log-probabilities of all classes: the group is identified, its head is heard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gddsg.core.derived import Derived
from gddsg.core.identification import Identification, group_counts, group_probabilities
from gddsg.core.transform import apply_view

DecisionMode = Literal["soft", "hard", "ungated"]

HEAD_WEIGHT = 2.0
"""Head scores regress 0 and 1, so a head moves the log-odds of two classes by about this at most."""

PLAUSIBLE_LOG_ODDS = 6.0
"""A class this far behind the best stays behind, whatever a head says."""

PLAUSIBLE_CLASSES = 8
"""An input that is like nothing known is a little like everything: heads are no help to it."""

NEVER = -700.0
"""Log of a probability that is as good as none."""


@dataclass(frozen=True, eq=False)
class Decision:
    """The decision for a set of cards.

    Parameters
    ----------
    derived : what follows from the cards.
    identification : how the group is identified.
    mode : ``"soft"`` weighs all groups by their probability, ``"hard"`` commits to the likeliest one, ``"ungated"``
        lets the heads of all groups compete and identifies none.
    project : h(x), ``(n, feature_dim)`` to ``(n, projection_dim)``.
    """

    derived: Derived
    identification: Identification
    mode: DecisionMode
    project: Callable[[Tensor], Tensor]

    def log_probabilities(self, features: Tensor) -> Tensor:
        """``(n, n_classes)`` of features ``(n, feature_dim)``."""
        if self.mode == "ungated":
            return self._all_heads(features)
        evidence = self._evidence(features)
        group_evidence = self._group_evidence(features, evidence)
        if self.mode == "hard":
            return self.inside(features, group_evidence.argmax(1))
        groups = self.derived.group_of_class
        within = _log_share(self._heard(features, evidence), groups)
        return (group_evidence[:, groups] + within).log_softmax(1)

    def likeliest_groups(self, features: Tensor) -> Tensor:
        """``(n,)`` index of the group that each row is identified with."""
        return self._group_evidence(features, self._evidence(features)).argmax(1)

    def inside(self, features: Tensor, chosen: Tensor) -> Tensor:
        """The paper's decision: log-probabilities by the head of the ``chosen`` group ``(n,)`` of each row alone."""
        out = torch.full((len(features), len(self.derived.cards)), NEVER, dtype=torch.float64)
        projected = self._project(features)
        for group in chosen.unique().tolist():
            rows, columns = chosen == group, self.derived.columns[group]
            scores = HEAD_WEIGHT * projected[rows] @ self.derived.head(group).weights
            out[torch.nonzero(rows), torch.tensor(columns)] = scores.log_softmax(1)
        return out

    def _evidence(self, features: Tensor) -> Tensor:
        """Log-probabilities ``(n, n_classes)`` by the discriminant alone."""
        return self.derived.discriminant.scores(apply_view(features, self.derived.view)).log_softmax(1)

    def _group_evidence(self, features: Tensor, evidence: Tensor) -> Tensor:
        """Log-probabilities ``(n, n_groups)``."""
        if self.identification == "evidence":
            return group_probabilities(evidence.exp(), self.derived.group_of_class).clamp(min=1e-300).log()
        voters = self.derived.voters(self.identification)
        return voters.probabilities(apply_view(features, self.derived.view)).clamp(min=1e-12).log()

    def _heard(self, features: Tensor, evidence: Tensor) -> Tensor:
        """Evidence with the heads' opinion added wherever two or more plausible classes share a group."""
        best = evidence.topk(min(PLAUSIBLE_CLASSES, evidence.shape[1]), dim=1).values
        plausible = evidence >= torch.maximum(best[:, -1:], best[:, :1] - PLAUSIBLE_LOG_ODDS)
        contested = group_counts(plausible, self.derived.group_of_class) > 1  # (n, n_groups)
        heard, asking = evidence.clone(), contested.any(1)
        projected = self._project(features[asking])
        for group in torch.nonzero(contested.any(0))[:, 0].tolist():
            rows, columns = contested[:, group], self.derived.columns[group]
            opinion = projected[rows[asking]] @ self.derived.head(group).weights
            heard[torch.nonzero(rows), torch.tensor(columns)] += HEAD_WEIGHT * opinion
        return heard

    def _all_heads(self, features: Tensor) -> Tensor:
        """The heads of all groups side by side, though none has learnt to say no to the classes of another."""
        out, projected = (
            torch.empty(len(features), len(self.derived.cards), dtype=torch.float64),
            self._project(features),
        )
        for group, columns in self.derived.columns.items():
            out[:, columns] = HEAD_WEIGHT * projected @ self.derived.head(group).weights
        return out.log_softmax(1)

    def _project(self, features: Tensor) -> Tensor:
        """h(x) in float64, so that a row's score is its own whatever the batch it comes in."""
        return self.project(features.double())


def _log_share(scores: Tensor, groups: Tensor) -> Tensor:
    """Log-probability of each class inside its own group, from unnormalised log-scores."""
    top = scores.amax(1, keepdim=True)
    total = group_probabilities((scores - top).exp(), groups).clamp(min=1e-300).log() + top
    return scores - total[:, groups]
