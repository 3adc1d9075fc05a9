"""LayUP: ridge regression on what several layers of a network give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from gddsg.core.held_out_ridge import RidgeSums, ridge_scores
from gddsg.core.label import Label
from gddsg.core.once import Carried
from gddsg.core.scale_free_penalty import scale_free_regularisation
from gddsg.core.transform import View
from gddsg.learners.base import FeatureLearner, Learnt

_BYTES_A_NUMBER = 4  # float32, as its authors keep them
_SCORE_SCALE = 10.0  # ridge scores regress 0 and 1: unscaled, no probability would exceed e / (e + n_classes - 1)

State = Carried[RidgeSums, Tensor]  # sums and weights (n_features, n_classes)


class LayUP(FeatureLearner[State]):
    """Class prototypes of several layers, decorrelated (Ahrens et al., TMLR 2024), without first-session tuning.

    A row holds the features of the last layers of a network side by side, as a backbone such as
    ``efficientnet-lite0/layers4`` gives them. Prototypes are sums over the samples of a class, and a sample belongs to
    the class with the largest ``xᵀ (XᵀX + λ I)⁻¹ c``: ridge regression of the class indicators, without an intercept,
    without a random projection, and, as published, with layers neither centred nor scaled. On features of one layer it
    is plain ridge regression.

    The original chooses λ by its accuracy in a cross-validation on the current task, so that its result depends on
    which task came last. Here a fifth of all samples, chosen by a hash of their content, gives held-out sums: λ sees
    every task, and the result does not depend on the order of classes. Accuracy cannot be told from sums; what stands
    in for it is blind, as accuracy is, to a common factor of all scores. The original's candidates are 1e-8 and fifteen
    from 1e-4 to 1e3, two a power of ten; here they go on to 1e8, since features of other networks may be larger.

    Parameters
    ----------
    regularisation : float or None
        λ; ``None`` picks it from 1e-8 … 1e8 by the held-out sums.
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the arithmetic.

    Examples
    --------
    >>> LayUP().partial_fit([[1.0, 0.0], [0.8, 0.1]], ["cat", "cat"]).partial_fit([[0.0, 1.0]], ["dog"]).predict(
    ...     [[0.1, 0.7]]
    ... )
    ['dog']

    References
    ----------
    https://arxiv.org/abs/2312.08888
    """

    fixed_by_learning = ("regularisation", "view")
    calibrated: ClassVar[bool] = False

    def __init__(self, regularisation: float | None = None, view: View = "raw", device: str = "cpu") -> None:
        self.regularisation = regularisation
        self.view = view
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.regularisation is not None:
            self._check_number("regularisation", 1e-12, 1e12)

    def state_bytes(self) -> int:
        """What the method keeps, the Gram matrix and a prototype a class, in float32."""
        learnt = self._current()
        if learnt is None:
            return 0
        width = self.n_features_in_
        return _BYTES_A_NUMBER * width * (width + len(learnt.classes))

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        known = RidgeSums.empty(inputs.shape[1], hold_out=self.regularisation is None) if state is None else state.kept
        return Carried(known.plus(inputs, labels, Tensor.double))

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        weights = learnt.state.derived.get(lambda: self._weights(learnt))
        return (_SCORE_SCALE * ridge_scores(inputs.cpu(), Tensor.double, weights)).log_softmax(1)

    def _weights(self, learnt: Learnt[State]) -> Tensor:
        known, labels = learnt.state.kept, learnt.classes.tolist()
        regularisation = self.regularisation
        if regularisation is None:
            prototypes = torch.stack([known.sums[label] for label in labels], dim=2)
            regularisation = scale_free_regularisation(known.grams, prototypes)
        return known.weights(labels, regularisation)
