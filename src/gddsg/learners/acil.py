"""ACIL: least squares on a random layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gddsg.core.decompositions import symmetric_solve
from gddsg.core.label import Label
from gddsg.core.once import Carried
from gddsg.core.projection import project
from gddsg.core.transform import View
from gddsg.learners.base import Learnt, ProjectionLearner

_ROWS_AT_ONCE = 4096
_SCORE_SCALE = 20.0  # ridge scores regress 0 and 1: unscaled, no probability would exceed e / (e + n_classes - 1)


@dataclass(frozen=True, eq=False)
class HiddenSums:
    """Running sums of the random layer.

    Attributes
    ----------
    gram : Tensor
        ``HᵀH``, ``(M, M)`` float64.
    hidden_sums : mapping of int or str to Tensor
        Columns of ``HᵀY``, ``(M,)`` float64 by class.
    """

    gram: Tensor
    hidden_sums: Mapping[Label, Tensor]


State = Carried[HiddenSums, Tensor]  # the sums, and the weights (M, n_classes)


class ACIL(ProjectionLearner[State]):
    """Analytic class-incremental learning (Zhuang et al., NeurIPS 2022) on frozen features.

    A random layer ``h = relu(x W)`` and a least-squares classifier ``Θ = (HᵀH + γ I)⁻¹ HᵀY``: ridge regression on all
    samples at once, with λ = γ fixed from the beginning. As in the original the random layer has entries of variance
    ``1 / (3 n_features)``, which gives γ its scale.

    The original keeps the inverse ``R = (HᵀH + γ I)⁻¹``, updates it batch by batch,
    ``R ← R - R Hᵀ (I + H R Hᵀ)⁻¹ H R``, and the weights along with it. Here the sums ``HᵀH`` and ``HᵀY`` are kept and
    the weights computed when needed: the same ones, without the rounding that such updates pile up, which for features
    of large values would leave nothing of R.

    Parameters
    ----------
    projection_dim : int
        M, width of the random layer; the original's is 8192.
    regularisation : float
        γ; the original's 0.1.
    seed : int
        Of the random layer.
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the arithmetic.

    Examples
    --------
    >>> ACIL(projection_dim=32).fit([[1.0, 0.0], [0.0, 1.0]], [7, 8]).predict([[0.2, 0.9]])
    [8]

    References
    ----------
    https://arxiv.org/abs/2205.14922
    """

    fixed_by_learning = ("projection_dim", "seed", "regularisation", "view")
    calibrated: ClassVar[bool] = False

    def __init__(
        self,
        projection_dim: int = 2_000,
        regularisation: float = 0.1,
        seed: int = 0,
        view: View = "raw",
        device: str = "cpu",
    ) -> None:
        self.projection_dim = projection_dim
        self.regularisation = regularisation
        self.seed = seed
        self.view = view
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("regularisation", 1e-9, 1e12)

    def state_bytes(self) -> int:
        """One matrix of the random layer and the weights in float32."""
        learnt = self._current()
        return 0 if learnt is None else 4 * self.projection_dim * (self.projection_dim + len(learnt.classes))

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        M, names = self.projection_dim, sorted(set(labels))
        known = HiddenSums(torch.zeros(M, M, dtype=torch.float64), {}) if state is None else state.kept
        position = {name: i for i, name in enumerate(names)}
        classes = torch.tensor([position[label] for label in labels], device=inputs.device)
        new, gram = known.gram.new_zeros(len(names), M, device=inputs.device), known.gram.to(inputs.device, copy=True)
        for rows, own in zip(inputs.split(_ROWS_AT_ONCE), classes.split(_ROWS_AT_ONCE), strict=True):
            hidden = self._hidden(rows)
            new.index_add_(0, own, hidden)
            gram.addmm_(hidden.T, hidden)
        own_sums = {name: known.hidden_sums.get(name, 0) + new[i].cpu() for name, i in position.items()}
        return Carried(HiddenSums(gram.cpu(), {**known.hidden_sums, **own_sums}))

    def _hidden(self, features: Tensor) -> Tensor:
        """``relu(x W)`` with entries of W of variance ``1 / (3 n_features)``, float64."""
        return project(features.double(), self.projection_dim, self.seed).div_((3 * features.shape[1]) ** 0.5)

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        weights = learnt.state.derived.get(lambda: self._weights(learnt))
        chunks = inputs.cpu().split(_ROWS_AT_ONCE)
        return torch.cat([(_SCORE_SCALE * self._hidden(chunk) @ weights).log_softmax(1) for chunk in chunks])

    def _weights(self, learnt: Learnt[State]) -> Tensor:
        """``Θ = (HᵀH + γ I)⁻¹ HᵀY``."""
        known = learnt.state.kept
        regularised = known.gram.clone()
        regularised.diagonal().add_(self.regularisation)
        sums = torch.stack([known.hidden_sums[label] for label in learnt.classes.tolist()], dim=1)
        return symmetric_solve(regularised, sums)
