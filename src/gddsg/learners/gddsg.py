"""GDDSG: class cards, colour groups, group identification and one ridge head a group."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from gddsg.core.class_card import ClassCard, SampleIds
from gddsg.core.decision import Decision, DecisionMode
from gddsg.core.derived import Derived, Memo
from gddsg.core.explanation import Explanation, explanation
from gddsg.core.grouping import ClassGroups, Grouping, groups_on_arrival, without
from gddsg.core.identification import VOTERS, Identification
from gddsg.core.network import PredictionNetwork
from gddsg.core.projection import project, projection_weights
from gddsg.core.similarity_graph import Distance, Label, SimilarityGraph, similarity_graph
from gddsg.core.transform import apply_view, signed_root
from gddsg.errors import InputError, ModelFileError, UnknownClassError
from gddsg.learners.base import Learner, checked_ids, like
from gddsg.store.model_file import read_model, write_model

_ROWS_AT_ONCE = 2048
_CHOICES: dict[str, tuple[str, ...]] = {
    "grouping": get_args(Grouping),
    "identification": get_args(Identification),
    "decision": get_args(DecisionMode),
    "feature_transform": ("auto", "none"),
    "distance": get_args(Distance),
}


class GDDSG(Learner):
    """Class-incremental classifier on frozen features whose result does not depend on the order of classes.

    A class card keeps sums of a class, never a sample. Classes that look alike are put into different groups by
    colouring their similarity graph. An input's group is identified first; inside it a ridge head on random
    projections decides. All of this is a function of the set of cards, computed when it is asked for.

    Parameters
    ----------
    projection_dim : M, width of the random projection under the heads.
    rank : directions kept of a class's scatter; heads keep a quarter of them.
    grouping : ``"canonical"`` colours the graph of all classes; ``"arrival"`` is the paper's rule, in which old classes
        never move, so that groups depend on the order of arrival. For comparison: ``"one"`` group of all classes; as
        many groups as canonical ones, ``"random"`` by name and seed or ``"similar"`` of classes that look alike; and
        ``"task"``, a group for the new classes of each batch.
    identification : ``"evidence"``, a regularised quadratic discriminant; or ``"vote"``, the paper's soft vote of
        random forest, nearest neighbours and LightGBM. One classifier alone: ``"forest"``, ``"knn"``, ``"lightgbm"``,
        ``"tree"`` or ``"mlp"``.
    decision : ``"soft"`` weighs all groups by their probability; ``"hard"`` commits to the likeliest group and takes
        its head's best class, as the paper does; ``"ungated"`` lets the heads of all groups compete, for comparison.
    feature_transform : ``"auto"`` takes the square root of non-negative features and leaves others as they are, unless
        the cards promise far fewer errors the other way round; ``"none"`` always leaves features as they are.
    distance : between class centroids, for the similarity graph.
    backbone : fingerprint of what made the features, or None; saved, and models of different backbones do not merge.
    seed : of the random projection.
    device : torch device for the card's arithmetic.

    Attributes
    ----------
    classes_ : sorted classes.
    cards_ : class cards by label.
    class_groups_ : tuple of groups, each a tuple of labels.
    similarity_graph_ : graph of similar classes.

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

    fixed_by_learning = ("projection_dim", "rank", "grouping", "feature_transform", "backbone", "seed")
    cards_: dict[Label, ClassCard]
    _memo: Memo

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

    # ---------------------------------------------------------------- learning

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_ids: Any = None) -> Self:
        """Learn a batch on top of what is known: new classes, or more samples of known ones.

        Parameters
        ----------
        X : features ``(n_samples, n_features)``: NumPy array, torch tensor, data frame or nested lists.
        y : one label a row, all ``int`` or all ``str``.
        classes : not used; scikit-learn's incremental classifiers want all classes in advance, this one never does.
        sample_ids : whole numbers from 0 to 2⁶⁴ - 1, one a row, that tell samples apart, such as hashes of their files.
            A sample whose id its class has already learnt is left out, so that a batch may safely be given twice.
        """
        return self._take_batch(X, y, partial(self._learn, sample_ids=sample_ids))

    def _learn(self, features: Tensor, labels: Sequence[Label], sample_ids: Any = None) -> None:
        names, cards = np.array(labels), {}
        ids = None if sample_ids is None else checked_ids(sample_ids, len(features))
        new = np.ones(len(names), dtype=bool) if ids is None else self._not_learnt_yet(ids, labels)
        for label in sorted(set(labels)):
            own = (names == label) & new
            if own.any():
                rows = features[torch.from_numpy(own).to(features.device)]
                plain, own_ids = self.feature_transform == "none", None if ids is None else ids[own]
                cards[label] = ClassCard.of(rows, self._project, self.rank, plain=plain, sample_ids=own_ids)
        self._take_in(cards)

    def _not_learnt_yet(self, ids: SampleIds, labels: Sequence[Label]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Rows whose sample is new; the same sample under two labels is an error."""
        label_of = self.sample_labels()
        new = np.zeros(len(ids), dtype=bool)
        for row, (sample, label) in enumerate(zip(ids.tolist(), labels, strict=True)):
            new[row] = sample not in label_of
            if label_of.setdefault(sample, label) != label:
                raise InputError(
                    f"Sample {sample} is given as {label!r} but was learnt as {label_of[sample]!r}. "
                    "Drop it from the batch, or forget the class it was wrongly learnt as."
                )
        return new

    def sample_labels(self) -> dict[int, Label]:
        """Label by sample id, of all samples that were learnt with one."""
        cards: dict[Label, ClassCard] = getattr(self, "cards_", {})
        return {sample: label for label, card in cards.items() for sample in card.sample_ids.tolist()}

    def _project(self, features: Tensor) -> Tensor:
        view = features if self.feature_transform == "none" else signed_root(features)
        return project(view, self.projection_dim, self.seed)

    def _take_in(self, newcomers: Mapping[Label, ClassCard]) -> None:
        """Merge cards into the model's; groups that depend on arrival then take in the classes never seen before."""
        old: dict[Label, ClassCard] = getattr(self, "cards_", {})
        merged = {k: old[k].merge(card, self.rank) if k in old else card for k, card in newcomers.items()}
        cards = {**old, **merged}
        if self.grouping in ("arrival", "task"):
            graph, arrived = similarity_graph(cards, self.distance), getattr(self, "arrival_groups_", ())
            self.arrival_groups_ = groups_on_arrival(self.grouping, arrived, graph, newcomers.keys() - old.keys())
        self._set_cards(cards)

    def _set_cards(self, cards: Mapping[Label, ClassCard]) -> None:
        memo = self._memo if "cards_" in vars(self) else Memo()  # after a new fit nothing of the old one is of use
        self.cards_ = {label: cards[label] for label in sorted(cards)}
        self._memo = memo.for_cards(self.cards_)

    def merge(self, other: GDDSG) -> Self:
        """Take in all that another model has learnt; both must share features, projection and rank."""
        self._check_mergeable(other)
        if not other.__sklearn_is_fitted__():
            return self
        with self._all_or_nothing():
            self._take_in(other.cards_)
            self.n_features_in_ = other.n_features_in_
            self.classes_ = np.array(list(self.cards_))
            self._fix_settings()
        return self

    def _check_mergeable(self, other: GDDSG) -> None:
        if not isinstance(other, GDDSG):
            raise InputError(f"A {type(other).__name__} was given; expected is another GDDSG model.")
        names = ("projection_dim", "rank", "seed", "feature_transform", "backbone")
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in names}
        if self.__sklearn_is_fitted__() and other.__sklearn_is_fitted__():
            pairs["n_features_in_"] = (self.n_features_in_, other.n_features_in_)
            pairs["type of labels"] = (self.classes_.dtype.kind, other.classes_.dtype.kind)
        differing = [f"{name} ({a!r} here, {b!r} there)" for name, (a, b) in pairs.items() if a != b]
        if differing:
            raise InputError(f"These models cannot be merged, they differ in {', '.join(differing)}. Learn one again.")
        known = self.sample_labels()
        shared = sum(sample in known for sample in other.sample_labels())
        if shared:
            raise InputError(
                f"{shared} samples were learnt by both models and would count twice. "
                "Merge models of different samples; a model that holds all of the other's needs no merging."
            )

    def forget(self, label: Label) -> Self:
        """Delete a class: the model is then as if it had never learnt it (with ``grouping="canonical"``)."""
        self._inputs_known(label)
        self.arrival_groups_ = without(getattr(self, "arrival_groups_", ()), label)
        self._memo = Memo()  # nothing derived from the class may stay in memory
        self._set_cards({k: card for k, card in self.cards_.items() if k != label})
        if self.cards_:
            self.classes_ = np.array(list(self.cards_))
        else:
            del self.classes_, self.n_features_in_, self.cards_, self.settings_
        return self

    def rename(self, old: Label, new: Label) -> Self:
        """Give a class another name; nothing else changes (but for ties that are broken by name)."""
        self._inputs_known(old)
        if type(new) is not type(old):
            raise InputError(f"{new!r} was given as the new name of {old!r}; names of one model are of one type.")
        if new in self.cards_:
            raise InputError(
                f"There is a class {new!r} already. Choose another name for {old!r}, or forget one of them."
            )
        groups = getattr(self, "arrival_groups_", ())
        self.arrival_groups_ = tuple(tuple(new if k == old else k for k in group) for group in groups)
        self._memo = Memo()
        self._set_cards({new if k == old else k: card for k, card in self.cards_.items()})
        self.classes_ = np.array(list(self.cards_))
        return self

    def _inputs_known(self, label: Label) -> None:
        known = getattr(self, "cards_", {})
        if not isinstance(label, Hashable) or label not in known:
            some = ", ".join(repr(k) for k in list(known)[:10]) or "none yet"
            raise UnknownClassError(f"The class {label!r} is not in this model. Its {len(known)} classes: {some}.")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choices()
        if not isinstance(self.rank, int | np.integer) or self.rank < 1:
            raise InputError(f"rank={self.rank!r} was given; expected is a whole number from 1.")

    def _check_choices(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InputError(f"{name}={getattr(self, name)!r} was given; expected is one of {', '.join(choices)}.")

    # ---------------------------------------------------------------- prediction

    def predict(self, X: Any, reject: float | None = None, unknown: Label = "unknown") -> Any:
        """Labels of the rows of ``X``.

        Parameters
        ----------
        X : features ``(n_samples, n_features)``.
        reject : share of known inputs to keep, such as 0.99; inputs less like any class than that get ``unknown``.
        unknown : the label for them.
        """
        features = self._inputs(X)
        labels = self.classes_[self._log_probabilities(features).argmax(1).numpy()]
        if reject is not None:
            labels = self._rejected(features, labels, reject, unknown)
        return like(labels, X)

    def _rejected(self, features: Tensor, labels: Any, reject: float, unknown: Label) -> Any:
        strange = (self.novelty(features) > self.novelty_limit(reject)).numpy()
        if isinstance(unknown, str) != (labels.dtype.kind == "U"):
            labels = labels.astype(object)
        return np.where(strange, np.array(unknown, dtype=object if labels.dtype == object else None), labels)

    def novelty(self, X: Any) -> Any:
        """How unlike every known class each row is; higher is stranger (unbounded, see :class:`Novelty`)."""
        features = self._inputs(X).cpu()
        return like(self._derived.novelty.of(apply_view(features, self._derived.view)).numpy(), X)

    def novelty_limit(self, kept: float) -> float:
        """The novelty that a share ``kept`` of known inputs stays below; what ``predict`` rejects lies above it."""
        if not 0 < kept <= 1:
            raise InputError(f"reject={kept!r} was given; expected is the share of known inputs to keep, in (0, 1].")
        return self._derived.novelty.limit(kept)

    def predict_group(self, X: Any) -> Any:
        """Index in ``class_groups_`` of the group that each row of ``X`` is identified with, ``(n_samples,)``."""
        chunks = self._inputs(X).cpu().split(_ROWS_AT_ONCE)
        return like(torch.cat([self._decision.likeliest_groups(chunk) for chunk in chunks]).numpy(), X)

    def predict_in_group(self, X: Any, groups: Any) -> Any:
        """Labels of the rows of ``X`` by the heads of the given groups alone.

        With the true groups of the samples it tells what the model would reach if no group were ever mistaken.

        Parameters
        ----------
        X : features ``(n_samples, n_features)``.
        groups : index in ``class_groups_`` for every row, ``(n_samples,)``.
        """
        features = self._inputs(X).cpu()
        chosen = self._group_indices(groups, len(features))
        parts = zip(features.split(_ROWS_AT_ONCE), chosen.split(_ROWS_AT_ONCE), strict=True)
        scores = torch.cat([self._decision.inside(rows, own) for rows, own in parts])
        return like(self.classes_[scores.argmax(1).numpy()], X)

    def _group_indices(self, groups: Any, n: int) -> Tensor:
        array, last = np.asarray(groups.cpu() if isinstance(groups, Tensor) else groups), len(self.class_groups_) - 1
        if array.shape != (n,) or array.dtype.kind not in "iu":
            raise InputError(
                f"Groups of shape {array.shape} and type {array.dtype} were given; "
                f"expected is one whole number for each of the {n} rows."
            )
        if not ((array >= 0) & (array <= last)).all():
            raise InputError(f"Groups from {array.min()} to {array.max()} were given; this model has 0 to {last}.")
        return torch.from_numpy(array.astype(np.int64))

    def _log_probabilities(self, features: Tensor) -> Tensor:
        chunks = features.cpu().split(_ROWS_AT_ONCE)
        return torch.cat([self._decision.log_probabilities(chunk) for chunk in chunks])

    def network(self) -> PredictionNetwork:
        """``predict_proba`` as one torch network, for use elsewhere: ``(n, n_features)`` float32 to probabilities."""
        self._require_learnt()
        if self.identification in VOTERS:
            raise InputError(
                f"identification={self.identification!r} cannot be exported; only 'evidence' is a network."
            )
        derived, groups = self._derived, range(len(self._derived.groups))
        return PredictionNetwork(
            derived.discriminant,
            derived.view,
            "raw" if self.feature_transform == "none" else "root",
            projection_weights(self.n_features_in_, self.projection_dim, self.seed),
            [derived.columns[g] for g in groups],
            [derived.head(g).weights for g in groups],
            self.decision,
        ).eval()

    def explain(self, x: Any) -> Explanation:
        """Why one input ``(n_features,)`` gets its label: groups, rivals, novelty."""
        row = x[None] if isinstance(x, Tensor | np.ndarray) and x.ndim == 1 else [x] if np.ndim(x) == 1 else x
        features = self._inputs(row)
        if len(features) != 1:
            raise InputError(f"{len(features)} rows were given; explain takes one input at a time.")
        probabilities = self._log_probabilities(features).exp()[0]
        return explanation(self._derived, probabilities, float(np.asarray(self.novelty(features))[0]))

    # ---------------------------------------------------------------- derived state

    @property
    def class_groups_(self) -> ClassGroups:
        """The class groups, each a tuple of labels; no two of them are similar where groups are canonical or arrive."""
        return self._derived.groups

    @property
    def similarity_graph_(self) -> SimilarityGraph:
        """The graph of similar classes; ``.to_networkx()`` draws and analyses it."""
        return self._derived.graph

    @property
    def _derived(self) -> Derived:
        self._require_learnt()
        if self._memo.derived is None:
            arrived = getattr(self, "arrival_groups_", ())
            self._memo.derived = Derived(self.cards_, self._memo, self.distance, self.grouping, arrived, self.seed)
        return self._memo.derived

    @property
    def _decision(self) -> Decision:
        return Decision(self._derived, self.identification, self.decision, self._project)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        if "_memo" in state:
            state["_memo"] = Memo()
        return state

    # ---------------------------------------------------------------- model files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one file, atomically: a reader finds the old model or the new one."""
        self._require_learnt()
        keys = {label: f"{type(label).__name__}:{label}" for label in self.cards_}
        header = {
            "model": "GDDSG",
            "parameters": {name: _plain(value) for name, value in self.get_params().items() if name != "device"},
            "n_features": self.n_features_in_,
            "arrival_groups": [list(group) for group in getattr(self, "arrival_groups_", ())],
        }
        write_model(path, header, {keys[label]: card.to_bytes() for label, card in self.cards_.items()})

    @classmethod
    def load(cls, path: str | PathLike[str], device: str = "cpu") -> Self:
        """Read a model that :meth:`save` wrote. Opening a file never runs code from it."""
        header, cards = read_model(path)
        try:
            if header["model"] != "GDDSG":
                raise ValueError(f"it holds a {header['model']} model")
            model = cls(**header["parameters"], device=device)
            model._check_choices()
            model.n_features_in_ = int(header["n_features"])
            model.arrival_groups_ = tuple(tuple(group) for group in header["arrival_groups"])
            model._set_cards({_label(key): ClassCard.from_bytes(body) for key, body in cards.items()})
            model.classes_ = np.array(list(model.cards_))
            model._fix_settings()
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path} is not a GDDSG model this version can read: {error}.") from error
        return model


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _label(key: str) -> Label:
    kind, _, name = key.partition(":")
    return int(name) if kind == "int" else name
