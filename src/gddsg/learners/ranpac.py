"""RanPAC, phase 2: one ridge head for all classes on random projections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gddsg.core.class_card import content_hash, held_out_rows
from gddsg.core.projection import project
from gddsg.core.similarity_graph import Label
from gddsg.learners.base import Learner

REGULARISATIONS = tuple(10.0**k for k in range(-8, 9))
_ROWS_AT_ONCE = 4096
_SCORE_SCALE = 10.0  # ridge scores regress 0 and 1: unscaled, no probability would exceed e / (e + n_classes - 1)


class RanPAC(Learner):
    """Ridge regression on ``relu(x W)`` from running sums (McDonnell et al., NeurIPS 2023), without first-task tuning.

    The original picks λ on the last fifth of the current task, so that its result depends on which task came last.
    Here a fifth of all samples, chosen by a hash of their content, gives held-out sums: λ sees every task, and the
    result does not depend on the order of classes.

    Parameters
    ----------
    projection_dim : M, width of the random projection.
    regularisation : λ; ``None`` picks it from 1e-8 … 1e8 by squared error on the held-out sums.
    seed : of the projection.
    device : torch device for the arithmetic.

    Examples
    --------
    >>> RanPAC(projection_dim=32).fit([[1.0, 0.0], [0.0, 1.0]], [7, 8]).predict([[0.2, 0.9]])
    [8]

    References
    ----------
    https://arxiv.org/abs/2307.02251
    """

    def __init__(
        self, projection_dim: int = 2_000, regularisation: float | None = None, seed: int = 0, device: str = "cpu"
    ) -> None:
        self.projection_dim = projection_dim
        self.regularisation = regularisation
        self.seed = seed
        self.device = device

    def _learn(self, features: Tensor, labels: Sequence[Label]) -> None:
        names, M = sorted(set(labels)), self.projection_dim
        held = held_out_rows(content_hash(features)).to(features.device)
        targets = torch.tensor([[label == name for name in names] for label in labels]).to(features.device).double()
        # float64: in float32 the Gram matrix, and with it a probability, would depend on which samples came together
        grams, sums = targets.new_zeros(2, M, M), targets.new_zeros(2, len(names), M)  # learnt share, held-out share
        for rows in torch.arange(len(features), device=features.device).split(_ROWS_AT_ONCE):
            projected = project(features[rows].double(), M, self.seed)
            for share, chosen in enumerate((~held[rows], held[rows])):
                grams[share] += projected[chosen].T @ projected[chosen]
                sums[share] += targets[rows][chosen].T @ projected[chosen]
        known = getattr(self, "projected_sums_", {})
        nothing = torch.zeros(2, M, dtype=torch.float64)
        own = {name: known.get(name, nothing) + sums[:, i].cpu() for i, name in enumerate(names)}
        self.grams_ = getattr(self, "grams_", torch.zeros(2, M, M, dtype=torch.float64)) + grams.cpu()
        self.projected_sums_ = {**known, **own}
        self._memo: dict[str, Tensor] = {}

    def _log_probabilities(self, features: Tensor) -> Tensor:
        if "weights" not in self._memo:
            self._memo["weights"] = self._solve()
        projected = project(features.cpu().double(), self.projection_dim, self.seed)
        return (_SCORE_SCALE * projected @ self._memo["weights"]).log_softmax(1)

    def _solve(self) -> Tensor:
        sums = torch.stack([self.projected_sums_[label] for label in self.classes_.tolist()], dim=2)  # (2, M, C)
        regularisation = self.regularisation
        if regularisation is None:
            regularisation = self._choose_regularisation(sums)
        return ridge_weights(self.grams_[0] + self.grams_[1], sums.sum(0), regularisation)

    def _choose_regularisation(self, sums: Tensor) -> float:
        """Walk down the held-out error over the grid from its middle; it has one valley."""
        gram, held_gram = self.grams_

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
    factor, failed = torch.linalg.cholesky_ex(shifted)
    if int(failed):  # a λ too small for the rounding of this Gram matrix: solve in the least-squares sense
        solution: Tensor = torch.linalg.lstsq(shifted, cross_correlation, driver="gelsd").solution
        return solution
    return torch.cholesky_solve(cross_correlation, factor)
