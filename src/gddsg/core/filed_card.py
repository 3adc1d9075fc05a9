"""A class card that stays in its file until somebody asks for more than a glance at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from gddsg.core.card_format import MALFORMED, unpack
from gddsg.core.class_card import ClassCard, SampleIds
from gddsg.core.coded_rows import CodedRows
from gddsg.core.moments import CodedMoments
from gddsg.core.near_copies import NO_SKETCHES, Sketches
from gddsg.core.transform import View
from gddsg.errors import InputError, ModelFileError


@dataclass(frozen=True)
class Glance:
    """What is known of a card without reading it.

    Attributes
    ----------
    key, count, distinct : int
        See :class:`gddsg.core.class_card.ClassCard`.
    thinned_key : int
        Key of the card in which near copies weigh as one.
    rooted : bool
        Whether it has moments of square roots.
    sampled : bool
        Whether it has ids of samples.
    """

    key: int
    count: int
    distinct: int
    thinned_key: int
    rooted: bool
    sampled: bool

    @classmethod
    def of(cls, card: ClassCard) -> Glance:
        """What a card looks like."""
        if isinstance(card, FiledCard):
            return card.glance
        return cls(card.key, card.count, card.distinct, card.thinned.key, card.rooted, len(card.sample_ids) > 0)


class Source(Protocol):
    """A file of cards."""

    def read(self, name: str) -> bytes:
        """The bytes of the row of that name."""


class FiledCard(ClassCard):
    """A card of a large model: a glance at it in memory, all else in the file.

    Parameters
    ----------
    glance : Glance
        What it looks like.
    source : Source
        The file, which is asked each time.
    name : str
        Of its row.
    rank : int
        The model's.
    digest : bytes
        Of its row.
    thin : bool
        Whether near copies weigh as one.
    """

    glance: Glance
    source: Source
    name: str
    rank: int
    digest: bytes
    thin: bool

    def __init__(self, glance: Glance, source: Source, name: str, rank: int, digest: bytes, thin: bool = False) -> None:
        values = {"glance": glance, "source": source, "name": name, "rank": rank, "digest": digest, "thin": thin}
        # the fields of a frozen dataclass are set once, here
        self.__dict__.update(values, key=glance.thinned_key if thin else glance.key)

    def whole(self) -> ClassCard:
        """The card, read from the file now."""
        card = ClassCard.from_bytes(self.source.read(self.name), self.rank)
        if Glance.of(card) != self.glance:
            raise ModelFileError("A card of this model is not what its index says. Do not use the file.")
        return card.thinned if self.thin else card

    @property
    def count(self) -> int:
        """Number of samples."""
        return self.glance.distinct if self.thin else self.glance.count

    @property
    def rooted(self) -> bool:
        """Whether the card has moments of square roots."""
        return self.glance.rooted

    @property
    def distinct(self) -> int:
        """Number of samples where near copies of each other count as one."""
        return self.glance.distinct

    @property
    def thinned(self) -> ClassCard:
        """What the card says of its class, with no more weight than its distinct samples have."""
        if self.count == self.distinct:
            return self
        return FiledCard(self.glance, self.source, self.name, self.rank, self.digest, thin=True)

    def factor(self, view: View) -> CodedRows:
        """Directions of the scatter, without the rest of the card."""
        try:
            _, arrays = unpack(self.source.read(self.name))
            name = view if f"{view}.codes" in arrays else "raw"
            rows = CodedRows(arrays[f"{name}.codes"], arrays[f"{name}.scales"])
        except MALFORMED as error:
            raise InputError(f"A card of this model is damaged ({error}). Do not use the file.") from error
        return rows.thinned(self.glance.count, self.count)

    # what a card has, each time from the file

    @property
    def unit_sum(self) -> Tensor:
        """Sum of x / ‖x‖."""
        return self.whole().unit_sum

    @property
    def root(self) -> CodedMoments | None:
        """Of the square roots of the features."""
        return self.whole().root

    @property
    def raw(self) -> CodedMoments:
        """Of the features as they are."""
        return self.whole().raw

    @property
    def projected(self) -> CodedMoments:
        """Of the projected features, learning share."""
        return self.whole().projected

    @property
    def held_out(self) -> CodedMoments:
        """Of the projected features, held-out share."""
        return self.whole().held_out

    @property
    def sample_ids(self) -> SampleIds:
        """Ids of the samples that were given one."""
        return self.whole().sample_ids if self.glance.sampled else np.empty(0, dtype=np.uint64)

    @property
    def sketches(self) -> Sketches:
        """Of the samples that were given an id."""
        return self.whole().sketches if self.glance.sampled else NO_SKETCHES

    def view(self, view: View) -> CodedMoments | None:
        """Moments of the features seen in one of two ways."""
        return self.whole().view(view)

    def merge(self, other: ClassCard, rank: int) -> ClassCard:
        """The card of both sets of samples of the class together."""
        return self.whole().merge(other, rank)

    def to_bytes(self) -> bytes:
        """The card as bytes."""
        return self.whole().to_bytes() if self.thin else self.source.read(self.name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FiledCard):
            return (self.key, self.digest) == (other.key, other.digest)
        return super().__eq__(other)

    def __hash__(self) -> int:
        return self.key

    def __reduce__(self) -> tuple[Any, ...]:
        return ClassCard.from_bytes, (self.to_bytes(), self.rank)
