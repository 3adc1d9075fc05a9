"""FeCAM: every class has a covariance of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gddsg.core.by_class import rows_by_class
from gddsg.core.correlation_metric import CorrelationMetric, correlation_distances, nearest_metric
from gddsg.core.label import Label
from gddsg.core.moments import Moments
from gddsg.core.transform import unit
from gddsg.learners.base import FeatureLearner, Learnt

State = Mapping[Label, Moments]

_ROWS_AT_ONCE = 4096
_DISTANCE_SCALE = 30.0  # unit vectors lie within a distance of 2: unscaled, every probability would be near 1 / classes


class FeCAM(FeatureLearner[State]):
    """Mahalanobis distance with one covariance a class (Goswami et al., NeurIPS 2023) on frozen features.

    Features take Tukey's transform and unit length. The covariance of a class is shrunk,
    ``Σ + α₁ V₁ I + α₂ V₂ (1 1ᵀ - I)`` with V₁ and V₂ the means of its diagonal and of the rest, and brought to a unit
    diagonal; the class with the least Mahalanobis distance wins.

    The original stores and inverts one matrix a class. Here the scatter of a class is kept as its principal directions,
    as many as its samples span: the shrunk matrix is a multiple of the identity plus those, and its inverse is written
    down at once. The distances are the same. A class whose samples do not differ has the identity.

    Parameters
    ----------
    tukey : float
        Exponent of Tukey's transform, applied to absolute values with the sign kept. The paper takes 0.5 for networks
        that end in a ReLU, whose features are not negative, and 1, no transform, for transformers.
    alpha1, alpha2 : float
        Shrinkage, α₂ at most α₁; the paper's values for pre-trained networks. It raises both where samples are few.
    device : str
        Torch device for the arithmetic.

    Examples
    --------
    >>> FeCAM().partial_fit([[1.0, 0.0], [0.8, 0.1]], ["cat", "cat"]).partial_fit([[0.0, 1.0]], ["dog"]).predict(
    ...     [[0.1, 0.7]]
    ... )
    ['dog']

    References
    ----------
    https://arxiv.org/abs/2309.14062
    """

    fixed_by_learning = ("tukey",)

    def __init__(self, tukey: float = 0.5, alpha1: float = 1.0, alpha2: float = 0.0, device: str = "cpu") -> None:
        self.tukey = tukey
        self.alpha1 = alpha1
        self.alpha2 = alpha2
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("tukey", 0.01, 1.0)
        self._check_number("alpha1", 1e-9, 1e9)
        self._check_number("alpha2", 0.0, self.alpha1)  # beyond it the shrunk matrix need not be positive

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        """The scatter of every class."""
        scatters = dict(state or {})
        for label, rows in rows_by_class(self._view(inputs), labels):
            own = Moments.of(rows)
            scatters[label] = scatters[label].merge(own) if label in scatters else own
        return scatters

    def _view(self, features: Tensor) -> Tensor:
        """``sign(x) |x|^λ`` brought to unit length, float64."""
        powers = features.double().abs().pow(self.tukey).copysign(features.double())
        return unit(powers)

    def _best(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        """The nearest class; most distances need not be exact for it."""
        chunks, metrics = inputs.cpu().split(_ROWS_AT_ONCE), self._metrics(learnt)
        return torch.cat([nearest_metric(metrics, self._view(chunk)) for chunk in chunks])

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        metrics, chunks = self._metrics(learnt), inputs.cpu().split(_ROWS_AT_ONCE)
        distances = torch.cat([correlation_distances(metrics, self._view(chunk)) for chunk in chunks])
        return (-_DISTANCE_SCALE * distances).log_softmax(1)

    def _metrics(self, learnt: Learnt[State]) -> list[CorrelationMetric]:
        """How each class measures distances to its mean; no class takes part in another's."""
        return [CorrelationMetric.of(learnt.state[k], self.alpha1, self.alpha2) for k in learnt.classes.tolist()]
