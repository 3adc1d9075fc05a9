"""From evidence to the log-probabilities of all classes: the group is identified, its head is heard.

Written once, for NumPy arrays (:class:`gddsg.core.predictor.Predictor`) and for torch tensors that become a network
(:class:`gddsg.core.network.PredictionNetwork`); the two differ in how much they compute that nobody asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

DecisionMode = Literal["soft", "hard", "ungated", "evidence"]

HEAD_WEIGHT = 2.0
"""Head scores regress 0 and 1, so a head moves the log-odds of two classes by about this at most."""

PLAUSIBLE_LOG_ODDS = 6.0
"""A class this far behind the best stays behind, whatever a head says."""

PLAUSIBLE_CLASSES = 8
"""An input that is like nothing known is a little like everything: heads are no help to it."""

CANDIDATE_LOG_ODDS = 12.0
"""Classes this far behind the best by shared scatter alone get no quadratic term."""

MAX_CANDIDATES = 32

NEVER = -700.0
"""Log of a probability that is as good as none."""

Floats = Any
"""An array or a tensor of float64."""


class Decision(ABC):
    """What is decided, given how to compute the parts.

    Attributes
    ----------
    mode : {"soft", "hard", "ungated", "evidence"}
        ``"soft"`` weighs all groups by their probability, ``"hard"`` commits to the likeliest one, ``"ungated"`` lets
        the heads of all groups compete and identifies none, ``"evidence"`` asks neither groups nor heads.
    temperature : float
        See :class:`gddsg.core.metric.Metric`.
    """

    mode: DecisionMode
    temperature: float

    def log_probabilities(self, features: Any) -> Floats:
        """``(n, n_classes)`` of features ``(n, feature_dim)``."""
        if self.mode == "ungated":  # none of the heads has learnt to say no to the classes of another
            return self._log_softmax(self._all_opinions(features), HEAD_WEIGHT)
        evidence = self.evidence(features)
        if self.mode == "evidence":
            return evidence
        if self.mode == "hard":
            return self.inside(features, self.group_evidence(features, evidence).argmax(1))
        plausible = self._leading(evidence, PLAUSIBLE_CLASSES, PLAUSIBLE_LOG_ODDS)
        return self._weigh_groups(features, self._hear_heads(features, evidence, plausible))

    def evidence(self, features: Any) -> Floats:
        """Log-probabilities ``(n, n_classes)`` by the discriminant alone."""
        whitened = self._whitened(features)
        linear = self._linear(whitened)
        candidates = self._leading(linear, MAX_CANDIDATES, CANDIDATE_LOG_ODDS / self.temperature)
        return self._log_softmax(self._quadratic(whitened, linear, candidates), self.temperature)

    def _weigh_groups(self, features: Any, scores: Floats) -> Floats:
        """Log-probabilities in which groups weigh as much as they were identified with, as by evidence they do."""
        return scores

    # ---------------------------------------------------------------- the parts

    @abstractmethod
    def _whitened(self, features: Any) -> Floats:
        """Features as the metric sees them, ``(n, dim)``."""

    @abstractmethod
    def _linear(self, whitened: Floats) -> Floats:
        """Scores ``(n, n_classes)`` by shared scatter alone, row by row up to a constant."""

    @abstractmethod
    def _leading(self, values: Floats, most: int, margin: float) -> Any:
        """Bool ``(n, n_classes)``: at most so many classes a row, which lie no farther behind the best than the margin.

        False all over where that is the best alone, which needs no closer look.
        """

    @abstractmethod
    def _quadratic(self, whitened: Floats, linear: Floats, candidates: Any) -> Floats:
        """Scores ``(n, n_classes)``, with the term of its own scatter for every candidate.

        The other classes follow the last candidate at their linear distance from it.
        """

    @abstractmethod
    def _log_softmax(self, scores: Floats, scale: float) -> Floats:
        """Log-probabilities, row by row, of scores times ``scale``."""

    @abstractmethod
    def group_evidence(self, features: Any, evidence: Floats) -> Floats:
        """Log-probabilities ``(n, n_groups)``: a group is as probable as its classes together."""

    @abstractmethod
    def _hear_heads(self, features: Any, evidence: Floats, plausible: Any) -> Floats:
        """Evidence in which the head of every group with two or more plausible classes shares the group's weight anew.

        In proportion to the exponential of the evidence plus the head's opinion.
        """

    @abstractmethod
    def inside(self, features: Any, chosen: Any) -> Floats:
        """The paper's decision: log-probabilities by the head of the ``chosen`` group ``(n,)`` of each row alone."""

    @abstractmethod
    def _all_opinions(self, features: Any) -> Floats:
        """Scores ``(n, n_classes)`` of the heads of all groups."""
