"""What a large model derives from its cards: a metric, its leading directions, and blocks of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from gddsg.core.canonical_order import content_blocks
from gddsg.core.card_format import MALFORMED, Array, pack, unpack
from gddsg.core.class_block import ClassBlock
from gddsg.core.class_card import ClassCard
from gddsg.core.coded_rows import CodedRows
from gddsg.core.large_predictor import LargePredictor
from gddsg.core.metric import Metric
from gddsg.core.novelty import Novelty
from gddsg.core.once import Lazy
from gddsg.core.shortlist import Leading, Shortlist
from gddsg.core.transform import View
from gddsg.errors import InputError


@dataclass(frozen=True, eq=False)
class Frame:
    """The coordinates of a large model: what all its classes share.

    Attributes
    ----------
    metric : Metric
        T_0.
    leading : Leading
        Its leading directions.
    """

    metric: Metric
    leading: Leading

    @classmethod
    def of(cls, metric: Metric) -> Frame:
        """The frame of a metric."""
        return cls(metric, Leading.of(metric))

    def to_bytes(self) -> bytes:
        """All but the cards of the sample."""
        metric = self.metric
        scalars: dict[str, float | int | str] = {"view": metric.view, "rooted": int(metric.rooted)}
        arrays: dict[str, Array] = {"centre": self.leading.centre, "basis": self.leading.basis}
        arrays["whitener"] = metric.quick_whitener.numpy()
        return pack(
            scalars | {name: getattr(metric, name) for name in _SCALARS},
            arrays | {name: getattr(metric, name).numpy() for name in _TENSORS},
        )

    @classmethod
    def from_bytes(cls, data: bytes, sample: tuple[ClassCard, ...]) -> Frame:
        """What :meth:`to_bytes` wrote, for the same sample of cards."""
        try:
            scalars, views = unpack(data)
            arrays = {name: view.copy() for name, view in views.items()}
            _check(scalars, arrays)
            whitener = torch.from_numpy(arrays["whitener"])
            metric = Metric(
                sample=sample,
                view=scalars["view"],
                rooted=bool(scalars["rooted"]),
                whitener=whitener.double(),
                quick_whitener=whitener,
                **_metric_parts(scalars, arrays),
            )
            return cls(metric, Leading(arrays["centre"], arrays["basis"]))
        except MALFORMED as error:
            raise InputError(f"What is kept for predictions is damaged ({error}). Learn something anew.") from error


_SCALARS = ("shrinkage", "degrees_of_freedom", "effective_dim", "temperature")
_TENSORS = ("pooled", "values", "vectors")


def _metric_parts(scalars: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, Any]:
    numbers = {name: float(scalars[name]) for name in _SCALARS}
    return numbers | {name: torch.from_numpy(arrays[name]) for name in _TENSORS}


def _check(scalars: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Raise ``ValueError`` unless numbers are finite and shapes go together."""
    dim = len(arrays["whitener"])
    squares = all(arrays[name].shape == (dim, dim) for name in ("whitener", "pooled", "vectors"))
    leading = arrays["centre"].shape == (dim,) and arrays["basis"].shape[:1] == (dim,)
    if scalars["view"] not in get_args(View) or not squares or not leading or arrays["values"].shape != (dim,):
        raise ValueError("its parts do not go together")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ValueError("some of its numbers are not finite")


Blocks = Mapping[tuple[int, ...], Lazy[ClassBlock]]


class Kept(Protocol):
    """What a file keeps of what follows from its cards; None where it does not have it."""

    def frame(self, sample: tuple[ClassCard, ...], rooted: bool) -> Frame | None:
        """The coordinates that follow from a sample of cards."""

    def block(self, frame: Frame, keys: tuple[int, ...]) -> ClassBlock | None:
        """The block of the cards with these hashes in such coordinates."""


@dataclass(frozen=True, eq=False)
class LargeClasses:
    """The classes of a large model.

    Attributes
    ----------
    frame : Frame
        What they share.
    cards : tuple of ClassCard
        In canonical order.
    blocks : mapping of tuple of int to Lazy of ClassBlock
        Of some hundreds of cards together, by their hashes, in canonical order.
    """

    frame: Frame
    cards: tuple[ClassCard, ...]
    blocks: Blocks

    @classmethod
    def of(
        cls, frame: Frame, cards: Sequence[ClassCard], earlier: LargeClasses | None = None, kept: Kept | None = None
    ) -> LargeClasses:
        """The classes of cards in canonical order; what ``earlier`` ones of the same frame know, or a file, is used."""
        known = earlier.blocks if earlier is not None and earlier.frame is frame else {}
        keys, blocks = [card.key for card in cards], {}
        for run in content_blocks(keys):
            block = tuple(keys[run])
            blocks[block] = known.get(block) or Lazy(partial(_find_block, frame, block, cards[run], kept, known))
        return cls(frame, tuple(cards), blocks)

    def predictor(
        self, labels: NDArray[Any], columns: NDArray[np.intp], projection: Any, novelty: Lazy[Novelty]
    ) -> LargePredictor:
        """What answers, see :class:`gddsg.core.predictor.Predictor` for the parameters."""
        metric, n = self.frame.metric, len(self.cards)
        blocks = tuple([block() for block in self.blocks.values()])
        places = np.concatenate([block.places for block in blocks])
        allowances = np.concatenate([block.allowances for block in blocks])
        return LargePredictor(
            labels=labels,
            columns=columns,
            view=metric.view,
            projected_view="raw",
            mode="evidence",
            temperature=metric.temperature,
            whitener=metric.whitener.numpy(),
            means=(),
            biases=np.empty(0),
            ready=False,
            centres=(),
            own=(),
            own_weights=np.empty(0),
            groups=(np.arange(n, dtype=np.intp),),
            group_of=np.zeros(n, dtype=np.intp),
            heads=(),
            projection=projection,
            vote=None,
            novelty=novelty,
            shortlist=Shortlist.of(self.frame.leading, places, allowances),
            blocks=blocks,
            starts=np.cumsum([0, *map(len, blocks)]),
            factor=partial(_factor, metric.view, self.cards),
        )


def _find_block(
    frame: Frame, keys: tuple[int, ...], cards: Sequence[ClassCard], kept: Kept | None, earlier: Blocks
) -> ClassBlock:
    found = None if kept is None else kept.block(frame, keys)
    if found is not None:
        return found
    known: dict[int, tuple[ClassBlock, int]] = {}
    for other, block in earlier.items():
        if other[0] <= keys[-1] and keys[0] <= other[-1]:  # both are runs of sorted hashes
            known |= {key: (block(), place) for place, key in enumerate(other)}
    return ClassBlock.of(frame.metric, frame.leading, cards, known)


def _factor(view: View, cards: Sequence[ClassCard], place: int) -> CodedRows:
    return cards[place].factor(view)
