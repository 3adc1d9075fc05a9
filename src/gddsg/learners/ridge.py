"""What learners have in common that regress one-hot labels on random units, from running sums."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from gddsg.core.held_out_ridge import FeatureMap, RidgeSums, ridge_scores
from gddsg.core.label import Label
from gddsg.core.once import Carried
from gddsg.learners.base import Learnt, ProjectionLearner

RidgeState = Carried[RidgeSums, Tensor]
"""The sums, and the weights ``(M, n_classes)``."""

RANPAC_SCALE = 10.0
"""What RanPAC's scores, with and without its first phase, are multiplied by; see ``score_scale`` below."""


class RidgeLearner(ProjectionLearner[RidgeState]):
    """Ridge regression on M random units: a method says what the units are.

    Attributes
    ----------
    regularisation : float or None
        λ, a parameter of every such learner; ``None`` picks it on a held-out share.
    score_scale : float
        Scores regress 0 and 1: unscaled, no probability would exceed ``e / (e + n_classes - 1)``.
    number_bytes : int
        Of the type in which the method's authors keep its sums.
    """

    calibrated: ClassVar[bool] = False
    fixed_by_learning: ClassVar[tuple[str, ...]] = ("projection_dim", "seed", "regularisation", "view")
    score_scale: ClassVar[float]
    number_bytes: ClassVar[int]
    regularisation: float | None

    @abstractmethod
    def _units(self, features: Tensor) -> Tensor:
        """``h(x)``, ``(n, M)`` float64."""

    def state_bytes(self) -> int:
        """``HᵀH`` or its inverse, and ``HᵀY`` or the weights: the originals keep no held-out sums."""
        learnt, M = self._current(), self.projection_dim
        return 0 if learnt is None else self.number_bytes * M * (M + len(learnt.classes))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.regularisation is not None:
            self._check_number("regularisation", 1e-9, 1e12)

    def _next_state(self, state: RidgeState | None, inputs: Tensor, labels: Sequence[Label]) -> RidgeState:
        return grown_ridge(state, inputs, labels, self._units, self.projection_dim, self.regularisation)

    def _log_probabilities(self, learnt: Learnt[RidgeState], inputs: Tensor) -> Tensor:
        labels = learnt.classes.tolist()
        scores = scores_of_ridge(learnt.state, inputs.cpu(), labels, self._units, self.regularisation)
        return (self.score_scale * scores).log_softmax(1)


def grown_ridge(
    state: RidgeState | None,
    features: Tensor,
    labels: Sequence[Label],
    units: FeatureMap,
    width: int,
    regularisation: float | None,
) -> RidgeState:
    """The sums after a batch.

    Parameters
    ----------
    state : RidgeState or None
        Those before it.
    features : Tensor
        ``(n, n_features)``.
    labels : sequence of int or str
        One a row.
    units : callable
        h, from features to units.
    width : int
        M, how many units there are.
    regularisation : float or None
        λ; with ``None`` a fifth of the samples is held out to pick it by.
    """
    known = RidgeSums.empty(width, regularisation is None) if state is None else state.kept
    return Carried(known.plus(features, labels, units))


def scores_of_ridge(
    state: RidgeState, features: Tensor, labels: Sequence[Label], units: FeatureMap, regularisation: float | None
) -> Tensor:
    """``h(x) Θ``, ``(n, n_classes)`` in the order of ``labels``, which is the same for all calls with a state.

    Parameters
    ----------
    state : RidgeState
        The sums.
    features : Tensor
        ``(n, n_features)`` on the CPU.
    labels : sequence of int or str
        All classes.
    units, regularisation
        See :func:`grown_ridge`.
    """
    weights = state.derived.get(lambda: state.kept.weights(labels, regularisation))
    return ridge_scores(features, units, weights)
