"""Which class group does an input belong to? By the evidence for its classes, or by classifiers on distances."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gddsg.core.discriminant import Discriminant
from gddsg.core.known_inputs import pseudo_features
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

BOOSTING: Mapping[str, Any] = {"n_estimators": 50, "num_leaves": 31, "learning_rate": 0.1}
"""LightGBM of GDDSG, smaller than in the released code, which :data:`RELEASED_BOOSTING` has."""

RELEASED_BOOSTING: Mapping[str, Any] = {
    "n_estimators": 200,
    "num_leaves": 100,
    "learning_rate": 0.1,
    "colsample_bytree": 0.8,
    "subsample": 0.8,
}
"""LightGBM of the released code; the paper gives no settings."""

_VOTE_SAMPLES = 30

# scikit-learn takes away all warning filters of the process while it works: two threads at once would lose them
_ONE_AT_A_TIME = Lock()


def meta_features(vectors: Tensor, prototypes: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """ρ(x): distances ``(n, n_classes)`` to the prototypes of **all** classes seen so far."""
    distances: np.ndarray[Any, np.dtype[np.float64]] = torch.cdist(vectors.double(), prototypes.double()).numpy()
    return distances


class GroupVote:
    """M_g of the paper: classifiers of the group on ρ(x), whose probabilities are averaged with equal weights.

    Parameters
    ----------
    vectors : Tensor
        ``(n, dim)``, what they learn from.
    groups : ndarray
        ``(n,)``, the group of every vector.
    prototypes : Tensor
        ``(n_classes, dim)``, of all classes.
    n_groups : int
        Groups that there are; those without a vector are never voted for.
    seed : int
        Of the classifiers.
    members : sequence of str
        Names of the classifiers, as :data:`VOTERS` has them.
    boosting : mapping of str to object
        Settings of LightGBM.
    """

    def __init__(
        self,
        vectors: Tensor,
        groups: NDArray[np.intp],
        prototypes: Tensor,
        n_groups: int,
        seed: int,
        members: Sequence[str],
        boosting: Mapping[str, Any],
    ) -> None:
        self._prototypes, self._n_groups, self._groups = prototypes, n_groups, np.unique(groups)
        self._voters: list[Any] = []
        if len(self._groups) > 1:
            rho = meta_features(vectors, prototypes)
            self._voters = [_fitted(_voter(name, seed, len(rho), boosting), rho, groups) for name in members]

    def probabilities(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Group probabilities ``(n, n_groups)``."""
        out = np.zeros((len(vectors), self._n_groups))
        if not self._voters:
            out[:, self._groups] = 1.0
            return out
        rho = meta_features(torch.from_numpy(vectors), self._prototypes)
        with _ONE_AT_A_TIME:
            votes = [np.asarray(voter.predict_proba(rho), dtype=np.float64) for voter in self._voters]
        out[:, self._groups] = np.mean(votes, axis=0)
        return out


class SoftVote(GroupVote):
    """The vote where no sample is kept: it learns from pseudo-features drawn from the cards.

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
        n_groups = int(group_of_class.max()) + 1
        super().__init__(vectors, group_of_class[classes], discriminant.prototypes(), n_groups, seed, members, BOOSTING)


def _fitted(voter: Any, rho: np.ndarray[Any, Any], groups: np.ndarray[Any, Any]) -> Any:
    from sklearn.exceptions import ConvergenceWarning

    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a network that stops early still votes
        return voter.fit(rho, groups)


def _voter(name: str, seed: int, n: int, boosting: Mapping[str, Any]) -> Any:
    """An unfitted classifier for ``n`` rows; imported here, since few models vote and all would wait."""
    if name == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(n_estimators=200, bootstrap=False, random_state=seed, n_jobs=1)
    if name == "knn":
        from sklearn.neighbors import KNeighborsClassifier

        return KNeighborsClassifier(n_neighbors=min(3, n), weights="distance")
    if name == "tree":
        from sklearn.tree import DecisionTreeClassifier

        return DecisionTreeClassifier(random_state=seed)
    return _multilayer_perceptron(seed) if name == "mlp" else _boosting(seed, boosting)


def _multilayer_perceptron(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # distances all lie far from zero and close together: a network learns nothing from them as they are, and slowly
    network = MLPClassifier(hidden_layer_sizes=(100,), learning_rate_init=0.01, max_iter=200, random_state=seed)
    return make_pipeline(StandardScaler(), network)


def _boosting(seed: int, settings: Mapping[str, Any]) -> Any:
    try:
        from lightgbm import LGBMClassifier
    except ImportError as error:
        raise MissingExtraError(
            "Identification by 'vote' or 'lightgbm' needs LightGBM, which is not installed. "
            "Install it with: pip install 'gddsg[vote]'"
        ) from error
    return LGBMClassifier(**settings, random_state=seed, n_jobs=1, deterministic=True, verbose=-1)
