"""FeCAM: every class has a covariance of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from gddsg.core.by_class import rows_by_class
from gddsg.core.correlation_metric import CorrelationMetric, correlation_distances, nearest_metric
from gddsg.core.label import Label
from gddsg.core.moments import Moments
from gddsg.core.transform import unit
from gddsg.errors import InputError
from gddsg.learners.base import FeatureLearner, Learnt

Recipe = Literal["resnet", "vit"]

_ROWS_AT_ONCE = 4096
_DISTANCE_SCALE = 30.0  # unit vectors lie within a distance of 2: unscaled, every probability would be near 1 / classes


@dataclass(frozen=True, eq=False)
class ClassSums:
    """What is known of a class.

    Attributes
    ----------
    scatter : Moments
        Of the transformed features.
    total : Tensor
        ``(n_features,)`` float64, the sum of the features as they came.
    """

    scatter: Moments
    total: Tensor

    def plus(self, other: ClassSums) -> ClassSums:
        """These and those of further samples."""
        return ClassSums(self.scatter.merge(other.scatter), self.total + other.total)


State = Mapping[Label, ClassSums]


class FeCAM(FeatureLearner[State]):
    """Mahalanobis distance with one covariance a class (Goswami et al., NeurIPS 2023) on frozen features.

    Features take Tukey's transform and unit length. The covariance of a class is shrunk,
    ``Σ + α₁ V₁ I + α₂ V₂ (1 1ᵀ - I)`` with V₁ and V₂ the means of its diagonal and of the rest, and brought to a unit
    diagonal; the class with the least Mahalanobis distance wins.

    The authors have two programs. For networks that end in a ReLU (``recipe="resnet"``) the covariance is that of the
    transformed features at the length they have, and the mean is taken before the transform; both the mean and a
    sample are brought to unit length in the end. For transformers (``recipe="vit"``) features are brought to unit
    length first. The first also shrinks twice, with α₁ = α₂ = 1 each time; shrinking twice by α is shrinking once by
    ``α (2 + α)``, so that ``FeCAM(alpha1=3, alpha2=3, recipe="resnet")`` is that program.

    The original stores and inverts one matrix a class. Here the scatter of a class is kept as its principal directions,
    as many as its samples span: the shrunk matrix is a multiple of the identity plus those, and its inverse is written
    down at once. The distances are the same. A class whose samples do not differ has the identity.

    Parameters
    ----------
    tukey : float
        Exponent of Tukey's transform, applied to absolute values with the sign kept. The paper takes 0.5 for networks
        that end in a ReLU, whose features are not negative, and 1, no transform, for transformers.
    alpha1, alpha2 : float
        Shrinkage, α₂ at most α₁. The authors have 1 and 1, twice, for ResNets and many samples a class, 1 and 0 or 10
        and 10 for transformers, and about 100 where samples are few. Of these 10 and 10 did best on training samples
        held out of three data sets, of 30 to 100 samples a class.
    recipe : {"resnet", "vit"}
        Which of the authors' programs.
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

    fixed_by_learning = ("tukey", "recipe")
    calibrated: ClassVar[bool] = False

    def __init__(
        self,
        tukey: float = 0.5,
        alpha1: float = 10.0,
        alpha2: float = 10.0,
        recipe: Recipe = "vit",
        device: str = "cpu",
    ) -> None:
        self.tukey = tukey
        self.alpha1 = alpha1
        self.alpha2 = alpha2
        self.recipe = recipe
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("tukey", 0.01, 1.0)
        self._check_number("alpha1", 1e-9, 1e9)
        self._check_number("alpha2", 0.0, self.alpha1)  # beyond it the shrunk matrix need not be positive
        if self.recipe not in get_args(Recipe):
            raise InputError(f"recipe={self.recipe!r} was given; expected 'resnet' or 'vit'.")

    def state_bytes(self) -> int:
        """Mean and covariance a class in float32: half of the matrix, or the few directions that its samples span."""
        learnt = self._current()
        return 0 if learnt is None else sum(4 * _numbers(own.scatter.factor) for own in learnt.state.values())

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        known = dict(state or {})
        for label, rows in rows_by_class(inputs, labels):
            vectors = self._powers(rows) if self.recipe == "resnet" else self._view(rows)
            own = ClassSums(Moments.of(vectors), rows.sum(0, dtype=torch.float64).cpu())
            known[label] = known[label].plus(own) if label in known else own
        return known

    def _powers(self, features: Tensor) -> Tensor:
        """``sign(x) |x|^λ``, float64."""
        return features.double().abs().pow(self.tukey).copysign(features.double())

    def _view(self, features: Tensor) -> Tensor:
        """Powers brought to unit length."""
        return unit(self._powers(features))

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
        return [self._metric(learnt.state[label]) for label in learnt.classes.tolist()]

    def _metric(self, own: ClassSums) -> CorrelationMetric:
        mean = self._view(own.total / own.scatter.count) if self.recipe == "resnet" else None
        return CorrelationMetric.of(own.scatter, self.alpha1, self.alpha2, mean)


def _numbers(factor: Tensor) -> int:
    """Of a mean and a covariance whose factor is ``(r, dim)``: ``dim + min(dim (dim + 1) / 2, r dim)``."""
    rank, dim = factor.shape
    return dim + min(dim * (dim + 1) // 2, rank * dim)
