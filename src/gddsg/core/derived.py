"""Everything that follows from a set of class cards, each part computed when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from gddsg.core.calibration import Novelty
from gddsg.core.class_card import ClassCard
from gddsg.core.discriminant import Discriminant
from gddsg.core.grouping import ClassGroups, Grouping, class_groups
from gddsg.core.identification import VOTERS, SoftVote
from gddsg.core.ridge import RidgeHead, ridge_head
from gddsg.core.scatter_pool import SampledSpectrum, ScatterPool
from gddsg.core.similarity_graph import Distance, Label, SimilarityGraph, similarity_graph
from gddsg.core.transform import View

_WORTH_THE_OTHER = 0.75  # times the usual view's expected error: the estimate is a rough one, so a tie changes nothing


@dataclass(eq=False)
class Memo:
    """What has been derived from the cards so far; thrown away, but for reusable parts, whenever a card changes."""

    pools: dict[View, tuple[ScatterPool, SampledSpectrum]] = field(default_factory=dict)
    heads: dict[tuple[Label, ...], tuple[tuple[ClassCard, ...], RidgeHead]] = field(default_factory=dict)
    derived: Derived | None = None

    def for_cards(self, cards: Mapping[Label, ClassCard]) -> Memo:
        """What of it can be used again for these cards: pools notice changes themselves, heads need all their cards."""
        return Memo(self.pools, {labels: head for labels, head in self.heads.items() if _fits(labels, head[0], cards)})


def _fits(labels: tuple[Label, ...], used: tuple[ClassCard, ...], cards: Mapping[Label, ClassCard]) -> bool:
    return all(cards.get(label) is card for label, card in zip(labels, used, strict=True))


@dataclass(eq=False)
class Derived:
    """Graph, groups, discriminant, novelty and heads of a set of cards.

    Parameters
    ----------
    cards : by label, sorted.
    memo : what may be used again.
    distance : of the similarity graph.
    grouping : how classes are put into groups.
    arrived : the groups so far, where they depend on the order of arrival.
    seed : of random groups and of the voters.
    """

    cards: Mapping[Label, ClassCard]
    memo: Memo
    distance: Distance
    grouping: Grouping
    arrived: ClassGroups
    seed: int
    _voters: dict[str, SoftVote] = field(default_factory=dict, init=False)

    @cached_property
    def graph(self) -> SimilarityGraph:
        """Which classes look alike."""
        return similarity_graph(self.cards, self.distance)

    @cached_property
    def groups(self) -> ClassGroups:
        """The classes, group by group."""
        return class_groups(self.grouping, self.graph, self.arrived, self.seed)

    @cached_property
    def columns(self) -> dict[int, list[int]]:
        """Places among the sorted classes that belong to each group."""
        position = {label: i for i, label in enumerate(self.cards)}
        return {g: [position[label] for label in group] for g, group in enumerate(self.groups)}

    @cached_property
    def group_of_class(self) -> Tensor:
        """``(n_classes,)``."""
        groups = torch.zeros(len(self.cards), dtype=torch.long)
        for group, columns in self.columns.items():
            groups[columns] = group
        return groups

    @cached_property
    def _chosen(self) -> tuple[View, Discriminant]:
        """The view of the features and its discriminant: the usual one, unless the other has a far smaller error."""
        cards = self.cards.values()
        by_habit: tuple[View, View] = ("raw", "root") if any(card.signed for card in cards) else ("root", "raw")
        views = [view for view in by_habit if all(getattr(card, view) is not None for card in cards)]
        chosen, *others = [(view, self._discriminant(view)) for view in views]
        for other in others:
            if other[1].whitening.expected_error < _WORTH_THE_OTHER * chosen[1].whitening.expected_error:
                return other
        return chosen

    def _discriminant(self, view: View) -> Discriminant:
        moments = {label: getattr(card, view) for label, card in self.cards.items()}
        pool, sample = self.memo.pools.setdefault(view, (ScatterPool(), SampledSpectrum()))
        total = pool.total(moments)
        return Discriminant(list(moments.values()), total, sample.of(moments, total))

    @property
    def view(self) -> View:
        """How the discriminant sees the features."""
        return self._chosen[0]

    @property
    def discriminant(self) -> Discriminant:
        """Evidence for every class."""
        return self._chosen[1]

    @cached_property
    def novelty(self) -> Novelty:
        """How unlike every class an input is."""
        return Novelty(self.discriminant)

    def voters(self, identification: str) -> SoftVote:
        """The classifiers that identify the group, by a name of :data:`gddsg.core.identification.VOTERS`."""
        if identification not in self._voters:
            members = VOTERS[identification]
            self._voters[identification] = SoftVote(self.discriminant, self.group_of_class, self.seed, members)
        return self._voters[identification]

    def head(self, group: int) -> RidgeHead:
        """The group's ridge head; solved again only when one of its cards changed."""
        labels = self.groups[group]
        cards = tuple(self.cards[label] for label in labels)
        if labels not in self.memo.heads:
            self.memo.heads[labels] = (cards, ridge_head(cards))
        return self.memo.heads[labels][1]
