"""What some hundreds of classes of a large model answer with: computed once, and kept beside their cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gddsg.core.card_format import MALFORMED, Array, pack, unpack
from gddsg.core.class_card import ClassCard
from gddsg.core.coded_rows import CodedRows
from gddsg.core.discriminant import moments_in, scatter_weight
from gddsg.core.metric import Metric
from gddsg.core.own_scatter import OwnScatter
from gddsg.core.shortlist import Leading
from gddsg.errors import InputError

Floats = NDArray[np.float64]
Halves = NDArray[np.float32]
Entry = tuple[Halves, Halves, float, Halves, float]


@dataclass(frozen=True, eq=False)
class ClassBlock:
    """Some classes in the coordinates of a metric, without their factors, which stay in the cards.

    Attributes
    ----------
    means : ndarray
        ``(n_classes, dim)`` float32, whitened.
    places : ndarray
        ``(n_classes, ≤ 192)`` float32, the means in leading directions, see :class:`gddsg.core.shortlist.Leading`.
    allowances : ndarray
        ``(n_classes,)``, ``tr(S T_0⁻¹) / n``: what a mean of n samples errs by, in squared distance.
    ranks : ndarray
        ``(n_classes,)`` uint64, of their own scatter.
    inners : ndarray
        Of every class ``(rank, rank)`` float32, see :class:`gddsg.core.own_scatter.OwnScatter`, one after the other.
    log_dets : ndarray
        ``(n_classes,)``, likewise.
    """

    means: Halves
    places: Halves
    allowances: Floats
    ranks: NDArray[np.uint64]
    inners: Halves
    log_dets: Floats

    def __len__(self) -> int:
        return len(self.means)

    @cached_property
    def biases(self) -> Floats:
        """``(n_classes,)``, as :class:`gddsg.core.discriminant.BlockMeans` has them."""
        biases: Floats = (np.square(self.means, dtype=np.float64).sum(1) - self.allowances) / 2
        return biases

    def own_scatter(self, i: int, factor: CodedRows) -> OwnScatter:
        """What the scatter of class ``i``, whose factor is given, adds to its score."""
        return OwnScatter(np.empty((0, factor.dim)), factor, self._inner(i), float(self.log_dets[i]))

    def _inner(self, i: int) -> Halves:
        rank, end = int(self.ranks[i]), int(self._ends[i])
        # a copy is where products are quick and round alike
        return self.inners[end - rank * rank : end].reshape(rank, rank).copy()

    @cached_property
    def _ends(self) -> NDArray[np.uint64]:
        return np.cumsum(self.ranks * self.ranks, dtype=np.uint64)

    @classmethod
    def of(cls, metric: Metric, leading: Leading, cards: Sequence[ClassCard], known: Known) -> ClassBlock:
        """The block of some cards; what is ``known`` of a card, by its hash, is not computed again."""
        parts = [_entry(*known[card.key]) if card.key in known else _compute(metric, leading, card) for card in cards]
        means, places, allowances, inners, log_dets = zip(*parts, strict=True)
        ranks = np.array([len(inner) for inner in inners], dtype=np.uint64)
        flat = np.concatenate([inner.ravel() for inner in inners])
        return cls(np.stack(means), np.stack(places), np.array(allowances), ranks, flat, np.array(log_dets))

    def to_bytes(self) -> bytes:
        """The block as bytes."""
        arrays: dict[str, Array] = {name: getattr(self, name) for name in _ARRAYS}
        return pack({}, arrays)

    @classmethod
    def from_bytes(cls, data: bytes, n_classes: int, dim: int) -> ClassBlock:
        """The block that :meth:`to_bytes` wrote, of so many classes."""
        try:
            views = unpack(data)[1]
            block = cls(**{name: views[name].copy() for name in _ARRAYS})  # where products are quick and round alike
            block._check(n_classes, dim)
            return block
        except MALFORMED as error:
            raise InputError(f"What is kept for predictions is damaged ({error}). Learn something anew.") from error

    def _check(self, n_classes: int, dim: int) -> None:
        """Raise ``ValueError`` unless numbers are finite and shapes go together."""
        columns, most = [self.allowances, self.ranks, self.log_dets], len(self.inners)
        if self.means.shape != (n_classes, dim) or self.places.shape[:-1] != (n_classes,):
            raise ValueError("its means are not those of its classes")
        if any(column.shape != (n_classes,) for column in columns) or int(self.ranks.max()) ** 2 > most:
            raise ValueError("its parts do not go together")
        if self.inners.shape != (int(self._ends[-1]),):
            raise ValueError("its scatter is not that of its classes")
        if not all(np.isfinite(getattr(self, name)).all() for name in _ARRAYS):
            raise ValueError("some of its numbers are not finite")


_ARRAYS = ("means", "places", "allowances", "ranks", "inners", "log_dets")

Known = Mapping[int, tuple[ClassBlock, int]]
"""Blocks that hold a card already, by its hash, and its place there."""


def _entry(block: ClassBlock, i: int) -> Entry:
    return block.means[i], block.places[i], float(block.allowances[i]), block._inner(i), float(block.log_dets[i])


def _compute(metric: Metric, leading: Leading, card: ClassCard) -> Entry:
    """One class by itself, so that its rounding depends on no other."""
    part = moments_in(metric, card)
    # one product for mean and factor: the whitener is far larger than they are, and reading it takes the time
    vectors = np.concatenate([part.mean.float().numpy()[None], part.factor.floats()])
    mean, rows = np.split(vectors @ metric.quick_whitener.numpy(), [1])
    own = OwnScatter.of_whitened(part.factor, rows, scatter_weight(metric, part), ready=False)
    inner = np.ascontiguousarray(own.inner)  # as from a file, where products round alike
    return mean[0], leading.places(mean)[0], metric.effective_dim / card.count, inner, own.log_det
