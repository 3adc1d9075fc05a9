"""The discriminant of GDDSG alone: no graph, no groups, no heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from gddsg.core.label import Label
from gddsg.core.model import Model, Settings
from gddsg.learners.base import FeatureLearner, Learnt


class Discriminant(FeatureLearner[Model]):
    """Regularised quadratic discriminant analysis from class cards: what does the work in :class:`GDDSG`.

    Every class is a Gaussian with covariance ``T_0 + (1-g) b/(1-b) S_c``, where ``T_0 = (1-g) S + g tr(S)/p I`` is the
    shrunk pooled covariance and S_c the scatter of the class itself, by its leading directions. Mixing the covariance
    of a class with that of all classes and with a sphere is Friedman's regularised discriminant analysis; Deep SLDA
    has the pooled part alone, Deep SRDA both on streams, FeCAM the class's own, and LR-RGDA the low-rank correction by
    Woodbury's identity that is asked of the best candidates only.

    What :class:`GDDSG` adds to it, apart from groups and heads, it has too: the shrinkage follows from sums alone, and
    since those sums are cards, the result does not depend on the order of classes at all.

    Parameters
    ----------
    rank : int
        Directions kept of a class's scatter.
    feature_transform : {"auto", "none"}
        See :class:`gddsg.core.model.Settings`.
    device : str
        Torch device for the cards' arithmetic.

    Examples
    --------
    >>> Discriminant().partial_fit([[1.0, 0.0], [0.8, 0.1]], ["cat", "cat"]).partial_fit([[0.0, 1.0]], ["dog"]).predict(
    ...     [[0.1, 0.7]]
    ... )
    ['dog']

    References
    ----------
    J. H. Friedman, "Regularized Discriminant Analysis", Journal of the American Statistical Association 84, 1989.
    """

    fixed_by_learning = ("rank", "feature_transform")

    def __init__(
        self, rank: int = 64, feature_transform: Literal["auto", "none"] = "auto", device: str = "cpu"
    ) -> None:
        self.rank = rank
        self.feature_transform = feature_transform
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_whole("rank", 1, 2**31 - 1)
        self._model_settings().check()

    def _model_settings(self) -> Settings:
        return Settings(
            projection_dim=0,
            rank=int(self.rank),
            feature_transform=self.feature_transform,
        )

    def _next_state(self, state: Model | None, inputs: Tensor, labels: Sequence[Label]) -> Model:
        model = Model(self._model_settings()) if state is None else state
        return model.plus(model.make_cards(inputs, labels, None))

    def _log_probabilities(self, learnt: Learnt[Model], inputs: Tensor) -> Tensor:
        return torch.from_numpy(learnt.state.predictor.predict_log_proba(inputs.cpu().numpy()))

    def _best(self, learnt: Learnt[Model], inputs: Tensor) -> Tensor:
        table = self._log_probabilities(learnt, inputs).numpy()
        return torch.from_numpy(learnt.state.predictor.best_columns(table))
