"""What some hundreds of classes of a large model answer with: computed once, and kept beside their cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
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
    def of(cls, metric: Metric, leading: Leading, cards: Sequence[ClassCard]) -> ClassBlock:
        """The block of some cards."""
        means, own = [], []
        for card in cards:  # each is taken from its file once
            part = moments_in(metric, card)
            means.append(part.mean)
            weight = scatter_weight(metric, part)
            own.append(OwnScatter.of(part.factor, weight, metric.quick_whitener.numpy(), ready=False))
        whitened = metric.whiten(torch.stack(means)).float().numpy()
        return cls(
            means=whitened,
            places=leading.places(whitened),
            allowances=metric.effective_dim / np.array([float(card.count) for card in cards]),
            inners=tuple(scatter.inner for scatter in own),
            log_dets=np.array([scatter.log_det for scatter in own]),
        )

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
            arrays = unpack(data)[1]
            means, places, ranks = arrays["means"], arrays["places"], arrays["ranks"].tolist()
            shapes = (means.shape, places.shape[:-1], arrays["allowances"].shape, arrays["log_dets"].shape, len(ranks))
            if shapes != ((n_classes, dim), (n_classes,), (n_classes,), (n_classes,), n_classes):
                raise ValueError("its parts do not go together")
            if not all(np.isfinite(array).all() for name, array in arrays.items() if name != "ranks"):
                raise ValueError("some of its numbers are not finite")
            ends = np.cumsum([rank * rank for rank in ranks])
            flat = np.split(arrays["inners"], ends[:-1])
            inners = tuple(part.reshape(rank, rank) for part, rank in zip(flat, ranks, strict=True))
            return cls(means, places, arrays["allowances"], inners, arrays["log_dets"])
        except MALFORMED as error:
            raise InputError(f"What is kept for predictions is damaged ({error}). Learn something anew.") from error
