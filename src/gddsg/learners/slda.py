"""SLDA: class means and one covariance for all classes, from running sums."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from gddsg.core.linear_discriminant import LinearDiscriminant, WithinScatter
from gddsg.core.similarity_graph import Label
from gddsg.learners.base import Learner


class SLDA(Learner):
    """Streaming linear discriminant analysis (Hayes and Kanan, "Lifelong Machine Learning with Deep SLDA", 2020).

    ``score_c = x·Λμ_c - ½ μ_cᵀΛμ_c`` with ``Λ = ((1-ε) Σ + ε I)⁻¹``; classes are equally likely beforehand.

    The original adds each sample's outer product about the class mean *before* that sample, and about zero for the
    first sample of a class, so that its Σ depends on the order of samples; it may also start from a shrunk estimate
    on a first batch. Here Σ is the scatter of all samples about the final means of their classes, divided by their
    number, from running sums: what the streaming rule approximates, whatever the order.

    Parameters
    ----------
    projection_dim, seed : not used; here so that all learners are built alike.
    shrinkage : ε, towards the identity; the paper's 1e-4.
    device : torch device for the arithmetic.

    Examples
    --------
    >>> SLDA().partial_fit([[1.0, 0.0], [0.8, 0.1]], ["cat", "cat"]).partial_fit([[0.0, 1.0]], ["dog"]).predict(
    ...     [[0.1, 0.7]]
    ... )
    ['dog']

    References
    ----------
    https://arxiv.org/abs/1909.01520
    """

    fixed_by_learning = ("projection_dim", "seed", "shrinkage")
    within_: WithinScatter

    def __init__(
        self, projection_dim: int = 2_000, shrinkage: float = 1e-4, seed: int = 0, device: str = "cpu"
    ) -> None:
        self.projection_dim = projection_dim
        self.shrinkage = shrinkage
        self.seed = seed
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("shrinkage", 1e-12, 1.0)

    def _learn(self, features: Tensor, labels: Sequence[Label]) -> None:
        known = getattr(self, "within_", None) or WithinScatter.empty(features.shape[1])
        self.within_ = known.plus(features, labels)
        self._memo: dict[str, LinearDiscriminant] = {}

    def _log_probabilities(self, features: Tensor) -> Tensor:
        if "discriminant" not in self._memo:
            self._memo["discriminant"] = self._discriminant()
        return self._memo["discriminant"].log_probabilities(features.cpu())

    def _discriminant(self) -> LinearDiscriminant:
        shrunk = (1 - self.shrinkage) * self.within_.covariance
        shrunk.diagonal().add_(self.shrinkage)
        return LinearDiscriminant.of(self.within_.means(self.classes_.tolist()), shrunk)
