"""SimpleCIL: the class mean is the classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gddsg.core.similarity_graph import Label
from gddsg.core.transform import unit
from gddsg.learners.base import Learner

_COSINE_SCALE = 16.0  # cosines lie within 1 of each other: unscaled, every probability would be near 1 / n_classes


class SimpleCIL(Learner):
    """Nearest class mean by cosine on frozen features (Zhou et al., "Revisiting Class-Incremental Learning", 2023).

    Parameters
    ----------
    projection_dim, seed : not used; here so that all learners are built alike.
    device : torch device for the arithmetic.

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

    def __init__(self, projection_dim: int = 2_000, seed: int = 0, device: str = "cpu") -> None:
        self.projection_dim = projection_dim
        self.seed = seed
        self.device = device

    def _learn(self, features: Tensor, labels: Sequence[Label]) -> None:
        names = np.array(labels)
        sums: dict[Label, Any] = dict(getattr(self, "feature_sums_", {}))
        for label in sorted(set(labels)):
            rows = features[torch.from_numpy(names == label)]
            sums[label] = sums.get(label, 0) + rows.sum(0, dtype=torch.float64).cpu()
        self.feature_sums_ = sums

    def _log_probabilities(self, features: Tensor) -> Tensor:
        prototypes = unit(torch.stack([self.feature_sums_[label] for label in self.classes_.tolist()]))
        cosines = unit(features.cpu().double()) @ prototypes.T
        return (_COSINE_SCALE * cosines).log_softmax(1)
