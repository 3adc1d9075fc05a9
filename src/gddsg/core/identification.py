"""Which class group does an input belong to? By the evidence for its classes, or by the paper's soft vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gddsg.core.calibration import pseudo_features
from gddsg.core.discriminant import Discriminant
from gddsg.errors import MissingExtraError

_VOTE_SAMPLES = 30


def group_probabilities(class_probabilities: Tensor, group_of_class: Tensor) -> Tensor:
    """``(n, n_classes)`` to ``(n, n_groups)``: a group is as probable as its classes together."""
    groups = int(group_of_class.max()) + 1
    out = torch.zeros(len(class_probabilities), groups, dtype=class_probabilities.dtype)
    return out.index_add_(1, group_of_class, class_probabilities)


def group_counts(chosen: Tensor, group_of_class: Tensor) -> Tensor:
    """How many classes of each group are ``chosen`` (bool ``(n, n_classes)``), row by row."""
    return group_probabilities(chosen.to(torch.int32), group_of_class)


def meta_features(vectors: Tensor, prototypes: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """ρ(x): distances ``(n, n_classes)`` to the prototypes of **all** classes seen so far."""
    distances: np.ndarray[Any, np.dtype[np.float64]] = torch.cdist(vectors.double(), prototypes.double()).numpy()
    return distances


@dataclass(eq=False)
class SoftVote:
    """M_g of the paper: random forest, nearest neighbours and gradient boosting, averaged with equal weights.

    No sample is kept, so the three learn from pseudo-features drawn from the cards.
    """

    discriminant: Discriminant
    group_of_class: Tensor
    seed: int

    def __post_init__(self) -> None:
        vectors, classes = pseudo_features(self.discriminant, _VOTE_SAMPLES, self.seed)
        rho, groups = meta_features(vectors, self.discriminant.means), self.group_of_class[classes].numpy()
        self._groups = int(self.group_of_class.max()) + 1
        self._voters = [] if self._groups == 1 else [voter.fit(rho, groups) for voter in _voters(self.seed)]

    def probabilities(self, vectors: Tensor) -> Tensor:
        """Group probabilities ``(n, n_groups)``."""
        if not self._voters:
            return torch.ones(len(vectors), 1, dtype=torch.float64)
        rho = meta_features(vectors, self.discriminant.means)
        votes = [torch.from_numpy(np.asarray(voter.predict_proba(rho), dtype=np.float64)) for voter in self._voters]
        return torch.stack(votes).mean(0)


def _voters(seed: int) -> list[Any]:
    # here, since few models vote and all would wait for these imports
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.neighbors import KNeighborsClassifier

    try:
        from lightgbm import LGBMClassifier
    except ImportError as error:
        raise MissingExtraError(
            "identification='vote' needs LightGBM, which is not installed. Install it with: pip install 'gddsg[vote]'"
        ) from error
    boosting = LGBMClassifier(
        n_estimators=50, num_leaves=31, learning_rate=0.1, random_state=seed, n_jobs=1, deterministic=True, verbose=-1
    )
    return [
        RandomForestClassifier(n_estimators=200, bootstrap=False, random_state=seed, n_jobs=1),
        KNeighborsClassifier(n_neighbors=3, weights="distance"),
        boosting,
    ]
