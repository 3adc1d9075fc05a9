"""SimpleCIL: the class mean is the classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from gddsg.core.by_class import rows_by_class
from gddsg.core.class_means import COSINE_SCALE, cosines
from gddsg.core.label import Label
from gddsg.core.transform import View
from gddsg.learners.base import FeatureLearner, Learnt


class SimpleCIL(FeatureLearner[Mapping[Label, Tensor]]):
    """Nearest class mean by cosine on frozen features (Zhou et al., "Revisiting Class-Incremental Learning", 2023).

    Parameters
    ----------
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the arithmetic.

    Examples
    --------
    >>> SimpleCIL().partial_fit([[1.0, 0.0], [0.9, 0.1]], ["cat", "cat"]).partial_fit([[0.0, 1.0]], ["dog"]).predict(
    ...     [[0.2, 0.8]]
    ... )
    ['dog']

    References
    ----------
    https://arxiv.org/abs/2303.07338
    """

    fixed_by_learning = ("view",)
    calibrated: ClassVar[bool] = False

    def __init__(self, view: View = "raw", device: str = "cpu") -> None:
        self.view = view
        self.device = device

    def state_bytes(self) -> int:
        """Class means in float32."""
        learnt = self._current()
        return 0 if learnt is None else 4 * len(learnt.classes) * int(learnt.columns["n_features_in_"])

    def _next_state(
        self, state: Mapping[Label, Tensor] | None, inputs: Tensor, labels: Sequence[Label]
    ) -> Mapping[Label, Tensor]:
        """Sums of features by class, ``(n_features,)`` float64 each."""
        sums = dict(state or {})
        for label, rows in rows_by_class(inputs, labels):
            sums[label] = sums.get(label, 0) + rows.sum(0, dtype=torch.float64).cpu()
        return sums

    def _log_probabilities(self, learnt: Learnt[Mapping[Label, Tensor]], inputs: Tensor) -> Tensor:
        prototypes = torch.stack([learnt.state[label] for label in learnt.classes.tolist()])
        return (COSINE_SCALE * cosines(inputs.cpu(), prototypes)).log_softmax(1)
