"""The recipe as the code released with the paper runs it, so that people can see where its numbers come from.

It leaks: the group of a test sample is identified from its distances to the prototypes of **its own task**, and which
task that is, is looked up from its label. No lone image could be classified this way, hence there is no ``predict``.
It keeps samples too: a fifth of all projected features, and a row of distances for every training sample.
Nothing here is used by any learner of this library. ``docs/honesty.md`` shows what the leak is worth.

It works as the released code does where that takes the time: at every task a λ search of 17 dense solves and one more
for every group, whether it got samples or not, and three voters fitted afresh on four fifths of all rows ever seen.
Where the released code repeats itself without another result, this does not, so that a comparison of speed leaves out
what that costs: each of its 100 weightings asks all voters about all rows again (here once, and
:meth:`ReleasedRecipe.ask_voters` tells how long one time takes), distances and thresholds are computed sample by sample
(here as matrices), and replayed samples are kept as lists of Python numbers (here as tensors).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor

from gddsg.core.label import Label
from gddsg.core.projection import project
from gddsg.errors import InputError, MissingExtraError
from gddsg.learners.base import pickled_bytes

RIDGES = tuple(10.0**exponent for exponent in range(-8, 9))
_FIT_SHARE, _REPLAY_SHARE, _OWN_GROUP_BOOST = 0.8, 0.2, 1.5


@dataclass
class _Group:
    """A class group: dense sums, and the samples its λ is searched with."""

    classes: list[Label]
    gram: Tensor  # (M, M)
    sums: dict[Label, Tensor] = field(default_factory=dict)  # (M,) each
    replayed: list[tuple[Tensor, list[Label]]] = field(default_factory=list)
    current: tuple[Tensor, list[Label]] | None = None


class ReleasedRecipe(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Group heads, a soft vote on own-task distances, and the fusion of the released code. Leaks by construction.

    Parameters
    ----------
    projection_dim : int
        M, width of the random projection; a group takes 4 M² bytes.
    max_group_size : int
        A group with this many classes takes no more; the released settings have 10, 20, 12 and 40.
    trials : int
        Random weightings of the three voters that are tried, on rows most of which they were fitted on.
    decision : {"fusion", "hard"}
        ``"fusion"`` as the released code does it, the scores of all heads with those of the identified group 2.5
        times; ``"hard"`` as the paper's text has it, the best class inside the identified group.
    seed : int
        Of projection, replay, voters and trials.
    n_jobs : int or None
        Threads of the voters, -1 for as many as there are cores, None for what their libraries take by themselves, as
        the released code leaves it. With 1 the trees are the same on every machine.
    """

    def __init__(
        self,
        projection_dim: int = 2_000,
        max_group_size: int = 20,
        trials: int = 100,
        decision: Literal["fusion", "hard"] = "fusion",
        seed: int = 0,
        n_jobs: int | None = 1,
    ) -> None:
        self.projection_dim = projection_dim
        self.max_group_size = max_group_size
        self.trials = trials
        self.decision = decision
        self.seed = seed
        self.n_jobs = n_jobs

    def partial_fit(self, X: NDArray[np.float32], y: NDArray[Any]) -> Self:
        """Learn a task of new classes; all tasks have to hold equally many.

        Parameters
        ----------
        X : array
            Features ``(n_samples, feature_dim)``.
        y : array
            Labels ``(n_samples,)``.

        Returns
        -------
        Self
            The same recipe.
        """
        features, labels = np.asarray(X, dtype=np.float32), np.asarray(y)
        classes = np.unique(labels).tolist()
        if not hasattr(self, "task_classes_"):
            self._start()
        # as a data loader does: the last fifth, which λ is searched with, would otherwise be of the last classes alone
        shuffled = self._random.permutation(len(labels))
        features, labels = features[shuffled], labels[shuffled]
        if self.task_classes_ and len(classes) != len(self.task_classes_[0]):
            raise InputError(
                f"A task of {len(classes)} classes was given after one of {len(self.task_classes_[0])}; the released "
                "code numbers distances by the place of a class in its task, so give tasks of one size."
            )
        self.task_classes_.append(tuple(classes))
        for label in classes:
            self._remember(label, features[labels == label])
        self._join_groups(classes)
        self._update_sums(project(torch.from_numpy(features), self.projection_dim, self.seed), labels)
        self.rows_.append(self._distances(features, classes))
        self.row_groups_.append(np.array([self._group_of(label) for label in labels.tolist()]))
        self._heads: list[Tensor] | None = None
        self._voters: tuple[list[Any], NDArray[np.float64]] | None = None
        return self

    def state_bytes(self) -> int:
        """How much is carried from task to task, kept samples included."""
        return pickled_bytes(self)

    def _start(self) -> None:
        self.task_classes_: list[tuple[Label, ...]] = []
        self.prototypes_: dict[Label, NDArray[np.float32]] = {}
        self.thresholds_: dict[Label, float] = {}
        self.groups_: list[_Group] = []
        self.rows_: list[NDArray[np.float32]] = []
        self.row_groups_: list[NDArray[np.int64]] = []
        self._random = np.random.default_rng(self.seed)

    def _remember(self, label: Label, rows: NDArray[np.float32]) -> None:
        """The prototype, and the mean cosine of the class's samples to it: the threshold of similarity."""
        self.prototypes_[label] = prototype = rows.mean(0)
        self.thresholds_[label] = float(np.mean(_cosines(rows, prototype)))

    @property
    def class_groups_(self) -> tuple[tuple[Label, ...], ...]:
        """The groups, as the released code makes them."""
        return tuple(tuple(group.classes) for group in self.groups_)

    def _fits(self, newcomer: Label, members: Sequence[Label]) -> bool:
        """Room left, and similar to no member; the newcomer's own threshold is not asked."""
        near = _cosines(np.array([self.prototypes_[m] for m in members]), self.prototypes_[newcomer]) if members else ()
        similar = any(cosine > self.thresholds_[m] for m, cosine in zip(members, near, strict=True))
        return len(members) < self.max_group_size and not similar

    def _join_groups(self, newcomers: list[Label]) -> None:
        """First fit into the old groups; the others are coloured greedily in the order of class numbers."""
        left_over = []
        for newcomer in newcomers:
            home = next((group for group in self.groups_ if self._fits(newcomer, group.classes)), None)
            left_over += [newcomer] if home is None else []
            if home is not None:
                home.classes.append(newcomer)
        while left_over:
            colour: list[Label] = []
            for vertex in left_over:
                if self._fits(vertex, colour):
                    colour.append(vertex)
            left_over = [vertex for vertex in left_over if vertex not in colour]
            self.groups_.append(_Group(colour, torch.zeros(self.projection_dim, self.projection_dim)))

    def _group_of(self, label: Label) -> int:
        return next(index for index, group in enumerate(self.groups_) if label in group.classes)

    def _update_sums(self, projected: Tensor, labels: NDArray[Any]) -> None:
        """Add the task's rows to their groups; of the task before, a fifth is kept."""
        for group in self.groups_:
            if group.current is not None:
                old, old_labels = group.current
                kept = self._random.permutation(len(old))[: round(_REPLAY_SHARE * len(old))]
                group.replayed.append((old[torch.from_numpy(kept)], [old_labels[i] for i in kept]))
                group.current = None
            own = np.isin(labels, group.classes)
            if own.any():
                rows, names = projected[torch.from_numpy(own)], labels[own].tolist()
                group.gram += rows.T @ rows
                for label in sorted(set(names)):
                    group.sums[label] = rows[torch.tensor([name == label for name in names])].sum(0)
                group.current = (rows, names)

    def _distances(self, features: NDArray[np.float32], classes: Sequence[Label]) -> NDArray[np.float32]:
        """Euclidean distances to the prototypes of one task."""
        prototypes = torch.from_numpy(np.array([self.prototypes_[label] for label in classes]))
        distances: NDArray[np.float32] = torch.cdist(torch.from_numpy(features), prototypes).numpy()
        return distances

    def predict_knowing_task(self, X: NDArray[np.float32], task: Sequence[Label]) -> NDArray[Any]:
        """Labels of samples that are known to belong to one task. That knowledge is the leak.

        Parameters
        ----------
        X : array
            Features ``(n_samples, feature_dim)``.
        task : sequence of labels
            The classes of that task.

        Returns
        -------
        array
            Labels ``(n_samples,)``.
        """
        features = np.asarray(X, dtype=np.float32)
        own = self.identify_knowing_task(features, task)
        projected = project(torch.from_numpy(features), self.projection_dim, self.seed)
        if self._heads is None:
            self._heads = [_head(group) for group in self.groups_]
        columns = [label for group in self.groups_ for label in group.classes]
        scores = [projected @ head for head in self._heads]
        for group, score in enumerate(scores):
            score[torch.from_numpy(own == group)] *= 1 + _OWN_GROUP_BOOST
            if self.decision == "hard":
                score[torch.from_numpy(own != group)] = -torch.inf
        return np.asarray(np.array(columns)[torch.cat(scores, dim=1).argmax(1).numpy()])

    def identify_knowing_task(self, X: NDArray[np.float32], task: Sequence[Label]) -> NDArray[np.int64]:
        """Groups of samples that are known to belong to one task.

        Parameters
        ----------
        X : array
            Features ``(n_samples, feature_dim)``.
        task : sequence of labels
            The classes of that task.

        Returns
        -------
        array of int
            Places in ``class_groups_``, ``(n_samples,)``.
        """
        distances = self._distances(np.asarray(X, dtype=np.float32), sorted(task))
        return self._identified(distances)

    def ask_voters(self) -> None:
        """Ask all voters about all rows once, as the released code does for each of its trials; for timing."""
        if len(self.groups_) > 1:
            self._voters = self._voters or self._fitted_voters()
            _votes(self._voters[0], np.concatenate(self.rows_))

    def _identified(self, distances: NDArray[np.float32]) -> NDArray[np.int64]:
        if len(self.groups_) == 1:
            return np.zeros(len(distances), dtype=np.int64)
        if self._voters is None:
            self._voters = self._fitted_voters()
        voters, weights = self._voters
        return _winners(voters, _votes(voters, distances), weights)

    def _fitted_voters(self) -> tuple[list[Any], NDArray[np.float64]]:
        """Fit three voters on four fifths of all rows ever seen, then weigh them by their accuracy on all of them."""
        rows, groups = np.concatenate(self.rows_), np.concatenate(self.row_groups_)
        random = np.random.default_rng([self.seed, len(rows)])
        fit = random.permutation(len(rows))[: round(_FIT_SHARE * len(rows))]
        voters = [voter.fit(rows[fit], groups[fit]) for voter in _new_voters(self.seed, self.n_jobs)]
        votes = _votes(voters, rows)
        draws = random.uniform(size=(self.trials, 2))
        candidates = [np.array([a, b, 1 - a - b]) for a, b in draws]  # the last may turn negative
        hits = [float(np.mean(_winners(voters, votes, weights) == groups)) for weights in candidates]
        return voters, candidates[int(np.argmax(hits))]


