"""JointRidge: ridge regression on all samples at once, an upper bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gddsg.core.decompositions import symmetric_eigen
from gddsg.core.kept_samples import KeptSamples
from gddsg.core.label import Label
from gddsg.core.once import Carried
from gddsg.core.standardised import StandardisedRoot
from gddsg.learners.base import FeatureLearner, Learnt

REGULARISATION_GRID = tuple(10 ** (k / 2) for k in range(4, -11, -1))
"""Candidates for λ, the strongest first, relative to the mean eigenvalue of the Gram matrix."""

_ROWS_AT_ONCE = 4096
_SCORE_SCALE = 20.0  # ridge scores regress 0 and 1: unscaled, no probability would exceed e / (e + n_classes - 1)


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """What prediction needs.

    Attributes
    ----------
    standardised : StandardisedRoot
        How features are standardised.
    weights : Tensor
        ``(n_features, n_classes)`` float64.
    intercepts : Tensor
        ``(n_classes,)`` float64.
    """

    standardised: StandardisedRoot
    weights: Tensor
    intercepts: Tensor


State = Carried[KeptSamples, RidgeFit]


class JointRidge(FeatureLearner[State]):
    """Ridge regression of the class indicators on standardised root features, with all samples of all batches at hand.

    Not incremental: it keeps every sample and solves anew whenever it is asked after a batch. It stands for what a
    linear least-squares classifier on these features can do at best. λ is the one with the least generalised
    cross-validation error, the closed form that stands in for leaving samples out one at a time.

    Examples
    --------
    >>> JointRidge().partial_fit([[1.0, 0.0], [0.8, 0.1]], ["cat", "cat"]).partial_fit([[0.0, 1.0]], ["dog"]).predict(
    ...     [[0.1, 0.7]]
    ... )
    ['dog']

    References
    ----------
    Golub, Heath and Wahba, "Generalized Cross-Validation as a Method for Choosing a Good Ridge Parameter", 1979.
    https://doi.org/10.1080/00401706.1979.10489751
    """

    exemplar_free: ClassVar[bool] = False
    incremental: ClassVar[bool] = False
    calibrated: ClassVar[bool] = False
    exempt: ClassVar[Mapping[str, str]] = {"state_does_not_grow_with_samples": "an upper bound keeps every sample"}

    def state_bytes(self) -> int:
        """All samples in float32."""
        learnt = self._current()
        return 0 if learnt is None else learnt.state.kept.nbytes

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        known = KeptSamples() if state is None else state.kept
        return Carried(known.plus(inputs, labels))

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        fit = learnt.state.derived.get(lambda: fit_ridge(*learnt.state.kept.joined(learnt.classes.tolist())))
        chunks = inputs.cpu().double().split(_ROWS_AT_ONCE)
        scores = torch.cat([fit.standardised(chunk) @ fit.weights for chunk in chunks])
        return (_SCORE_SCALE * (scores + fit.intercepts)).log_softmax(1)


def fit_ridge(features: Tensor, classes: Tensor) -> RidgeFit:
    """Ridge regression of the class indicators on all samples.

    Parameters
    ----------
    features : Tensor
        ``(n, n_features)`` float32.
    classes : Tensor
        ``(n,)``, index of the class of each sample.
    """
    standardised, n = StandardisedRoot.of(features), len(features)
    shares = torch.bincount(classes).double() / n  # means of the indicators, hence the intercepts
    gram = torch.zeros(features.shape[1], features.shape[1], dtype=torch.float64)
    cross = torch.zeros(features.shape[1], len(shares), dtype=torch.float64)
    for rows, own in zip(features.split(_ROWS_AT_ONCE), classes.split(_ROWS_AT_ONCE), strict=True):
        Z = standardised(rows.double())
        gram.addmm_(Z.T, Z)
        cross.addmm_(Z.T, torch.nn.functional.one_hot(own, len(shares)) - shares)
    energy = n - n * float(shares.square().sum())  # ‖Y‖² of the centred indicators
    return RidgeFit(standardised, ridge_by_cross_validation(gram, cross, n, energy), shares)


def ridge_by_cross_validation(gram: Tensor, cross: Tensor, n: int, energy: float) -> Tensor:
    """``(ZᵀZ + λ I)⁻¹ ZᵀY`` with the λ of the least ``n ‖Y - H Y‖² / (n - 1 - tr H)²``, ``H = Z (ZᵀZ + λ I)⁻¹ Zᵀ``.

    ``gram`` is ZᵀZ, ``cross`` ZᵀY and ``energy`` ‖Y‖² of centred Z and Y; the 1 is the intercept. In the basis of
    ZᵀZ with eigenvalues v, and c_j the j-th row of ``cross``, ``tr H = Σ v / (v + λ)`` and
    ``‖Y - H Y‖² = ‖Y‖² - Σ_j ‖c_j‖² (v_j + 2λ) / (v_j + λ)²``.
    """
    values, basis = symmetric_eigen(gram)
    values, rotated = values.clamp(min=0), basis.T @ cross
    squares, scale = rotated.square().sum(1), float(values.mean()) or 1.0

    def error(regularisation: float) -> float:
        shifted = values + regularisation
        residual = max(energy - float((squares * (shifted + regularisation) / shifted.square()).sum()), 0.0)
        return residual / max(n - 1 - float((values / shifted).sum()), 1e-9) ** 2

    chosen = min((scale * relative for relative in REGULARISATION_GRID), key=error)
    weights: Tensor = basis @ (rotated / (values + chosen)[:, None])
    return weights
