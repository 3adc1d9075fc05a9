"""SLDA: class means and one covariance for all classes, from running sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from torch import Tensor

from gddsg.core.label import Label
from gddsg.core.linear_discriminant import (
    LinearDiscriminant,
    WithinScatter,
    oracle_approximating_shrinkage,
    shrunk_towards_sphere,
)
from gddsg.core.once import Carried
from gddsg.core.transform import View
from gddsg.learners.base import FeatureLearner, Learnt

State = Carried[WithinScatter, LinearDiscriminant]


class SLDA(FeatureLearner[State]):
    """Streaming linear discriminant analysis (Hayes and Kanan, "Lifelong Machine Learning with Deep SLDA", 2020).

    ``score_c = x·Λμ_c - ½ μ_cᵀΛμ_c`` with ``Λ`` the inverse of a shrunk covariance Σ; classes are equally likely
    beforehand.

    The original starts from a first batch, whose covariance it shrinks by the oracle approximating shrinkage (OAS), and
    adds each later sample's outer product about the class mean *before* that sample, so that its Σ depends on what came
    first. Here Σ is the scatter of all samples about the final means of their classes, divided by their number, from
    running sums, and OAS is that of all samples: what the original approximates, whatever the order. The original
    without a first batch, ``(1-ε) Σ + ε I`` with ε = 1e-4, is ``shrinkage=1e-4``.

    Parameters
    ----------
    shrinkage : float or "oas"
        ε, or the oracle approximating shrinkage, which follows from the traces of Σ and Σ² and the number of samples.
    relative : bool
        Whether a number ε shrinks towards the sphere ``tr(Σ)/p I``, as OAS does, and not towards the identity: then it
        means the same whatever the scale of the features.
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

    fixed_by_learning = ("shrinkage", "relative", "view")
    calibrated: ClassVar[bool] = False

    def __init__(
        self,
        shrinkage: float | Literal["oas"] = "oas",
        relative: bool = False,
        view: View = "raw",
        device: str = "cpu",
    ) -> None:
        self.shrinkage = shrinkage
        self.relative = relative
        self.view = view
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.shrinkage != "oas":
            self._check_number("shrinkage", 1e-12, 1.0)

    def state_bytes(self) -> int:
        """Class means and one covariance in float32."""
        learnt = self._current()
        if learnt is None:
            return 0
        dim = len(learnt.state.kept.scatter)
        return 4 * dim * (dim + len(learnt.classes))

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        known = WithinScatter.empty(inputs.shape[1]) if state is None else state.kept
        return Carried(known.plus(inputs, labels))

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        discriminant = learnt.state.derived.get(lambda: self._discriminant(learnt))
        return discriminant.log_probabilities(inputs.cpu())

    def _discriminant(self, learnt: Learnt[State]) -> LinearDiscriminant:
        within = learnt.state.kept
        means, covariance = within.means(learnt.classes.tolist()), within.covariance
        return LinearDiscriminant.of(means, self._shrunk(covariance, within.count, means))

    def _shrunk(self, covariance: Tensor, n: int, means: Tensor) -> Tensor:
        if self.shrinkage == "oas":
            return shrunk_towards_sphere(covariance, oracle_approximating_shrinkage(covariance, n), means)
        if self.relative:
            return shrunk_towards_sphere(covariance, self.shrinkage, means)
        shrunk = (1 - self.shrinkage) * covariance
        shrunk.diagonal().add_(self.shrinkage)
        return shrunk