def _new_voters(seed: int, n_jobs: int | None) -> list[Any]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.neighbors import KNeighborsClassifier

    try:
        from lightgbm import LGBMClassifier
    except ImportError as error:
        raise MissingExtraError(
            "The released recipe needs LightGBM, which is not installed. Install it with: pip install 'gddsg[vote]'"
        ) from error
    return [
        RandomForestClassifier(200, bootstrap=False, random_state=seed, n_jobs=n_jobs),
        KNeighborsClassifier(3, weights="distance", n_jobs=n_jobs),
        LGBMClassifier(
            n_estimators=200,
            num_leaves=100,
            learning_rate=0.1,
            colsample_bytree=0.8,
            subsample=0.8,
            random_state=seed,
            n_jobs=n_jobs,
            deterministic=n_jobs == 1,
            verbose=-1,
        ),
    ]


def _votes(voters: list[Any], rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """``(3, n, n_groups)``."""
    return np.stack([np.asarray(voter.predict_proba(rows), dtype=np.float64) for voter in voters])


def _winners(voters: list[Any], votes: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.asarray(voters[0].classes_[np.tensordot(weights, votes, 1).argmax(1)], dtype=np.int64)


def _cosines(rows: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(rows @ vector / (np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)).clip(min=1e-30))


def _head(group: _Group) -> Tensor:
    """``(Gram + λ I)⁻¹ C``, λ from the last fifth of replayed and current rows."""
    parts = [*group.replayed, *([] if group.current is None else [group.current])]
    rows, labels = torch.cat([part[0] for part in parts]), [label for part in parts for label in part[1]]
    targets = torch.tensor([[float(label == name) for name in group.classes] for label in labels])
    sums = torch.stack([group.sums[label] for label in group.classes], dim=1)
    return _solved(group.gram, sums, _best_ridge(rows, targets))


def _best_ridge(rows: Tensor, targets: Tensor) -> float:
    """The λ with the least squared error on the last fifth, solved on the rest."""
    split = int(_FIT_SHARE * len(rows))
    if not 0 < split < len(rows):
        return RIDGES[len(RIDGES) // 2]
    gram, cross = rows[:split].T @ rows[:split], rows[:split].T @ targets[:split]
    answers = (rows[split:] @ _solved(gram, cross, ridge) for ridge in RIDGES)
    errors = [float((answer - targets[split:]).square().mean()) for answer in answers]
    return RIDGES[int(np.argmin(np.nan_to_num(errors, nan=np.inf, posinf=np.inf)))]


def _solved(gram: Tensor, cross: Tensor, ridge: float) -> Tensor:
    """In float32, as the released code has it: rounding rules out the smallest λ, which more digits would let win."""
    shifted = gram.clone()
    shifted.diagonal().add_(ridge)
    solution, failed = torch.linalg.solve_ex(shifted, cross)
    return torch.full_like(cross, torch.nan) if int(failed) else solution
