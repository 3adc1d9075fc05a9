"""The model: an immutable value from which everything else follows."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gddsg.core.backbone_identity import same_backbone
from gddsg.core.canonical_order import by_content
from gddsg.core.class_card import ClassCard, SampleIds
from gddsg.core.decision import DecisionMode
from gddsg.core.derived import Derived
from gddsg.core.explanation import Explanation, explain
from gddsg.core.filed_card import FiledCard
from gddsg.core.grouping import ClassGroups, Grouping, groups_on_arrival, without
from gddsg.core.identification import Identification
from gddsg.core.label import Label, checked_label
from gddsg.core.large_classes import Kept
from gddsg.core.memory_limit import check_memory
from gddsg.core.near_copies import Sketches
from gddsg.core.once import Lazy
from gddsg.core.predictor import Features, Predictor
from gddsg.core.projection import project
from gddsg.core.similarity_graph import Distance, SimilarityGraph, similarity_graph
from gddsg.core.transform import signed_root
from gddsg.errors import InputError, UnknownClassError
from gddsg.wording import counted, listed, similar_names


@dataclass(frozen=True)
class Settings:
    """How a model learns and decides.

    Attributes
    ----------
    projection_dim : int
        M, width of the random projection under the heads. With 0 there are no heads and the discriminant decides alone:
        all classes are one group, since nothing needs more.
    rank : int
        Directions kept of a class's scatter; heads and the other view of the features keep fewer.
    grouping : str
        ``"canonical"`` colours the graph of all classes; ``"arrival"`` is the paper's rule, in which old classes
        never move, so that groups depend on the order of arrival. For comparison: ``"one"`` group of all classes; as
        many groups as canonical ones, ``"random"`` or ``"similar"`` of classes that look alike; and ``"task"``, a
        group for the new classes of each batch.
    identification : str
        ``"evidence"``, a regularised quadratic discriminant; or ``"vote"``, the paper's soft vote of random forest,
        nearest neighbours and LightGBM. One classifier alone: ``"forest"``, ``"knn"``, ``"lightgbm"``, ``"tree"`` or
        ``"mlp"``.
    decision : str
        ``"soft"`` weighs all groups by their probability; ``"hard"`` commits to the likeliest group and takes its
        head's best class, as the paper does. For comparison: ``"ungated"`` lets the heads of all groups compete,
        ``"evidence"`` takes the discriminant's word and asks neither groups nor heads.
    feature_transform : str
        ``"auto"`` takes the square root of features that are never negative, unless classes lie farther apart without
        it, and leaves others as they are; ``"none"`` always leaves features as they are.
    distance : str
        Between class centroids, for the similarity graph: ``"cosine"`` or ``"euclidean"``.
    backbone : str or None
        Name and fingerprint of what made the features; saved, and models of different backbones do not merge.
    seed : int
        Of the random projection.
    """

    projection_dim: int = 2_000
    rank: int = 64
    grouping: Grouping = "canonical"
    identification: Identification = "evidence"
    decision: DecisionMode = "soft"
    feature_transform: Literal["auto", "none"] = "auto"
    distance: Distance = "cosine"
    backbone: str | None = None
    seed: int = 0

    @property
    def plain(self) -> bool:
        """Whether features are always taken as they are."""
        return self.feature_transform == "none"

    @property
    def headless(self) -> bool:
        """Whether the model has no heads."""
        return self.projection_dim == 0

    @property
    def _asks_for_groups(self) -> bool:
        usual = self.grouping in ("canonical", "one") and self.identification == "evidence"
        return not usual or self.decision not in ("soft", "evidence")

    def check(self) -> None:
        """Refuse settings that make no sense."""
        for name, low, high in (("projection_dim", 0, 2**31), ("rank", 1, 2**31), ("seed", 0, 2**32)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value < high:
                raise InputError(f"{name}={value!r} was given; expected a whole number from {low} to {high - 1}.")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InputError(f"{name}={getattr(self, name)!r} was given; expected one of {', '.join(choices)}.")
        if self.headless and self._asks_for_groups:
            raise InputError(
                f"projection_dim=0 was given, a model without heads, with grouping={self.grouping!r}, "
                f"identification={self.identification!r} and decision={self.decision!r}. Without heads there is "
                "nothing to group for: leave these at what they are by default, or choose a projection_dim above 0."
            )
        if not isinstance(self.backbone, str | None) or len(self.backbone or "") > _LONGEST_BACKBONE:
            raise InputError(f"backbone={self.backbone!r} was given; expected a name with a fingerprint, or None.")


_CHOICES: dict[str, tuple[str, ...]] = {
    "grouping": get_args(Grouping),
    "identification": get_args(Identification),
    "decision": get_args(DecisionMode),
    "feature_transform": ("auto", "none"),
    "distance": get_args(Distance),
}

_LONGEST_BACKBONE = 4096  # letters of its name, which may be the path of a folder
_ASKED_ABOUT = 64  # classes: enough to find a decomposition that failed, and no burden for a model of thousands
_LARGE_ASKED_ABOUT = 8  # each of these takes milliseconds
_UNSOUND = (
    "The model that would come of this cannot predict{}. Nothing was changed. Look at the features of its classes: "
    "they may be damaged, or of sizes that do not go together."
)

_SAME_TO_MERGE = ("projection_dim", "rank", "seed", "feature_transform", "backbone")


@dataclass(frozen=True, eq=False)
class Model:
    """Settings, class cards and, where groups depend on arrival, the groups so far. Never changed, only succeeded.

    :meth:`plus`, :meth:`without`, :meth:`renamed` and :meth:`merged` each give another model. What follows from the
    cards is computed when it is first asked for, once, whoever asks, and handed on to the successor as far as it
    still holds there. So one thread may learn while any number of others predict: each has a model, and a model stays.

    Attributes
    ----------
    settings : Settings
        How it learns and decides.
    cards : mapping of Label to ClassCard
        Sorted by label, read-only; empty for a model that has learnt nothing.
    arrival_groups : tuple of tuple of Label
        The groups in order of arrival, for the ways of grouping that depend on it.

    Examples
    --------
    >>> model = Model(Settings(projection_dim=8))
    >>> batch = model.make_cards(torch.eye(4), ["cat", "cat", "dog", "dog"])
    >>> grown = model.plus(batch)
    >>> model.labels, grown.labels, grown.without("dog").labels
    ((), ('cat', 'dog'), ('cat',))
    """

    settings: Settings
    cards: Mapping[Label, ClassCard] = field(default_factory=dict)
    arrival_groups: ClassGroups = ()
    derived: Derived = field(init=False, repr=False)
    _before: Derived | None = field(default=None, repr=False)
    _kept: Kept | None = field(default=None, repr=False)
    _predictor: Lazy[Predictor] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        cards = {label: self.cards[label] for label in sorted(self.cards)}
        derived = Derived(
            _counted(cards),
            grouping=self.settings.grouping,
            distance=self.settings.distance,
            arrived=self.arrival_groups,
            seed=self.settings.seed,
            headless=self.settings.headless,
            kept=self._kept,
            before=self._before,
        )
        object.__setattr__(self, "cards", MappingProxyType(cards))
        object.__setattr__(self, "derived", derived)
        object.__setattr__(self, "_before", None)  # what is still of use has been handed over
        object.__setattr__(self, "_kept", None)
        object.__setattr__(self, "_predictor", Lazy(self._make_predictor))

    def __reduce__(self) -> tuple[Any, ...]:
        return Model, (self.settings, dict(self.cards), self.arrival_groups)

    # ---------------------------------------------------------------- what it knows

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes, sorted."""
        return tuple(self.cards)

    @property
    def feature_dim(self) -> int | None:
        """Width of the features; None where nothing has been learnt."""
        return next((card.raw.dim for card in self.cards.values()), None)

    @property
    def backbone(self) -> str | None:
        """What made the features, see :class:`Settings`."""
        return self.settings.backbone

    def label_samples(self) -> dict[int, Label]:
        """Label by sample id, of all samples that were learnt with one."""
        return {sample: label for label, card in self.cards.items() for sample in card.sample_ids.tolist()}

    def label_sketches(self) -> dict[Label, Sketches]:
        """Sketches of the samples that were learnt with an id, by label; see :mod:`gddsg.core.near_copies`."""
        return {label: card.sketches for label, card in self.cards.items()}

    # ---------------------------------------------------------------- successors

    def make_cards(
        self, features: Tensor, labels: Sequence[Label], sample_ids: SampleIds | None = None
    ) -> dict[Label, ClassCard]:
        """Cards of a labelled batch, for :meth:`plus`; samples that were learnt before are left out.

        Parameters
        ----------
        features : Tensor
            ``(n_samples, n_features)`` float32.
        labels : sequence of Label
            One a row.
        sample_ids : ndarray or None
            uint64, one a row, to tell samples apart by.
        """
        check_memory(features.shape[1], self.settings.projection_dim)
        new = np.ones(len(labels), dtype=bool) if sample_ids is None else self._find_new(sample_ids, labels)
        rows: dict[Label, list[int]] = {label: [] for label in sorted(set(labels))}
        for row in np.flatnonzero(new).tolist():
            rows[labels[row]].append(row)

        def card(own: list[int]) -> ClassCard:
            return ClassCard.of(
                features[torch.tensor(own, device=features.device)],
                self._project,
                self.settings.rank,
                plain=self.settings.plain,
                sample_ids=None if sample_ids is None else sample_ids[own],
            )

        learnt = {label: own for label, own in rows.items() if own}
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # a card takes one thread
            return dict(zip(learnt, pool.map(card, learnt.values()), strict=True))

    def _find_new(self, ids: SampleIds, labels: Sequence[Label]) -> NDArray[np.bool_]:
        """Rows whose sample is new; the same sample under two labels is an error."""
        label_of, new = self.label_samples(), np.zeros(len(ids), dtype=bool)
        for row, (sample, label) in enumerate(zip(ids.tolist(), labels, strict=True)):
            new[row] = sample not in label_of
            if label_of.setdefault(sample, label) != label:
                raise InputError(
                    f"Sample {sample} is given as {label!r} but was learnt as {label_of[sample]!r}. "
                    "Drop it from the batch, or forget the class it was wrongly learnt as."
                )
        return new

    def _project(self, features: Tensor) -> Tensor:
        view = features if self.settings.plain else signed_root(features)
        return project(view, self.settings.projection_dim, self.settings.seed)

    def plus(self, cards: Mapping[Label, ClassCard]) -> Model:
        """The model that has learnt these cards too: new classes, or more samples of known ones."""
        known, rank = self.cards, self.settings.rank
        for label in cards.keys() - known.keys():
            checked_label(label)
        merged = {k: known[k].merge(card, rank) if k in known else card for k, card in cards.items()}
        if self.derived.large:
            merged = {k: FiledCard.carried(card, rank) for k, card in merged.items()}
        everything = {**known, **merged}
        arrived = self._arrived(everything, cards.keys() - self.cards.keys())
        return Model(self.settings, everything, arrived, self.derived)

    def _arrived(self, cards: Mapping[Label, ClassCard], newcomers: Collection[Label]) -> ClassGroups:
        grouping = self.settings.grouping
        if grouping not in ("arrival", "task") or not newcomers:
            return self.arrival_groups
        graph = similarity_graph(_counted(cards), self.settings.distance)
        return groups_on_arrival(grouping, self.arrival_groups, graph, newcomers)

    def without(self, label: Label) -> Model:
        """The model as if it had never learnt the class (with canonical groups); nothing derived from it is kept."""
        self._require(label)
        kept = {k: card for k, card in self.cards.items() if k != label}
        return Model(self.settings, kept, without(self.arrival_groups, label), self._of_other_classes())

    def _of_other_classes(self) -> Derived | None:
        """What a successor without one of the cards may start from.

        Small models derive all anew, which is quick and beyond doubt. Large ones take over what goes by the hashes of
        its cards, the forgotten one not among them.
        """
        return self.derived if self.derived.large else None

    def relearnt(self, label: Label, card: ClassCard) -> Model:
        """The model as if it had learnt the class from other samples; nothing derived from the old card is kept."""
        self._require(label)
        if self.derived.large:
            card = FiledCard.carried(card, self.settings.rank)
        return Model(self.settings, {**self.cards, label: card}, self.arrival_groups, self._of_other_classes())

    def renamed(self, old: Label, new: Label) -> Model:
        """The model with another name for a class; nothing else changes."""
        self._require(old)
        if type(new) is not type(old):
            raise InputError(f"{new!r} was given as the new name of {old!r}; names of one model are of one type.")
        if new in self.cards:
            raise InputError(
                f"There is a class {new!r} already. Choose another name for {old!r}, or forget one of them."
            )
        checked_label(new)
        arrived = tuple(tuple(new if k == old else k for k in group) for group in self.arrival_groups)
        cards = {new if k == old else k: card for k, card in self.cards.items()}
        return Model(self.settings, cards, arrived, self.derived)

    def merged(self, other: Model) -> Model:
        """The model that has learnt what both have; they must share features, projection and rank."""
        self._check_mergeable(other)
        return self.plus(other.cards)

    def configured(self, identification: Identification, decision: DecisionMode) -> Model:
        """The same cards, and all that follows from them, with another way to identify groups and to decide."""
        if (identification, decision) == (self.settings.identification, self.settings.decision):
            return self
        settings = replace(self.settings, identification=identification, decision=decision)
        other = Model(settings, self.cards, self.arrival_groups)
        object.__setattr__(other, "derived", self.derived)  # nothing that follows from cards depends on these two
        return other

    def of_backbone(self, backbone: str) -> Model:
        """The same cards, and all that follows from them, with another name for the same backbone."""
        if backbone == self.settings.backbone:
            return self
        return Model(replace(self.settings, backbone=backbone), self.cards, self.arrival_groups, self.derived)

    def _require(self, label: Label) -> None:
        if isinstance(label, Hashable) and label in self.cards:
            return
        names = {str(known): known for known in self.labels}
        meant = " or ".join(repr(names[name]) for name in similar_names(str(label), names))
        raise UnknownClassError(
            f"The class {label!r} is not in this model.{f' Did you mean {meant}?' if meant else ''} It has "
            + (f"{counted(len(names), 'class')}: {listed(self.labels)}." if names else "no classes yet.")
        )

    def _check_mergeable(self, other: Model) -> None:
        pairs: dict[str, tuple[Any, Any]] = {
            name: (getattr(self.settings, name), getattr(other.settings, name)) for name in _SAME_TO_MERGE
        }
        if same_backbone(*pairs["backbone"]):
            del pairs["backbone"]
        if self.cards and other.cards:
            pairs["number of features"] = (self.feature_dim, other.feature_dim)
            pairs["type of labels"] = (type(self.labels[0]).__name__, type(other.labels[0]).__name__)
        differing = [f"{name} ({a!r} here, {b!r} there)" for name, (a, b) in pairs.items() if a != b]
        if differing:
            raise InputError(f"These models cannot be merged, they differ in {', '.join(differing)}. Learn one again.")
        known = self.label_samples()
        shared = sum(sample in known for sample in other.label_samples())
        if shared:
            raise InputError(
                f"{counted(shared, 'sample')} {'was' if shared == 1 else 'were'} learnt by both models and would count "
                "twice. "
                "Merge models of different samples; a model that holds all of the other's needs no merging."
            )

    # ---------------------------------------------------------------- what follows from it

    @property
    def graph(self) -> SimilarityGraph:
        """The graph of similar classes."""
        self._require_classes()
        if self.derived.large:
            raise InputError(
                f"This model has {len(self.cards)} classes, and a table of all pairs would take "
                f"{len(self.cards) ** 2 * 8 / 1e9:.0f} GB. Ask for similar_pairs(model.cards) of "
                "gddsg.core.similarity_graph, which has no such table."
            )
        return self.derived.graph(self.labels)

    @property
    def groups(self) -> ClassGroups:
        """The class groups, each a tuple of labels."""
        return self.derived.groups

    @property
    def predictor(self) -> Predictor:
        """What answers."""
        return self._predictor()

    def _require_classes(self) -> None:
        if not self.cards:
            raise InputError("This model has learnt no class yet, or all of them were forgotten. Learn some first.")

    def _make_predictor(self) -> Predictor:
        self._require_classes()
        settings = self.settings
        return self.derived.predictor(
            np.array(self.labels),
            mode="evidence" if settings.headless else settings.decision,
            identification=settings.identification,
            projected_view="raw" if settings.plain else "root",
            projection_dim=settings.projection_dim,
        )

    def check_answers(self) -> None:
        """Refuse a model that cannot predict, before anybody relies on it: it is asked about centroids of its classes.

        Raises
        ------
        InputError
            If an answer is no probability, or there is none.
        """
        if not self.cards:
            return
        asked = _LARGE_ASKED_ABOUT if self.derived.large else _ASKED_ABOUT
        some = [card.centroid for card in islice(self.derived.cards.values(), asked)]
        features = torch.stack(some).float().numpy()
        voteless = self.configured("evidence", self.settings.decision)  # voters may need what is not installed here
        try:
            sums = np.exp(voteless.predictor.predict_log_proba(features)).sum(1)
            sound = bool(np.allclose(sums, 1))
            if not self.derived.large:  # of a large model, what counts as unknown takes minutes to derive
                sound = sound and bool(np.isfinite(voteless.predictor.measure_novelty(features)).all())
        except (ArithmeticError, RuntimeError, ValueError) as error:  # what NumPy and torch raise about numbers
            raise InputError(_UNSOUND.format(f" ({error})")) from error
        if not sound:
            raise InputError(_UNSOUND.format(""))

    def explain(self, features: Features) -> Explanation:
        """Why one input ``(1, n_features)`` gets its label: groups, rivals, novelty."""
        if len(features) != 1:
            raise InputError(f"{len(features)} rows were given; explain takes one input at a time.")
        return explain(self.predictor, self.graph, self.groups, features)


def _counted(cards: Mapping[Label, ClassCard]) -> dict[Label, ClassCard]:
    """The cards in canonical order, near copies counted as one."""
    return by_content({label: card.thinned for label, card in cards.items()})
