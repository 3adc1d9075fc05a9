"""GDDSG: class cards, colour groups, group identification and one ridge head a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from gddsg.core.class_card import ClassCard
from gddsg.core.decision import DecisionMode
from gddsg.core.explanation import Explanation
from gddsg.core.grouping import ClassGroups, Grouping
from gddsg.core.identification import Identification
from gddsg.core.label import Label
from gddsg.core.model import Model, Settings
from gddsg.core.predictor import Predictor
from gddsg.core.similarity_graph import Distance, SimilarityGraph
from gddsg.errors import InputError
from gddsg.learners.base import Learnt, ProjectionLearner, like
from gddsg.learners.labels import checked_groups, checked_ids
from gddsg.store import read_model, write_model


class GDDSG(ProjectionLearner[Model]):
    """Class-incremental classifier on frozen features whose result does not depend on the order of classes.

    A class card keeps sums of a class, never a sample. Classes that look alike are put into different groups by
    colouring their similarity graph. An input's group is identified first; inside it a ridge head on random
    projections decides. All of it follows from an immutable :class:`gddsg.core.model.Model`, to which this
    scikit-learn classifier holds one reference: learning swaps it, and threads may predict meanwhile.

    Parameters
    ----------
    projection_dim, rank, grouping, identification, decision, feature_transform, distance, backbone, seed : object
        The settings of the model: see :class:`gddsg.core.model.Settings` for each of them. ``identification`` and
        ``decision`` may be changed at any time, the others before the first batch.
    device : str
        Torch device for the cards' arithmetic.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> cats, dogs, fish = (rng.normal(centre, 1, (40, 8)) for centre in np.eye(3, 8) * 9)
    >>> model = GDDSG(projection_dim=64)
    >>> model = model.partial_fit(cats, ["cat"] * 40).partial_fit(dogs, ["dog"] * 40)
    >>> model = model.partial_fit(fish, ["fish"] * 40)
    >>> [str(label) for label in model.predict(np.stack([cats[0], fish[0]]))]
    ['cat', 'fish']
    >>> [str(label) for label in model.forget("fish").classes_]
    ['cat', 'dog']

    References
    ----------
    "Order-Robust Class Incremental Learning: Graph-Driven Dynamic Similarity Grouping", CVPR 2025.
    """

    fixed_by_learning = ("projection_dim", "rank", "grouping", "feature_transform", "distance", "backbone", "seed")
    least_projection_dim = 0  # none: the discriminant alone

    def __init__(
        self,
        projection_dim: int = 2_000,
        rank: int = 64,
        grouping: Grouping = "canonical",
        identification: Identification = "evidence",
        decision: DecisionMode = "soft",
        feature_transform: Literal["auto", "none"] = "auto",
        distance: Distance = "cosine",
        backbone: str | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.projection_dim = projection_dim
        self.rank = rank
        self.grouping = grouping
        self.identification = identification
        self.decision = decision
        self.feature_transform = feature_transform
        self.distance = distance
        self.backbone = backbone
        self.seed = seed
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._model_settings().check()

    def _model_settings(self) -> Settings:
        values = {one.name: getattr(self, one.name) for one in fields(Settings)}
        return Settings(**{k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()})

    # ---------------------------------------------------------------- learning

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_ids: Any = None) -> Self:
        """Learn a batch on top of what is known, see :meth:`Learner.partial_fit`.

        ``sample_ids``, whole numbers from 0 to 2⁶⁴ - 1, one a row, tell samples apart, such as hashes of their files.
        A sample whose id its class has already learnt is left out, so that a batch may safely be given twice; near
        copies among samples with ids weigh no more than one of them.
        """
        return self._change(lambda before: self._grown(before, X, y, partial(self._next_state, sample_ids=sample_ids)))

    def _next_state(
        self, state: Model | None, inputs: Tensor, labels: Sequence[Label], sample_ids: Any = None
    ) -> Model:
        model = Model(self._model_settings()) if state is None else state
        ids = None if sample_ids is None else checked_ids(sample_ids, len(inputs))
        return model.plus(model.make_cards(inputs, labels, ids))

    def forget(self, label: Label) -> Self:
        """Delete a class: the model is then as if it had never learnt it (with ``grouping="canonical"``)."""
        return self._succeed(lambda model: model.without(label))

    def rename(self, old: Label, new: Label) -> Self:
        """Give a class another name; nothing else changes."""
        return self._succeed(lambda model: model.renamed(old, new))

    def merge(self, other: GDDSG) -> Self:
        """Take in all that another model has learnt; both must share features, projection and rank."""
        if not isinstance(other, GDDSG):
            raise InputError(f"A {type(other).__name__} was given; expected another GDDSG model.")
        theirs = other.model_ if other.__sklearn_is_fitted__() else Model(other._model_settings())
        return self._succeed(lambda model: model.merged(theirs))

    def _succeed(self, step: Callable[[Model], Model]) -> Self:
        def next_learnt(before: Learnt[Model] | None) -> Learnt[Model] | None:
            if before is not None:
                self._check_settings(before)
            model = step(Model(self._model_settings()) if before is None else before.state)
            return self._learnt(model, None if before is None else before.columns) if model.cards else None

        return self._change(next_learnt)

    def _learnt(self, model: Model, columns: Mapping[str, Any] | None = None) -> Learnt[Model]:
        known = {"n_features_in_": model.feature_dim} if columns is None else columns
        return Learnt(np.array(model.labels), self._settings(), known, model)

    # ---------------------------------------------------------------- prediction

    def _log_probabilities(self, learnt: Learnt[Model], inputs: Tensor) -> Tensor:
        return torch.from_numpy(self._model(learnt).predictor.predict_log_proba(inputs.cpu().numpy()))

    def _model(self, learnt: Learnt[Model]) -> Model:
        return learnt.state.configured(self.identification, self.decision)

    def _answer(self, X: Any, ask: Callable[[Predictor, Any], Any]) -> Any:
        learnt = self._checked()
        return like(ask(self._model(learnt).predictor, self._inputs(X, learnt).cpu().numpy()), X)

    def predict(self, X: Any, reject: float | None = None, unknown: Label = "unknown") -> Any:
        """Labels of the rows of ``X`` ``(n_samples, n_features)``.

        ``reject`` is the share of known inputs to keep, such as 0.99; what is less like any class gets ``unknown``.
        """
        return self._answer(X, lambda predictor, features: predictor.predict(features, reject, unknown))

    def novelty(self, X: Any) -> Any:
        """How unlike every known class each row is; higher is stranger (see :class:`gddsg.core.novelty.Novelty`)."""
        return self._answer(X, Predictor.measure_novelty)

    def novelty_limit(self, kept: float) -> float:
        """The novelty that a share ``kept`` of known inputs stays below; what ``predict`` rejects lies above it."""
        return self.model_.predictor.novelty_limit(kept)

    def predict_group(self, X: Any) -> Any:
        """Index in ``class_groups_`` of the group that each row of ``X`` is identified with, ``(n_samples,)``."""
        return self._answer(X, Predictor.predict_group)

    def predict_in_group(self, X: Any, groups: Any) -> Any:
        """Labels of the rows of ``X`` by the heads of the given ``groups`` ``(n_samples,)`` alone.

        With the true groups of the samples it tells what the model would reach if no group were ever mistaken.
        """

        def ask(predictor: Predictor, features: Any) -> Any:
            return predictor.predict_in_group(features, checked_groups(groups, len(features), len(predictor.groups)))

        return self._answer(X, ask)

    def explain(self, x: Any) -> Explanation:
        """Why one input ``(n_features,)`` gets its label: groups, rivals, novelty."""
        learnt = self._checked()
        row = x[None] if isinstance(x, Tensor | np.ndarray) and x.ndim == 1 else [x] if np.ndim(x) == 1 else x
        return self._model(learnt).explain(self._inputs(row, learnt).cpu().numpy())

    # ---------------------------------------------------------------- what has been learnt

    @property
    def model_(self) -> Model:
        """All that has been learnt, as a value that never changes."""
        return self._model(self._checked())

    @property
    def cards_(self) -> Mapping[Label, ClassCard]:
        """Class cards by label."""
        return self.model_.cards

    @property
    def class_groups_(self) -> ClassGroups:
        """The class groups; no two classes of one are similar where groups are canonical or arrive."""
        return self.model_.groups

    @property
    def similarity_graph_(self) -> SimilarityGraph:
        """The graph of similar classes; ``.to_networkx()`` draws and analyses it."""
        return self.model_.graph

    @classmethod
    def of(cls, model: Model, device: str = "cpu") -> Self:
        """A classifier that has learnt what a model knows."""
        shell = cls(**{one.name: getattr(model.settings, one.name) for one in fields(Settings)}, device=device)
        shell._put(shell._learnt(model) if model.cards else None)
        return shell

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one file, atomically: a reader finds the old model or the new one."""
        write_model(path, self.model_)

    @classmethod
    def load(cls, path: str | PathLike[str], device: str = "cpu") -> Self:
        """Read a model that :meth:`save` wrote. Opening a file never runs code from it."""
        return cls.of(read_model(path), device)
