"""LoRanPAC: least squares of least norm on a truncated decomposition of very wide random features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gddsg.core.by_class import rows_by_class
from gddsg.core.content_hash import hash_rows
from gddsg.core.growing_svd import GrowingSVD
from gddsg.core.label import Label
from gddsg.core.once import Carried
from gddsg.core.projection import projection_weights
from gddsg.core.transform import View
from gddsg.learners.base import Learnt, ProjectionLearner

_ROWS_AT_ONCE = 10_000
_UNITS_AT_ONCE = 4096
_SCORE_SCALE = 10.0  # scores regress 0 and 1: unscaled, no probability would exceed e / (e + n_classes - 1)


@dataclass(frozen=True, eq=False)
class LiftedSums:
    """What is known of the random features h of all samples.

    Attributes
    ----------
    directions : GrowingSVD
        The leading singular directions.
    sums : mapping of int or str to Tensor
        ``Σ h`` by class, ``(E,)`` float64.
    """

    directions: GrowingSVD
    sums: Mapping[Label, Tensor]


State = Carried[LiftedSums, Tensor]  # the sums, and the weights (E, n_classes)


class LoRanPAC(ProjectionLearner[State]):
    """Low-rank random features (Peng et al., ICLR 2025), without first-task tuning.

    Features are lifted to very many random units ``h = relu(x W)``, where least squares is all but singular. Of the
    singular value decomposition of all h only the larger singular values are kept, three quarters of n after n samples,
    and the classifier is the least-squares solution of least norm on them, ``Θ = U diag(σ)⁻² Uᵀ HᵀY``. U and σ are
    carried from task to task, and the decomposition of ``[U diag(σ), Hᵀ]`` is truncated again: so the result depends,
    a little, on the order in which classes come.

    The original finds the new directions by QR and decomposes a small matrix; here the Gram matrix of old directions
    and new samples is decomposed, which finds the same ones. As in the original more than 10,000 samples at once are
    taken in parts, in an order of chance; here also more than ``rank`` are, which saves time, and the order is that of
    hashes of their content.

    Time goes with the cube of ``rank`` plus the samples of a part, memory with ``projection_dim`` times ``rank``: a
    part of n samples needs about ``4 E (2 rank + n) + 32 (rank + n)²`` bytes, of which ``4 E rank`` are carried. The
    authors' own values ask for a GPU.

    Parameters
    ----------
    projection_dim : int
        E, the number of random units; the original's 100,000.
    truncation : float
        Share of singular values that is dropped; the original's 0.25.
    rank : int
        Singular values that are kept at most; the original's 10,000, on some sets 15,000 or 20,000.
    seed : int
        Of the random units.
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the arithmetic.

    Examples
    --------
    >>> LoRanPAC(projection_dim=32).fit([[1.0, 0.0], [0.0, 1.0]], [7, 8]).predict([[0.2, 0.9]])
    [8]

    References
    ----------
    https://arxiv.org/abs/2410.00645
    """

    calibrated: ClassVar[bool] = False
    fixed_by_learning = ("projection_dim", "seed", "truncation", "rank", "view")
    exempt: ClassVar[Mapping[str, str]] = {
        "arrival_order_does_not_matter": "what is truncated after one task is missing in the next, as published",
        "odd_classes_are_learnt": "of six samples in six classes four directions are kept, which cannot hold them all",
    }

    def __init__(
        self,
        projection_dim: int = 100_000,
        truncation: float = 0.25,
        rank: int = 10_000,
        seed: int = 0,
        view: View = "raw",
        device: str = "cpu",
    ) -> None:
        self.projection_dim = projection_dim
        self.truncation = truncation
        self.rank = rank
        self.seed = seed
        self.view = view
        self.device = device

    def state_bytes(self) -> int:
        """U ``(E, k)``, its k singular values and the class sums ``(E, n_classes)``, in float32."""
        learnt = self._current()
        if learnt is None:
            return 0
        rank, E = learnt.state.kept.directions.factor.shape
        return 4 * (E * (rank + len(learnt.classes)) + rank)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("truncation", 0.0, 0.99)
        self._check_whole("rank", 1)

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        known = LiftedSums(GrowingSVD.empty(self.projection_dim), {}) if state is None else state.kept
        directions, sums = known.directions, dict(known.sums)
        order = np.argsort(hash_rows(inputs), kind="stable")
        for start in range(0, len(order), min(self.rank, _ROWS_AT_ONCE)):
            part = order[start : start + min(self.rank, _ROWS_AT_ONCE)]
            lifted = torch.cat([units.float() for units in self._units(inputs[part])], dim=1)
            for label, rows in rows_by_class(lifted, [labels[i] for i in part]):
                sums[label] = sums.get(label, 0) + rows.sum(0, dtype=torch.float64).cpu()
            directions = directions.plus(lifted, self._rank_after(directions.count + len(part)))
        return Carried(LiftedSums(directions, sums))

    def _rank_after(self, count: int) -> int:
        """How many directions are kept of so many samples."""
        share = 1 - self.truncation
        return max(1, min(round(share * count), round(share * self.projection_dim), self.rank))

    def _units(self, features: Tensor) -> Iterator[Tensor]:
        """``relu(x W)`` in float64, some columns at a time."""
        weights = projection_weights(features.shape[1], self.projection_dim, self.seed)
        for columns in weights.split(_UNITS_AT_ONCE, dim=1):
            yield (features.double() @ columns.to(features.device).double()).relu_()

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        weights = learnt.state.derived.get(lambda: self._weights(learnt))
        parts = zip(self._units(inputs.cpu()), weights.split(_UNITS_AT_ONCE), strict=True)
        scores = sum((units @ own for units, own in parts), torch.zeros((), dtype=torch.float64))
        return (_SCORE_SCALE * scores).log_softmax(1)

    def _weights(self, learnt: Learnt[State]) -> Tensor:
        """``Θ = U diag(σ)⁻² Uᵀ HᵀY``."""
        known = learnt.state.kept
        return known.directions.least_squares(torch.stack([known.sums[c] for c in learnt.classes.tolist()], dim=1))
