"""The recipe as its paper's released code runs it, re-implemented here as the slow side of a speed comparison.

For timing only. Its accuracies do not compare with those of ``gddsg``: the labels of the test samples tell the group
identifier which task a sample belongs to; ``docs/deviations.md`` has the details. Where it is not known how the
released code does a step, the faster way is taken here.

Two habits of the released code take most of its time: each of the 100 weightings of the voters that are tried asks all
three voters about all rows again, and one λ search of 17 dense solves is made for every group at every task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]

RIDGES = tuple(10.0**exponent for exponent in range(-8, 9))
FIT_SHARE = 0.8
REPLAY_SHARE = 0.2
OWN_GROUP_BOOST = 1.5
BOOSTING: dict[str, Any] = dict(
    n_estimators=200, num_leaves=100, learning_rate=0.1, colsample_bytree=0.8, subsample=0.8
)


class Task(NamedTuple):
    """Features ``(n, feature_dim)`` and integer labels ``(n,)`` of one task, to learn and to test."""

    train_features: Array
    train_labels: Array
    test_features: Array
    test_labels: Array


@dataclass
class _Group:
    """One class group: its dense statistics, its head and its replayed rows, one Python float an entry."""

    classes: list[int]
    gram: Tensor  # (projection_dim, projection_dim)
    cross_correlation: Tensor  # (projection_dim, n_group_classes)
    weights: Tensor  # (projection_dim, n_group_classes)
    replay_rows: list[list[float]] = field(default_factory=list)
    replay_labels: list[int] = field(default_factory=list)


@dataclass
class PublishedRecipe:
    """Group heads on dense Gram matrices, everything solved and fitted afresh at every task. For timing only.

    It leaks, as the released code does: a row of the group identifier holds the distances to the prototypes of the
    sample's own task and of no other, and at evaluation that task is looked up from the true labels. No lone image
    could be classified this way.

    At ``projection_dim=10_000`` a group takes 400 MB for its Gram matrix and 320 kB for every replayed sample.

    Parameters
    ----------
    projection_dim : M, the length of a projected feature vector.
    seed : of the projection, the replay, the identifier and the search of its weights.
    max_group_size : a group with this many classes takes no more.
    identifier : whether to fit and to use the group identifier; without it the heads are simply added up.
    optuna_like_trials : how many random weightings of the three voters are tried.
    """

    projection_dim: int
    seed: int = 0
    max_group_size: int = 20
    identifier: bool = True
    optuna_like_trials: int = 100

    def __post_init__(self) -> None:
        self.groups_: list[_Group] = []
        self.task_classes_: list[list[int]] = []
        self._prototypes: dict[int, Array] = {}
        self._thresholds: dict[int, float] = {}
        self._meta_rows: list[list[float]] = []
        self._meta_labels: list[int] = []
        self._voters: list[Any] = []
        self._vote_weights = np.full(3, 1 / 3)
        self._projection: Tensor | None = None
        self._random = np.random.default_rng(self.seed)

    def learn_task(self, features: Array, labels: Array) -> None:
        """Learn new classes from ``(n, feature_dim)`` features; tasks have to hold equally many classes."""
        features = np.asarray(features, dtype=np.float32)
        classes = sorted({int(label) for label in labels})
        if self.task_classes_ and len(classes) != len(self.task_classes_[0]):
            expected = len(self.task_classes_[0])
            raise ValueError(f"This task has {len(classes)} classes, the first had {expected}; give equal tasks.")
        self.task_classes_.append(classes)
        self._remember_prototypes(features, labels)
        self._join_groups(classes)
        self._update_heads(self._project(features), labels)
        self._meta_rows += self._meta_features(features, classes)
        self._meta_labels += [self._group_of(int(label)) for label in labels]
        if self.identifier and len(self.groups_) > 1:
            self._fit_identifier()

    def evaluate_task(self, features: Array, labels: Array) -> float:
        """Accuracy on test samples of one task. Leaks: the labels tell whose prototypes to measure distances to."""
        features = np.asarray(features, dtype=np.float32)
        projected = self._project(features)
        own = self._identify(features, next(task for task in self.task_classes_ if int(labels[0]) in task))
        heads = [self._spread(group) for group in self.groups_]
        total = torch.stack(heads).sum(0)
        hits = 0
        for row, group, label in zip(projected, own, labels, strict=True):
            scores = row @ total
            if group >= 0:
                scores = scores + OWN_GROUP_BOOST * row @ heads[group]
            hits += int(scores.argmax()) == int(label)
        return hits / len(labels)

    def _spread(self, group: _Group) -> Tensor:
        """The head with a column for every class there is, zero for those of other groups."""
        weights = torch.zeros(self.projection_dim, max(self._prototypes) + 1)
        weights[:, group.classes] = group.weights
        return weights

    def evaluate_all(self, test_tasks: Iterable[tuple[Array, Array]]) -> list[float]:
        """Accuracy on every task seen so far, each with its own task's prototypes (see :meth:`evaluate_task`)."""
        return [self.evaluate_task(features, labels) for features, labels in test_tasks]

    def _project(self, features: Array) -> Tensor:
        if self._projection is None:
            generator = torch.Generator().manual_seed(self.seed)
            self._projection = torch.randn(features.shape[1], self.projection_dim, generator=generator)
        return torch.relu(torch.from_numpy(features) @ self._projection)

    def _remember_prototypes(self, features: Array, labels: Array) -> None:
        members: dict[int, list[Array]] = {}
        for row, label in zip(features, labels, strict=True):
            members.setdefault(int(label), []).append(row)
        for label, rows in members.items():
            prototype = np.mean(rows, axis=0)
            self._prototypes[label] = prototype
            self._thresholds[label] = sum(_cosine(row, prototype) for row in rows) / len(rows)

    def _fits(self, newcomer: int, members: list[int]) -> bool:
        """Whether a group has room and no class similar to the newcomer; only the members' thresholds count."""
        cosines = ((m, _cosine(self._prototypes[newcomer], self._prototypes[m])) for m in members)
        return len(members) < self.max_group_size and all(cosine <= self._thresholds[m] for m, cosine in cosines)

    def _join_groups(self, newcomers: list[int]) -> None:
        """First fit into the old groups, then colour sets of the others, built greedily in the order of class ids."""
        left_over = []
        for newcomer in newcomers:
            home = next((group for group in self.groups_ if self._fits(newcomer, group.classes)), None)
            if home is None:
                left_over.append(newcomer)
            else:
                home.classes.append(newcomer)
                home.cross_correlation = torch.cat([home.cross_correlation, torch.zeros(self.projection_dim, 1)], 1)
        while left_over:
            colour_set: list[int] = []
            for vertex in left_over:
                if self._fits(vertex, colour_set):
                    colour_set.append(vertex)
            left_over = [vertex for vertex in left_over if vertex not in colour_set]
            zeros = torch.zeros(self.projection_dim, len(colour_set))
            gram = torch.zeros(self.projection_dim, self.projection_dim)
            self.groups_.append(_Group(colour_set, gram, zeros, zeros))

    def _group_of(self, label: int) -> int:
        return next(index for index, group in enumerate(self.groups_) if label in group.classes)

    def _update_heads(self, projected: Tensor, labels: Array) -> None:
        """Add the task to the sums, then search a ridge and solve for every group, whether it got rows or not."""
        rows_of: list[list[int]] = [[] for _ in self.groups_]
        for row, label in enumerate(labels):
            rows_of[self._group_of(int(label))].append(row)
        for group, rows in zip(self.groups_, rows_of, strict=True):
            new, new_labels = projected[rows], [int(labels[row]) for row in rows]
            group.gram += new.T @ new
            group.cross_correlation = group.cross_correlation + new.T @ _one_hot(new_labels, group.classes)
            replayed = torch.tensor(group.replay_rows).reshape(-1, self.projection_dim)
            ridge = _best_ridge(torch.cat([replayed, new]), _one_hot(group.replay_labels + new_labels, group.classes))
            group.weights = _solve(group.gram, group.cross_correlation, ridge)
            for pick in self._random.permutation(len(rows))[: round(REPLAY_SHARE * len(rows))]:
                group.replay_rows.append(new[pick].tolist())
                group.replay_labels.append(new_labels[pick])

    def _meta_features(self, features: Array, classes: list[int]) -> list[list[float]]:
        """Distances of every row to the prototypes of one task's classes, sample by sample."""
        prototypes = [self._prototypes[label] for label in classes]
        return [[float(np.linalg.norm(row - prototype)) for prototype in prototypes] for row in features]

    def _fit_identifier(self) -> None:
        """Fit the three voters on four fifths of all rows ever seen, then weigh them on all of these rows."""
        rows, groups = np.array(self._meta_rows), np.array(self._meta_labels)
        fit = self._random.permutation(len(rows))[: round(FIT_SHARE * len(rows))]
        forest = RandomForestClassifier(200, bootstrap=False, random_state=self.seed)
        neighbours = KNeighborsClassifier(3, weights="distance")
        boosting = LGBMClassifier(**BOOSTING, random_state=self.seed, verbose=-1)
        self._voters = [voter.fit(rows[fit], groups[fit]) for voter in (forest, neighbours, boosting)]
        trials = [self._random.uniform(size=2) for _ in range(self.optuna_like_trials)]
        candidates = [np.array([a, b, 1 - a - b]) for a, b in trials]  # the last may turn negative
        hits = [np.mean(self._winner(self._votes(rows), weights) == groups) for weights in candidates]
        self._vote_weights = candidates[int(np.argmax(hits))]

    def _votes(self, rows: Array) -> Array:
        return np.stack([voter.predict_proba(rows) for voter in self._voters])  # (3, n, n_groups)

    def _winner(self, votes: Array, weights: Array) -> Array:
        return np.asarray(self._voters[0].classes_[np.tensordot(weights, votes, 1).argmax(1)])

    def _identify(self, features: Array, classes: list[int]) -> Array:
        """Group of every row by the weighted vote; -1, which is no group, where there is no identifier."""
        if not self._voters:
            return np.full(len(features), -1)
        rows = np.array(self._meta_features(features, classes))
        return self._winner(self._votes(rows), self._vote_weights)


