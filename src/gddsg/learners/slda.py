"""SLDA: class means and one covariance for all classes, from running sums."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from gddsg.core.label import Label
from gddsg.core.linear_discriminant import LinearDiscriminant, WithinScatter
from gddsg.core.once import Carried
from gddsg.core.transform import View
from gddsg.learners.base import FeatureLearner, Learnt

State = Carried[WithinScatter, LinearDiscriminant]


class SLDA(FeatureLearner[State]):
    """Streaming linear discriminant analysis (Hayes and Kanan, "Lifelong Machine Learning with Deep SLDA", 2020).

    ``score_c = x·Λμ_c - ½ μ_cᵀΛμ_c`` with ``Λ = ((1-ε) Σ + ε I)⁻¹``; classes are equally likely beforehand.

    The original adds each sample's outer product about the class mean *before* that sample, and about zero for the
    first sample of a class, so that its Σ depends on the order of samples; it may also start from a shrunk estimate
    on a first batch. Here Σ is the scatter of all samples about the final means of their classes, divided by their
    number, from running sums: what the streaming rule approximates, whatever the order.

    Parameters
    ----------
    shrinkage : float
        ε, towards the identity; the paper's 1e-4.
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the arithmetic.

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

    fixed_by_learning = ("shrinkage", "view")

    def __init__(self, shrinkage: float = 1e-4, view: View = "raw", device: str = "cpu") -> None:
        self.shrinkage = shrinkage
        self.view = view
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("shrinkage", 1e-12, 1.0)

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        known = WithinScatter.empty(inputs.shape[1]) if state is None else state.kept
        return Carried(known.plus(inputs, labels))

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        discriminant = learnt.state.derived.get(lambda: self._discriminant(learnt))
        return discriminant.log_probabilities(inputs.cpu())

    def _discriminant(self, learnt: Learnt[State]) -> LinearDiscriminant:
        within = learnt.state.kept
        shrunk = (1 - self.shrinkage) * within.covariance
        shrunk.diagonal().add_(self.shrinkage)
        return LinearDiscriminant.of(within.means(learnt.classes.tolist()), shrunk)
