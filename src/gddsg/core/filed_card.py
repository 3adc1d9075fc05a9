"""A class card that stays in its file until somebody asks for more than a glance at it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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

    def read(self, name: str, digest: bytes) -> bytes:
        """The bytes of the row of that name; an error if they have another digest."""


@dataclass(frozen=True)
class Row:
    """Where a card lies.

    Attributes
    ----------
    source : Source
        The file, which is asked each time.
    name : str
        Of the row.
    digest : bytes
        Of the row.
    """

    source: Source
    name: str
    digest: bytes


class FiledCard(ClassCard):
    """A card of a large model: a glance at it in memory, all else in the file.

    What it says never changes, but where it is kept does. A newcomer is in memory until somebody has written it to a
    file and lays it down there; a card whose row is about to go is picked up again.

    Parameters
    ----------
    glance : Glance
        What it looks like.
    rank : int
        The model's.
    place : Row or ClassCard
        Where it lies; else the card itself.
    """

    glance: Glance
    rank: int
    place: Row | ClassCard
    origin: FiledCard | None

    def __init__(self, glance: Glance, rank: int, place: Row | ClassCard, origin: FiledCard | None = None) -> None:
        key = glance.key if origin is None else glance.thinned_key
        # the fields of a frozen dataclass are set once, here; the place is no part of the value
        self.__dict__.update(glance=glance, rank=rank, place=place, origin=origin, key=key)

    @classmethod
    def carried(cls, card: ClassCard, rank: int) -> FiledCard:
        """The card for a model of that rank: it lies where it lay, or is in memory."""
        return cls(Glance.of(card), rank, card.place if isinstance(card, FiledCard) else card)

    def pick_up(self) -> None:
        """Be in memory from now on."""
        self.__dict__["place"] = self.whole()

    def lay_down(self, row: Row) -> None:
        """Be in a row that holds these bytes from now on."""
        self.__dict__["place"] = row

    def whole(self) -> ClassCard:
        """The card, read now."""
        if self.origin is not None:
            return self.origin.whole().thinned
        body = self._read()
        if isinstance(body, ClassCard):
            return body
        card = ClassCard.from_bytes(body, self.rank)
        if Glance.of(card) != self.glance:
            raise ModelFileError("A card of this model is not what its index says. Do not use the file.")
        return card

    def _read(self) -> bytes | ClassCard:
        """The bytes in the file, or the card itself if it is in memory."""
        place = self.place
        try:
            return place if isinstance(place, ClassCard) else place.source.read(place.name, place.digest)
        except ModelFileError:
            if place is self.place:
                raise
            return self._read()  # somebody has picked it up in the meantime

    @cached_property
    def count(self) -> int:
        """Number of samples."""
        return self.glance.count if self.origin is None else self.glance.distinct

    @cached_property
    def rooted(self) -> bool:
        """Whether the card has moments of square roots."""
        return self.glance.rooted

    @cached_property
    def distinct(self) -> int:
        """Number of samples where near copies of each other count as one."""
        return self.glance.distinct

    @property
    def thinned(self) -> ClassCard:
        """What the card says of its class, with no more weight than its distinct samples have."""
        return self if self.count == self.distinct else FiledCard(self.glance, self.rank, self, origin=self)

    def factor(self, view: View) -> CodedRows:
        """Directions of the scatter, without the rest of the card."""
        body = (self.origin or self)._read()
        rows = body.factor(view) if isinstance(body, ClassCard) else _factor(body, view)
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
        body = self._read() if self.origin is None else self.whole()
        return body.to_bytes() if isinstance(body, ClassCard) else body

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FiledCard) and isinstance(self.place, Row) and self.place == other.place:
            return self.key == other.key
        return super().__eq__(other)

    def __hash__(self) -> int:
        return self.key

    def __reduce__(self) -> tuple[Any, ...]:
        return ClassCard.from_bytes, (self.to_bytes(), self.rank)


def _factor(body: bytes, view: View) -> CodedRows:
    try:
        _, arrays = unpack(body)
        name = view if f"{view}.codes" in arrays else "raw"
        return CodedRows(arrays[f"{name}.codes"], arrays[f"{name}.scales"])
    except MALFORMED as error:
        raise InputError(f"A card of this model is damaged ({error}). Do not use the file.") from error