def run(tasks: Sequence[Task], projection_dim: int = 2000, identifier: bool = True) -> dict[str, list[float]]:
    """Learn task after task, after each evaluate all seen: seconds of both, one entry a task."""
    recipe = PublishedRecipe(projection_dim, identifier=identifier)
    seconds: dict[str, list[float]] = {"learn_seconds": [], "evaluate_seconds": []}
    for seen, task in enumerate(tasks, start=1):
        start = perf_counter()
        recipe.learn_task(task.train_features, task.train_labels)
        learnt = perf_counter()
        recipe.evaluate_all((past.test_features, past.test_labels) for past in tasks[:seen])
        seconds["learn_seconds"].append(learnt - start)
        seconds["evaluate_seconds"].append(perf_counter() - learnt)
    return seconds


def _cosine(a: Array, b: Array) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def _one_hot(labels: list[int], classes: list[int]) -> Tensor:
    column = {label: index for index, label in enumerate(classes)}
    targets = torch.zeros(len(labels), len(classes))
    for row, label in enumerate(labels):
        targets[row, column[label]] = 1
    return targets


def _solve(gram: Tensor, cross_correlation: Tensor, ridge: float) -> Tensor:
    """``(Gram + λ I)⁻¹ C``, dense and in float32; a singular matrix gives NaN and not an error."""
    weights: Tensor = torch.linalg.solve_ex(gram + ridge * torch.eye(len(gram)), cross_correlation).result
    return weights


def _best_ridge(projected: Tensor, targets: Tensor) -> float:
    """The λ whose head, solved on the first four fifths of the rows, has the least squared error on the last fifth."""
    split = int(FIT_SHARE * len(projected))
    fit, held_out = projected[:split], projected[split:]
    gram, cross_correlation = fit.T @ fit, fit.T @ targets[:split]
    heads = (_solve(gram, cross_correlation, ridge) for ridge in RIDGES)
    errors = [float((held_out @ head - targets[split:]).square().mean()) for head in heads]
    return RIDGES[int(np.argmin(np.nan_to_num(errors, nan=np.inf)))]
