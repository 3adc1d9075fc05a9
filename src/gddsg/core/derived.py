"""What follows from a set of class cards, each part computed once, when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gddsg.core.class_card import ClassCard
from gddsg.core.decision import DecisionMode
from gddsg.core.discriminant import Discriminant, moments_in, scatter_weight
from gddsg.core.grouping import Block, ClassGroups, Grouping, class_groups
from gddsg.core.identification import VOTERS, Identification, SoftVote
from gddsg.core.known_inputs import KnownInputs
from gddsg.core.label import Label
from gddsg.core.large_classes import Frame, Kept, LargeClasses
from gddsg.core.large_predictor import LARGE_CLASSES
from gddsg.core.metric import Metric, sample_classes, shared_metric
from gddsg.core.once import Lazy, Part
from gddsg.core.predictor import Floats, Predictor
from gddsg.core.projection import exact_projection_weights
from gddsg.core.ridge import ridge_head
from gddsg.core.similarity_graph import Distance, SimilarityGraph, similarity_graph
from gddsg.core.transform import View

Heads = tuple[tuple[tuple[int, ...], Lazy[Floats]], ...]
"""Of every group the hashes of its cards, and its head."""


class Derived:
    """Metric, discriminant, groups, heads and novelty of a set of cards.

    Parameters
    ----------
    cards : mapping of Label to ClassCard
        In canonical order.
    grouping : str
        How classes are put into groups.
    distance : str
        Of the similarity graph.
    arrived : tuple of tuple of Label
        The groups, where they depend on the order of arrival.
    seed : int
        Of random groups and of voters.
    headless : bool
        Whether there are no heads: then all classes are one group.
    kept : Kept or None
        What the file of the cards keeps of what follows from them, if they are very many.
    before : Derived or None
        What follows from the cards of the predecessor; parts that still hold are taken over.

    Attributes
    ----------
    cards : mapping of Label to ClassCard
        As given.
    large : bool
        Whether these are so many classes, without heads, that cards stay in their file.
    """

    def __init__(
        self,
        cards: Mapping[Label, ClassCard],
        *,
        grouping: Grouping,
        distance: Distance,
        arrived: ClassGroups,
        seed: int,
        headless: bool = False,
        kept: Kept | None = None,
        before: Derived | None = None,
    ) -> None:
        self.cards, self._grouping, self._distance = cards, "one" if headless else grouping, distance
        self._arrived, self._seed, self._kept = arrived, seed, kept
        self.large = headless and len(cards) > LARGE_CLASSES
        self._kept_frame: Frame | None = None
        if self.large and before is not None and before.large:
            before._large()  # nobody may have asked a model that was just read; its blocks are in the file
        self._metric: Part[Metric] = Part(self._find_metric, None if before is None else before._metric)
        self._discriminant: Part[Discriminant] = Part(
            self._find_discriminant, None if before is None else before._discriminant
        )
        self._large: Part[LargeClasses] = Part(self._find_large, None if before is None else before._large)
        self._groups: Part[dict[Block, ClassGroups]] = Part(
            self._find_groups, None if before is None else before._groups
        )
        self._heads: Part[Heads] = Part(self._find_heads, None if before is None else before._heads)
        self._known: Part[KnownInputs] = Part(self._find_known, None if before is None else before._known)
        self._novelty = Lazy(lambda: self._known().novelty())
        self._votes = {name: Lazy(partial(self._find_vote, name)) for name in VOTERS}

    # ---------------------------------------------------------------- parts

    def _find_metric(self, earlier: Metric | None) -> Metric:
        cards = self.cards.values()
        sample, rooted = sample_classes(cards), all(card.rooted for card in cards)
        if earlier is not None and (earlier.rooted, earlier.sample) == (rooted, sample):
            return earlier
        if self._kept is not None and self.large:
            self._kept_frame = self._kept.frame(sample, rooted)
        return shared_metric(sample, rooted) if self._kept_frame is None else self._kept_frame.metric

    def _find_large(self, earlier: LargeClasses | None) -> LargeClasses:
        metric, known = self._metric(), [self._kept_frame, None if earlier is None else earlier.frame]
        frame = next((one for one in known if one is not None and one.metric is metric), None)
        return LargeClasses.of(frame or Frame.of(metric), tuple(self.cards.values()), earlier, self._kept)

    def _find_discriminant(self, earlier: Discriminant | None) -> Discriminant:
        return Discriminant.of(self._metric(), tuple(self.cards.values()), earlier)

    def _find_groups(self, earlier: dict[Block, ClassGroups] | None) -> dict[Block, ClassGroups]:
        if self._grouping in ("arrival", "task"):
            return {((), ()): self._arrived}
        return class_groups(self._grouping, self.cards, self._distance, self._seed, earlier or {})

    def _find_heads(self, earlier: Heads | None) -> Heads:
        known, heads = dict(earlier or ()), []
        for group in self.groups:
            cards = [self.cards[label] for label in group]
            keys = tuple([card.key for card in cards])
            heads.append((keys, known.get(keys) or Lazy(partial(_solve_head, cards))))
        return tuple(heads)

    def _find_known(self, earlier: KnownInputs | None) -> KnownInputs:
        return KnownInputs.of(self._discriminant(), earlier)

    def _find_vote(self, identification: str) -> SoftVote:
        group_of = _group_of(self._members(), len(self.cards))
        return SoftVote(self._discriminant(), group_of, self._seed, VOTERS[identification])

    # ---------------------------------------------------------------- answers

    @property
    def metric(self) -> Metric:
        """What all classes share."""
        return self._metric()

    @property
    def large_classes(self) -> LargeClasses:
        """What a large model keeps of its classes beside their cards."""
        return self._large()

    @property
    def groups(self) -> ClassGroups:
        """The classes, group by group."""
        return tuple(group for block in self._groups().values() for group in block)

    def graph(self, labels: Sequence[Label]) -> SimilarityGraph:
        """Which classes look alike, in the order of ``labels``; for people and pictures, predictions need none."""
        return similarity_graph({label: self.cards[label] for label in labels}, self._distance)

    def _members(self) -> list[NDArray[np.intp]]:
        place = {label: i for i, label in enumerate(self.cards)}
        return [np.array([place[label] for label in group], dtype=np.intp) for group in self.groups]

    def predictor(
        self,
        labels: NDArray[Any],
        *,
        mode: DecisionMode,
        identification: Identification,
        projected_view: View,
        projection_dim: int,
    ) -> Predictor:
        """What answers, with columns in the order of ``labels``."""
        place = {label: i for i, label in enumerate(self.cards)}
        columns = np.array([place[label] for label in labels.tolist()], dtype=np.intp)
        projection = partial(exact_projection_weights, self._metric().sample[0].raw.dim, projection_dim, self._seed)
        if self.large:
            return self._large().predictor(labels, columns, projection, self._novelty)
        discriminant, heads, metric = self._discriminant(), self._heads(), self._metric()
        means, members = [part() for part in discriminant.means.values()], self._members()
        return Predictor(
            labels=labels,
            columns=columns,
            view=metric.view,
            projected_view=projected_view,
            mode=mode,
            temperature=metric.temperature,
            whitener=metric.whitener.numpy(),
            means=tuple(part.whitened for part in means),
            biases=np.concatenate([part.biases for part in means]),
            ready=discriminant.ready,
            centres=tuple(row for part in means for row in (part.whitened if discriminant.ready else part.solved())),
            own=tuple([discriminant.own[card.key] for card in self.cards.values()]),
            own_weights=np.array([scatter_weight(metric, moments_in(metric, card)) for card in self.cards.values()]),
            groups=tuple(members),
            group_of=_group_of(members, len(labels)),
            heads=tuple([head for _, head in heads]),
            projection=projection,
            vote=None if identification == "evidence" else lambda x: self._votes[identification]().probabilities(x),
            novelty=self._novelty,
        )


def _group_of(members: Sequence[NDArray[np.intp]], n_classes: int) -> NDArray[np.intp]:
    groups = np.empty(n_classes, dtype=np.intp)
    for group, own in enumerate(members):
        groups[own] = group
    return groups


def _solve_head(cards: Sequence[ClassCard]) -> Floats:
    if cards[0].projected.dim == 0:
        return np.empty((0, len(cards)))
    return np.ascontiguousarray(ridge_head(cards).weights.numpy())  # as files keep it: products then round alike
