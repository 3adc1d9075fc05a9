"""RanPAC, phase 2: one ridge head for all classes on random projections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gddsg.core.content_hash import hash_rows, is_held_out
from gddsg.core.decompositions import symmetric_solve
from gddsg.core.label import Label
from gddsg.core.once import Carried
from gddsg.core.projection import project
from gddsg.core.transform import View
from gddsg.learners.base import Learnt, ProjectionLearner

REGULARISATIONS = tuple(10.0**k for k in range(-8, 9))
_ROWS_AT_ONCE = 4096
_SCORE_SCALE = 10.0  # ridge scores regress 0 and 1: unscaled, no probability would exceed e / (e + n_classes - 1)


@dataclass(frozen=True, eq=False)
class RidgeSums:
    """Running sums of projected features, those learnt from and those held out.

    Attributes
    ----------
    grams : Tensor
        ``(2, M, M)`` float64: of the learnt share, of the held-out share.
    projected : mapping of int or str to Tensor
        ``(2, M)`` float64 by class.
    """

    grams: Tensor
    projected: Mapping[Label, Tensor]

    @classmethod
    def empty(cls, M: int) -> RidgeSums:
        """Of no sample."""
        return cls(torch.zeros(2, M, M, dtype=torch.float64), {})

    def plus(self, features: Tensor, labels: Sequence[Label], M: int, seed: int) -> RidgeSums:
        """These and those of a batch."""
        names = sorted(set(labels))
        held = is_held_out(hash_rows(features)).to(features.device)
        targets = torch.tensor([[label == name for name in names] for label in labels]).to(features.device).double()
        # float64: in float32 the Gram matrix, and with it a probability, would depend on which samples came together
        grams, sums = targets.new_zeros(2, M, M), targets.new_zeros(2, len(names), M)  # learnt share, held-out share
        for rows in torch.arange(len(features), device=features.device).split(_ROWS_AT_ONCE):
            projected = project(features[rows].double(), M, seed)
            for share, chosen in enumerate((~held[rows], held[rows])):
                grams[share] += projected[chosen].T @ projected[chosen]
                sums[share] += targets[rows][chosen].T @ projected[chosen]
        own = {name: self.projected.get(name, 0) + sums[:, i].cpu() for i, name in enumerate(names)}
        return RidgeSums(self.grams + grams.cpu(), {**self.projected, **own})

    def of_classes(self, labels: Sequence[Label]) -> Tensor:
        """``(2, M, n_classes)`` in the order of ``labels``."""
        return torch.stack([self.projected[label] for label in labels], dim=2)


State = Carried[RidgeSums, Tensor]  # sums and weights (M, n_classes)


class RanPAC(ProjectionLearner[State]):
    """Ridge regression on ``relu(x W)`` from running sums (McDonnell et al., NeurIPS 2023), without first-task tuning.

    The original picks λ on the last fifth of the current task, so that its result depends on which task came last.
    Here a fifth of all samples, chosen by a hash of their content, gives held-out sums: λ sees every task, and the
    result does not depend on the order of classes.

    Parameters
    ----------
    projection_dim : int
        M, width of the random projection; the paper's 10,000. A narrower one takes a fraction of the time.
    regularisation : float or None
        λ; ``None`` picks it from 1e-8 … 1e8 by squared error on the held-out sums.
    seed : int
        Of the projection.
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the arithmetic.

    Examples
    --------
    >>> RanPAC(projection_dim=32).fit([[1.0, 0.0], [0.0, 1.0]], [7, 8]).predict([[0.2, 0.9]])
    [8]

    References
    ----------
    https://arxiv.org/abs/2307.02251
    """

    fixed_by_learning = ("projection_dim", "seed", "regularisation", "view")
    calibrated: ClassVar[bool] = False

    def __init__(
        self,
        projection_dim: int = 10_000,
        regularisation: float | None = None,
        seed: int = 0,
        view: View = "raw",
        device: str = "cpu",
    ) -> None:
        self.projection_dim = projection_dim
        self.regularisation = regularisation
        self.seed = seed
        self.view = view
        self.device = device

    def state_bytes(self) -> int:
        """One Gram matrix and the class sums in float32: the original keeps no held-out sums."""
        learnt = self._current()
        return 0 if learnt is None else 4 * self.projection_dim * (self.projection_dim + len(learnt.classes))

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        known = RidgeSums.empty(self.projection_dim) if state is None else state.kept
        return Carried(known.plus(inputs, labels, self.projection_dim, self.seed))

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        weights = learnt.state.derived.get(lambda: self._solve(learnt))
        projected = project(inputs.cpu().double(), self.projection_dim, self.seed)
        return (_SCORE_SCALE * projected @ weights).log_softmax(1)

    def _solve(self, learnt: Learnt[State]) -> Tensor:
        grams, sums = learnt.state.kept.grams, learnt.state.kept.of_classes(learnt.classes.tolist())
        regularisation = self.regularisation
        if regularisation is None:
            regularisation = choose_regularisation(grams, sums)
        return ridge_weights(grams[0] + grams[1], sums.sum(0), regularisation)


def choose_regularisation(grams: Tensor, sums: Tensor) -> float:
    """Walk down the held-out error over the grid from its middle; it has one valley.

    Parameters
    ----------
    grams : Tensor
        ``(2, M, M)``, of the learnt and of the held-out share.
    sums : Tensor
        ``(2, M, n_classes)``.
    """
    gram, held_gram = grams

    def held_out_error(k: int) -> float:
        theta = ridge_weights(gram, sums[0], REGULARISATIONS[k])
        return float((theta * (held_gram @ theta)).sum() - 2 * (theta * sums[1]).sum())

    scale = max(float(gram.diagonal().mean()), 1e-8)
    start = int(np.argmin([abs(np.log10(r / scale)) for r in REGULARISATIONS]))
    errors = {k: held_out_error(k) for k in {max(start - 1, 0), start}}
    step = 1 if errors[start] <= errors[max(start - 1, 0)] else -1
    best = min(errors, key=lambda k: errors[k])
    while 0 <= best + step < len(REGULARISATIONS):
        errors[best + step] = held_out_error(best + step)
        if errors[best + step] >= errors[best]:
            break
        best += step
    return REGULARISATIONS[best]


def ridge_weights(gram: Tensor, cross_correlation: Tensor, regularisation: float) -> Tensor:
    """``(Gram + λ I)⁻¹ C``."""
    shifted = gram.clone()
    shifted.diagonal().add_(regularisation)
    return symmetric_solve(shifted, cross_correlation)
