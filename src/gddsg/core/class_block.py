"""What some hundreds of classes of a large model answer with: computed once, and kept beside their cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gddsg.core.card_format import MALFORMED, Array, pack, unpack
from gddsg.core.class_card import ClassCard
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
        ``(n_classes, ≤ 128)`` float32, the means in leading directions, see :class:`gddsg.core.shortlist.Leading`.
    allowances : ndarray
        ``(n_classes,)``, ``tr(S T_0⁻¹) / n``: what a mean of n samples errs by, in squared distance.
    inners : tuple of ndarray
        Of every class ``(rank, rank)`` float32, see :class:`gddsg.core.own_scatter.OwnScatter`.
    log_dets : ndarray
        ``(n_classes,)``, likewise.
    """

    means: Halves
    places: Halves
    allowances: Floats
    inners: tuple[Halves, ...]
    log_dets: Floats

    @classmethod
    def of(cls, metric: Metric, leading: Leading, cards: Sequence[ClassCard], known: Known) -> ClassBlock:
        """The block of some cards; what is ``known`` of a card, by its hash, is not computed again."""
        parts = [_entry(*known[card.key]) if card.key in known else _compute(metric, leading, card) for card in cards]
        means, places, allowances, inners, log_dets = zip(*parts, strict=True)
        return cls(np.stack(means), np.stack(places), np.array(allowances), inners, np.array(log_dets))

    def to_bytes(self) -> bytes:
        """The block as bytes."""
        arrays: dict[str, Array] = {
            "means": self.means,
            "places": self.places,
            "allowances": self.allowances,
            "ranks": np.array([len(inner) for inner in self.inners], dtype=np.uint64),
            "inners": np.concatenate([inner.ravel() for inner in self.inners]),
            "log_dets": self.log_dets,
        }
        return pack({}, arrays)

    @classmethod
    def from_bytes(cls, data: bytes, n_classes: int, dim: int) -> ClassBlock:
        """The block that :meth:`to_bytes` wrote, of so many classes."""
        try:
            # copies, each where products are quick and round alike
            arrays = {name: view.copy() for name, view in unpack(data)[1].items()}
            means, places, ranks = arrays["means"], arrays["places"], arrays["ranks"].tolist()
            shapes = (means.shape, places.shape[:-1], arrays["allowances"].shape, arrays["log_dets"].shape, len(ranks))
            if shapes != ((n_classes, dim), (n_classes,), (n_classes,), (n_classes,), n_classes):
                raise ValueError("its parts do not go together")
            if not all(np.isfinite(array).all() for name, array in arrays.items() if name != "ranks"):
                raise ValueError("some of its numbers are not finite")
            ends = np.cumsum([rank * rank for rank in ranks])
            flat = np.split(arrays["inners"], ends[:-1])
            inners = tuple(part.reshape(rank, rank).copy() for part, rank in zip(flat, ranks, strict=True))
            return cls(means, places, arrays["allowances"], inners, arrays["log_dets"])
        except MALFORMED as error:
            raise InputError(f"What is kept for predictions is damaged ({error}). Learn something anew.") from error


Known = Mapping[int, tuple[ClassBlock, int]]
"""Blocks that hold a card already, by its hash, and its place there."""


def _entry(block: ClassBlock, i: int) -> Entry:
    return block.means[i], block.places[i], float(block.allowances[i]), block.inners[i], float(block.log_dets[i])


def _compute(metric: Metric, leading: Leading, card: ClassCard) -> Entry:
    """One class by itself, so that its rounding depends on no other."""
    part = moments_in(metric, card)
    # one product for mean and factor: the whitener is far larger than they are, and reading it takes the time
    vectors = np.concatenate([part.mean.float().numpy()[None], part.factor.floats()])
    mean, rows = np.split(vectors @ metric.quick_whitener.numpy(), [1])
    own = OwnScatter.of_whitened(part.factor, rows, scatter_weight(metric, part), ready=False)
    inner = np.ascontiguousarray(own.inner)  # as from a file, where products round alike
    return mean[0], leading.places(mean)[0], metric.effective_dim / card.count, inner, own.log_det
