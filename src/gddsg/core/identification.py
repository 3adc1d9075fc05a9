"""Which class group does an input belong to? By the evidence for its classes, or by classifiers on distances."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from gddsg.core.calibration import pseudo_features
from gddsg.core.discriminant import Discriminant
from gddsg.errors import MissingExtraError

Identification = Literal["evidence", "vote", "forest", "knn", "lightgbm", "tree", "mlp"]

VOTERS: dict[str, tuple[str, ...]] = {
    "vote": ("forest", "knn", "lightgbm"),
    "forest": ("forest",),
    "knn": ("knn",),
    "lightgbm": ("lightgbm",),
    "tree": ("tree",),
    "mlp": ("mlp",),
}
"""Which classifiers an identification asks: the paper's vote of three, or one alone."""

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
    """M_g of the paper: classifiers of the group on ρ(x), whose probabilities are averaged with equal weights.

    No sample is kept, so they learn from pseudo-features drawn from the cards.

    Parameters
    ----------
    discriminant : of all classes; it draws the pseudo-features.
    group_of_class : ``(n_classes,)``.
    seed : of the draws and of the classifiers.
    members : names of the classifiers, as :data:`VOTERS` has them.
    """

    discriminant: Discriminant
    group_of_class: Tensor
    seed: int
    members: tuple[str, ...] = VOTERS["vote"]

    def __post_init__(self) -> None:
        vectors, classes = pseudo_features(self.discriminant, _VOTE_SAMPLES, self.seed)
        rho, groups = meta_features(vectors, self.discriminant.means), self.group_of_class[classes].numpy()
        single = int(self.group_of_class.max()) == 0
        self._voters = [] if single else [_fitted(_voter(name, self.seed), rho, groups) for name in self.members]

    def probabilities(self, vectors: Tensor) -> Tensor:
        """Group probabilities ``(n, n_groups)``."""
        if not self._voters:
            return torch.ones(len(vectors), 1, dtype=torch.float64)
        rho = meta_features(vectors, self.discriminant.means)
        votes = [torch.from_numpy(np.asarray(voter.predict_proba(rho), dtype=np.float64)) for voter in self._voters]
        return torch.stack(votes).mean(0)


def _fitted(voter: Any, rho: np.ndarray[Any, Any], groups: np.ndarray[Any, Any]) -> Any:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a network that stops early still votes
        return voter.fit(rho, groups)


def _voter(name: str, seed: int) -> Any:
    """An unfitted classifier; imported here, since few models vote and all would wait."""
    if name == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(n_estimators=200, bootstrap=False, random_state=seed, n_jobs=1)
    if name == "knn":
        from sklearn.neighbors import KNeighborsClassifier

        return KNeighborsClassifier(n_neighbors=3, weights="distance")
    if name == "tree":
        from sklearn.tree import DecisionTreeClassifier

        return DecisionTreeClassifier(random_state=seed)
    return _multilayer_perceptron(seed) if name == "mlp" else _boosting(seed)


def _multilayer_perceptron(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # distances all lie far from zero and close together: a network learns nothing from them as they are, and slowly
    network = MLPClassifier(hidden_layer_sizes=(100,), learning_rate_init=0.01, max_iter=200, random_state=seed)
    return make_pipeline(StandardScaler(), network)


def _boosting(seed: int) -> Any:
    try:
        from lightgbm import LGBMClassifier
    except ImportError as error:
        raise MissingExtraError(
            "Identification by 'vote' or 'lightgbm' needs LightGBM, which is not installed. "
            "Install it with: pip install 'gddsg[vote]'"
        ) from error
    return LGBMClassifier(
        n_estimators=50, num_leaves=31, learning_rate=0.1, random_state=seed, n_jobs=1, deterministic=True, verbose=-1
    )
