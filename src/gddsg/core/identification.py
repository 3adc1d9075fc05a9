"""Which class group does an input belong to? By the evidence for its classes, or by classifiers on distances."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gddsg.core.discriminant import Discriminant
from gddsg.core.novelty import pseudo_features
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


def meta_features(vectors: Tensor, prototypes: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """ρ(x): distances ``(n, n_classes)`` to the prototypes of **all** classes seen so far."""
    distances: np.ndarray[Any, np.dtype[np.float64]] = torch.cdist(vectors.double(), prototypes.double()).numpy()
    return distances


class SoftVote:
    """M_g of the paper: classifiers of the group on ρ(x), whose probabilities are averaged with equal weights.

    No sample is kept, so they learn from pseudo-features drawn from the cards.

    Parameters
    ----------
    discriminant : Discriminant
        Of all classes; its metric draws the pseudo-features.
    group_of_class : ndarray
        ``(n_classes,)``, in the discriminant's order.
    seed : int
        Of the draws and of the classifiers.
    members : tuple of str
        Names of the classifiers, as :data:`VOTERS` has them.
    """

    def __init__(
        self,
        discriminant: Discriminant,
        group_of_class: NDArray[np.intp],
        seed: int,
        members: tuple[str, ...] = VOTERS["vote"],
    ) -> None:
        vectors, drawn_from = pseudo_features(discriminant.metric, _VOTE_SAMPLES, seed)
        place = {card.key: column for column, card in enumerate(discriminant.cards)}
        classes = np.array([place[card.key] for card in discriminant.metric.sample])[drawn_from.numpy()]
        self._prototypes = discriminant.prototypes()
        rho, groups = meta_features(vectors, self._prototypes), group_of_class[classes]
        self._groups = np.unique(groups)
        self._n_groups = int(group_of_class.max()) + 1
        single = len(self._groups) == 1
        self._voters = [] if single else [_fitted(_voter(name, seed), rho, groups) for name in members]

    def probabilities(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Group probabilities ``(n, n_groups)``."""
        out = np.zeros((len(vectors), self._n_groups))
        if not self._voters:
            out[:, self._groups] = 1.0
            return out
        rho = meta_features(torch.from_numpy(vectors), self._prototypes)
        votes = [np.asarray(voter.predict_proba(rho), dtype=np.float64) for voter in self._voters]
        out[:, self._groups] = np.mean(votes, axis=0)
        return out


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
