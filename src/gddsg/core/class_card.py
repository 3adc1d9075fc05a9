"""Class cards: all a model remembers of a class, as sums over its samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gddsg.core.card_checks import check_content, check_moments, check_samples
from gddsg.core.card_format import MALFORMED, Array, pack, unpack
from gddsg.core.coded_rows import CodedRows
from gddsg.core.content_hash import hash_bytes, hash_rows, is_held_out
from gddsg.core.moments import CodedMoments, Moments
from gddsg.core.near_copies import NO_SKETCHES, Sketches, count_distinct, sketch_samples, sorted_sketches
from gddsg.core.one_thread import one_thread
from gddsg.core.transform import View, signed_root, unit
from gddsg.errors import InputError

MIN_HELD_OUT = 4
"""A batch with fewer held-out samples of a class holds out none: their sums would give the samples away."""

SampleIds = NDArray[np.uint64]


@dataclass(frozen=True)
class CardRanks:
    """How many principal directions of its scatters a card keeps.

    Attributes
    ----------
    usual : int
        Of the view of the features that is the usual one for their signs.
    spare : int
        Of plain features beside square roots: enough to tell which view keeps classes farther apart, and to do with.
        Features of no more than ``usual`` dimensions keep them whole, which costs them next to nothing.
    projected, held_out : int
        Of the projected features: the heads need far less than the discriminant, and the held-out share only weighs
        one head against another.
    """

    usual: int
    spare: int
    projected: int
    held_out: int

    @classmethod
    def of(cls, rank: int) -> CardRanks:
        """The ranks that follow from the model's ``rank``."""
        return cls(rank, max(rank // 4, 1), max(rank // 8, 1), max(rank // 16, 1))

    def of_plain(self, rooted: bool, dim: int) -> int:
        """The rank of ``dim`` plain features, which have square roots beside them or not."""
        return self.spare if rooted and dim > self.usual else self.usual


@dataclass(frozen=True, eq=False)
class ClassCard:
    """What a model remembers of one class. Cards of the same class are merged by :meth:`merge`.

    Attributes
    ----------
    unit_sum : Tensor
        ``(feature_dim,)`` float32, sum of x / ‖x‖: its product with the centroid is the mean cosine to it.
    root : CodedMoments or None
        Of the square roots of the features; None where one was negative, or no transform is allowed.
    raw : CodedMoments
        Of the features as they are.
    projected, held_out : CodedMoments
        Of the projected features h(x): of the learning share and of the held-out share.
    sample_ids : ndarray
        ``(≤ count,)`` uint64, sorted; ids of the samples that were given one, so that none is learnt twice.
    sketches : ndarray
        ``(≤ count, 2)`` uint64, sorted; of the samples that were given an id, to tell near copies by.
    key : int
        Hash of count and sums: what cards are ordered and picked by, whatever their classes are called.
    """

    unit_sum: Tensor
    root: CodedMoments | None
    raw: CodedMoments
    projected: CodedMoments
    held_out: CodedMoments
    sample_ids: SampleIds = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    sketches: Sketches = field(default_factory=lambda: NO_SKETCHES)
    key: int = field(init=False)

    def __post_init__(self) -> None:
        # sums alone: unlike factors they come out alike on every machine, and with them what is picked by the key
        sums = (np.array([self.count]), self.raw.total.numpy(), self.unit_sum.numpy())
        object.__setattr__(self, "key", hash_bytes(b"".join(array.tobytes() for array in sums)))

    @classmethod
    @one_thread()
    def of(
        cls,
        features: Tensor,
        project: Callable[[Tensor], Tensor],
        rank: int,
        *,
        plain: bool = False,
        sample_ids: SampleIds | None = None,
    ) -> ClassCard:
        """The card of a class from its samples; the order of the rows does not matter.

        Parameters
        ----------
        features : Tensor
            ``(n, feature_dim)``.
        project : callable
            h(x): ``(n, feature_dim)`` to ``(n, projection_dim)``.
        rank : int
            See :class:`CardRanks`.
        plain : bool
            Keep no moments but those of the plain features.
        sample_ids : ndarray or None
            ``(n,)``.
        """
        features = features.float()
        hashes = hash_rows(features)
        order = np.argsort(hashes, kind="stable")
        features = features[torch.from_numpy(order).to(features.device)]
        held_out = is_held_out(hashes[order]).to(features.device)
        if int(held_out.sum()) < MIN_HELD_OUT:
            held_out = torch.zeros_like(held_out)
        projected = project(features)
        rooted, ranks, dim = not (plain or bool((features < 0).any())), CardRanks.of(rank), features.shape[1]
        return cls(
            unit_sum=unit(features.double()).sum(0).float().cpu(),
            root=CodedMoments.of(signed_root(features), ranks.usual) if rooted else None,
            raw=CodedMoments.of(features, ranks.of_plain(rooted, dim)),
            projected=CodedMoments.of(projected[~held_out], ranks.projected),
            held_out=CodedMoments.of(projected[held_out], ranks.held_out),
            sample_ids=np.unique(np.empty(0, dtype=np.uint64) if sample_ids is None else sample_ids),
            sketches=NO_SKETCHES if sample_ids is None else sorted_sketches(sketch_samples(features.cpu().numpy())),
        )

    @cached_property
    def distinct(self) -> int:
        """Number of samples where near copies of each other count as one."""
        return count_distinct(self.count, self.sketches)

    @cached_property
    def thinned(self) -> ClassCard:
        """What the card says of its class, with no more weight than its distinct samples have."""
        if self.distinct == self.count:
            return self
        share = self.distinct / self.count
        counts = {name: max(round(part.count * share), min(part.count, 1)) for name, part in self._moments().items()}
        thin: dict[str, Any] = {name: part.thinned(counts[name]) for name, part in self._moments().items()}
        return ClassCard(self.unit_sum * share, **{"root": None, **thin})

    def _moments(self) -> dict[str, CodedMoments]:
        """Those that the card has, by name."""
        found = {name: getattr(self, name) for name in _MOMENTS}
        return {name: part for name, part in found.items() if part is not None}

    @property
    def count(self) -> int:
        """Number of samples."""
        return self.raw.count

    @property
    def centroid(self) -> Tensor:
        """``(feature_dim,)`` float64, mean of the features."""
        return self.raw.mean

    @property
    def rooted(self) -> bool:
        """Whether the card has moments of square roots."""
        return self.root is not None

    def view(self, view: View) -> CodedMoments | None:
        """Moments of the features seen in one of two ways."""
        return self.root if view == "root" else self.raw

    def factor(self, view: View) -> CodedRows:
        """Directions of the scatter of the features seen in one of two ways, or in the one that there is."""
        return (self.view(view) or self.raw).factor

    @one_thread()
    def merge(self, other: ClassCard, rank: int) -> ClassCard:
        """The card of both sets of samples of the class together."""
        ranks, dim = CardRanks.of(rank), self.raw.dim
        root = None if self.root is None or other.root is None else self.root.merge(other.root, ranks.usual)
        return ClassCard(
            unit_sum=(self.unit_sum.double() + other.unit_sum.double()).float(),
            root=root,
            raw=self.raw.merge(other.raw, ranks.of_plain(root is not None, dim)),
            projected=self.projected.merge(other.projected, ranks.projected),
            held_out=self.held_out.merge(other.held_out, ranks.held_out),
            sample_ids=np.union1d(self.sample_ids, other.sample_ids),
            sketches=sorted_sketches(np.concatenate([self.sketches, other.sketches])),
        )

    def to_bytes(self) -> bytes:
        """The card as bytes: a JSON index, then the arrays; the same card always gives the same bytes."""
        return pack(*_flatten(self))

    @classmethod
    def from_bytes(cls, data: bytes, rank: int) -> ClassCard:
        """The card that :meth:`to_bytes` wrote, in this version or the one before; ``rank`` is the model's."""
        try:
            scalars, arrays = unpack(data)
            check_content(scalars, arrays)
            first = "count" in scalars  # format 1 had it beside those of the moments
            card = _unflatten_first(scalars, arrays, rank) if first else _unflatten(scalars, arrays)
            check_moments({name: getattr(card, name) for name in _MOMENTS}, card.unit_sum, rank)
            check_samples(card.count, card.sample_ids, card.sketches)
            return card
        except MALFORMED as error:
            raise InputError(
                f"These {len(data)} bytes are not a class card ({error}). Give what ClassCard.to_bytes() wrote."
            ) from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassCard):
            return NotImplemented
        return self is other or (self.key == other.key and self.to_bytes() == other.to_bytes())

    def __hash__(self) -> int:
        return self.key


_MOMENTS = ("root", "raw", "projected", "held_out")
_SAMPLES = ("sample_ids", "sketches")


def _flatten(card: ClassCard) -> tuple[dict[str, float | int], dict[str, Array]]:
    scalars: dict[str, float | int] = {}
    arrays: dict[str, Array] = {"unit_sum": card.unit_sum.numpy()}
    arrays |= {name: getattr(card, name) for name in _SAMPLES if len(getattr(card, name))}
    for name, moments in card._moments().items():
        scalars |= {f"{name}.count": moments.count, f"{name}.residual": moments.residual}
        arrays |= {
            f"{name}.total": moments.total.numpy(),
            f"{name}.codes": moments.factor.codes,
            f"{name}.scales": moments.factor.scales,
        }
    return scalars, arrays


def _unflatten(scalars: dict[str, Any], views: dict[str, Array]) -> ClassCard:
    arrays = {name: view.copy() for name, view in views.items()}
    moments: dict[str, Any] = {
        name: CodedMoments(
            int(scalars[f"{name}.count"]),
            torch.from_numpy(arrays[f"{name}.total"]),
            CodedRows(arrays[f"{name}.codes"], arrays[f"{name}.scales"]),
            float(scalars[f"{name}.residual"]),
        )
        for name in _held(scalars)
    }
    return ClassCard(torch.from_numpy(arrays["unit_sum"]), **{"root": None, **moments, **_samples(arrays)})


def _held(scalars: dict[str, Any]) -> list[str]:
    """The moments that a card has; older ones kept roots of negative features, too, and said that there were any."""
    unused = "root" if scalars.get("signed") else ""
    return [name for name in _MOMENTS if f"{name}.count" in scalars and name != unused]


def _unflatten_first(scalars: dict[str, Any], arrays: dict[str, Array], rank: int) -> ClassCard:
    """A card of format 1, which kept float32 factors of higher rank and float64 sums."""
    ranks, held = CardRanks.of(rank), _held(scalars)
    wanted = {
        "root": ranks.usual,
        "raw": ranks.of_plain("root" in held, len(arrays["unit_sum"])),
        "projected": ranks.projected,
        "held_out": ranks.held_out,
    }
    moments: dict[str, Any] = {}
    for name in held:
        factor = torch.from_numpy(arrays[f"{name}.factor"].copy())
        total, lost = torch.from_numpy(arrays[f"{name}.total"].copy()), factor[wanted[name] :]
        residual = float(scalars[f"{name}.residual"]) + float(lost.double().square().sum())
        full = Moments(int(scalars[f"{name}.count"]), total, factor[: wanted[name]], residual)
        moments[name] = CodedMoments.coded(full)
    unit_sum = torch.from_numpy(arrays["unit_sum"].copy()).float()
    return ClassCard(unit_sum, **{"root": None, **moments, **_samples(arrays)})


def _samples(arrays: dict[str, Array]) -> dict[str, Array]:
    return {name: arrays[name].copy() for name in _SAMPLES if name in arrays}
