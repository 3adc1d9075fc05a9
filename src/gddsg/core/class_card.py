"""Class cards: all a model remembers of a class, as sums over its samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gddsg.core.card_format import MALFORMED, Array, pack, unpack
from gddsg.core.transform import signed_root, unit
from gddsg.errors import InputError

HELD_OUT_ONE_IN = 5
"""One sample in five, picked by a hash of its content, only judges the ridge heads before it joins them."""

MIN_HELD_OUT = 4
"""A batch with fewer held-out samples of a class holds out none: their sums would give the samples away."""

SampleIds = np.ndarray[Any, np.dtype[np.uint64]]

_CHUNK_ROWS = 1024
_SUBSPACE_STEPS = 4
_EIGENVALUE_FLOOR = 1e-6  # relative to the largest: below it a float32 direction is rounding noise


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, sum and scatter of some vectors; ``scatter ≈ factorᵀ factor + residual / dim · I``.

    Attributes
    ----------
    count : number of vectors.
    total : ``(dim,)`` float64, their sum.
    factor : ``(≤ rank, dim)`` float32, the leading principal directions of the scatter about the mean, each as long
        as the square root of the scatter along it. For fewer vectors than ``rank`` it spans exactly what they span.
    residual : the energy (trace) of the scatter outside ``factor``.
    """

    count: int
    total: Tensor
    factor: Tensor
    residual: float

    @classmethod
    def empty(cls, dim: int) -> Moments:
        """Moments of no vector."""
        return cls(0, torch.zeros(dim, dtype=torch.float64), torch.zeros(0, dim), 0.0)

    @classmethod
    def of(cls, vectors: Tensor, rank: int) -> Moments:
        """Moments of the rows of ``vectors`` ``(n, dim)``, whatever device they are on; the result is on the CPU."""
        if len(vectors) == 0:
            return cls.empty(vectors.shape[1])
        chunks = [cls._of_chunk(chunk, rank) for chunk in vectors.split(_CHUNK_ROWS)]
        moments = chunks[0]
        for chunk in chunks[1:]:
            moments = moments._joined(chunk, rank)
        return moments

    @classmethod
    def _of_chunk(cls, vectors: Tensor, rank: int) -> Moments:
        total = vectors.sum(0, dtype=torch.float64)
        centred = vectors - (total / len(vectors)).float()
        factor, residual = principal_factor(centred, rank)
        return cls(len(vectors), total.cpu(), factor.cpu(), residual)

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return len(self.total)

    @property
    def mean(self) -> Tensor:
        """``(dim,)`` float64; zero where there is no vector."""
        return self.total / max(self.count, 1)

    @property
    def energy(self) -> float:
        """Trace of the scatter."""
        return float(self.factor.double().square().sum()) + self.residual

    def merge(self, other: Moments, rank: int) -> Moments:
        """Moments of both sets of vectors together, cut to ``rank`` again; ``a.merge(b)`` equals ``b.merge(a)``."""
        first, second = sorted((self, other), key=lambda m: (m.count, _raw_bytes(m.total), _raw_bytes(m.factor)))
        return first._joined(second, rank)

    def _joined(self, other: Moments, rank: int) -> Moments:
        if self.count == 0 or other.count == 0:
            return other if self.count == 0 else self
        # S = S_a + S_b + (n_a n_b / n) (m_a - m_b)(m_a - m_b)ᵀ
        weight = (self.count * other.count / (self.count + other.count)) ** 0.5
        shift = (weight * (self.mean - other.mean)).float()
        factor, lost = principal_factor(torch.cat([self.factor, other.factor, shift[None]]), rank)
        return Moments(
            self.count + other.count, self.total + other.total, factor, self.residual + other.residual + lost
        )


def _raw_bytes(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


def principal_factor(rows: Tensor, rank: int) -> tuple[Tensor, float]:
    """The ``rank`` leading directions of ``rowsᵀ rows`` as a factor ``(≤ rank, dim)``, and the energy left out.

    Works on the smaller of the two Gram matrices. The rows come out rotated into principal directions, so that even
    an uncut factor holds no single sample.
    """
    n, dim = rows.shape
    energy = float(rows.square().sum(dtype=torch.float64))
    gram = rows @ rows.T if n <= dim else rows.T @ rows
    values, vectors = _leading_eigenpairs(gram, rank)
    factor = vectors.T @ rows if n <= dim else values.sqrt()[:, None] * vectors.T
    return factor.contiguous(), max(energy - float(factor.square().sum(dtype=torch.float64)), 0.0)


def _leading_eigenpairs(gram: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The at most ``rank`` largest eigenvalues that stand above rounding, largest first, with their vectors."""
    if len(gram) <= 4 * rank:
        values, vectors = torch.linalg.eigh(gram)
    else:
        values, vectors = _subspace_iteration(gram, rank + rank // 4 + 8)
    values, vectors = values.flip(0)[:rank], vectors.flip(1)[:, :rank]
    keep = values > _EIGENVALUE_FLOOR * values[:1].clamp(min=torch.finfo(values.dtype).tiny)
    return values[keep], vectors[:, keep]


def _subspace_iteration(gram: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Eigenpairs of the leading subspace by a few multiplications: a third of the time of a full decomposition."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.randn(len(gram), size, generator=generator).to(gram)
    for _ in range(_SUBSPACE_STEPS):
        basis = torch.linalg.qr(gram @ basis).Q
    values, rotation = torch.linalg.eigh(basis.T @ (gram @ basis))
    return values, basis @ rotation


def content_hash(features: Tensor) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """A 64-bit hash of each row's float32 content, equal wherever and whenever the row comes."""
    bits = (features.cpu().numpy().astype(np.float32) + np.float32(0)).view(np.uint32)  # -0 and 0 are one number
    weights = np.random.RandomState(0).randint(1, 2**63, bits.shape[1], dtype=np.uint64) * 2 + 1
    hashes = (bits.astype(np.uint64) * weights).sum(1, dtype=np.uint64)
    hashes ^= hashes >> np.uint64(32)  # the low bits of a sum of products are the weakest: fold the high ones in
    return np.asarray(hashes * np.uint64(0x9E3779B97F4A7C15))


def held_out_rows(hashes: np.ndarray[Any, np.dtype[np.uint64]]) -> Tensor:
    """Which samples are held out: a matter of their content alone."""
    return torch.from_numpy((hashes >> np.uint64(32)) % np.uint64(HELD_OUT_ONE_IN) == 0)


@dataclass(frozen=True, eq=False)
class ClassCard:
    """What a model remembers of one class. Cards of the same class are merged by :meth:`merge`.

    Attributes
    ----------
    count : number of samples.
    feature_sum, unit_sum : ``(feature_dim,)`` float64, sums of x and of x / ‖x‖; centroid and mean cosine to it.
    square_sum : sum of ‖x‖², for the Euclidean radius.
    signed : whether a feature was negative.
    root, raw : moments of the signed-root and of the plain features; ``root`` only where a transform is allowed.
    projected, held_out : moments of the projected features h(x): of the learning share and of the held-out share.
    sample_ids : ``(≤ count,)`` uint64, sorted; ids of the samples that were given one, so that none is learnt twice.
    """

    count: int
    feature_sum: Tensor
    unit_sum: Tensor
    square_sum: float
    signed: bool
    root: Moments | None
    raw: Moments | None
    projected: Moments
    held_out: Moments
    sample_ids: SampleIds = field(default_factory=lambda: np.empty(0, dtype=np.uint64))

    @classmethod
    def of(
        cls,
        features: Tensor,
        project: Callable[[Tensor], Tensor],
        rank: int,
        *,
        plain: bool = False,
        sample_ids: SampleIds | None = None,
    ) -> ClassCard:
        """The card of a class from its samples ``(n, feature_dim)``; the order of the rows does not matter.

        ``plain`` keeps no moments but those of the plain features.
        """
        features = features.float()
        hashes = content_hash(features)
        order = np.argsort(hashes, kind="stable")
        features = features[torch.from_numpy(order).to(features.device)]
        held_out = held_out_rows(hashes[order]).to(features.device)
        if int(held_out.sum()) < MIN_HELD_OUT:
            held_out = torch.zeros_like(held_out)
        projected = project(features)
        return cls(
            count=len(features),
            feature_sum=features.sum(0, dtype=torch.float64).cpu(),
            unit_sum=unit(features.double()).sum(0).cpu(),
            square_sum=float(features.double().square().sum()),
            signed=bool((features < 0).any()),
            root=None if plain else Moments.of(signed_root(features), rank),
            raw=Moments.of(features, rank),
            projected=Moments.of(projected[~held_out], head_rank(rank)),
            held_out=Moments.of(projected[held_out], held_out_rank(rank)),
            sample_ids=np.unique(np.empty(0, dtype=np.uint64) if sample_ids is None else sample_ids),
        )

    def merge(self, other: ClassCard, rank: int) -> ClassCard:
        """The card of both sets of samples of the class together."""
        return ClassCard(
            count=self.count + other.count,
            feature_sum=self.feature_sum + other.feature_sum,
            unit_sum=self.unit_sum + other.unit_sum,
            square_sum=self.square_sum + other.square_sum,
            signed=self.signed or other.signed,
            root=_merge(self.root, other.root, rank),
            raw=_merge(self.raw, other.raw, rank),
            projected=self.projected.merge(other.projected, head_rank(rank)),
            held_out=self.held_out.merge(other.held_out, held_out_rank(rank)),
            sample_ids=np.union1d(self.sample_ids, other.sample_ids),
        )

    def to_bytes(self) -> bytes:
        """The card as bytes: a JSON index, then the arrays; the same card always gives the same bytes."""
        return pack(*_flatten(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> ClassCard:
        """The card that :meth:`to_bytes` wrote."""
        try:
            return _checked(_unflatten(*unpack(data)))
        except MALFORMED as error:
            raise InputError(
                f"These {len(data)} bytes are not a class card ({error}). Give what ClassCard.to_bytes() wrote."
            ) from error

    def __eq__(self, other: object) -> bool:
        return self.to_bytes() == other.to_bytes() if isinstance(other, ClassCard) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_bytes())


def _merge(a: Moments | None, b: Moments | None, rank: int) -> Moments | None:
    return None if a is None or b is None else a.merge(b, rank)


def head_rank(rank: int) -> int:
    """Rank of a card's projected factor: the heads need a quarter of what the discriminant needs."""
    return max(rank // 4, 1)


def held_out_rank(rank: int) -> int:
    """Rank of a card's held-out factor, which only weighs one head against another."""
    return max(rank // 8, 1)


_MOMENTS = ("root", "raw", "projected", "held_out")


def _flatten(card: ClassCard) -> tuple[dict[str, float | int], dict[str, Array]]:
    scalars: dict[str, float | int] = {"count": card.count, "square_sum": card.square_sum, "signed": card.signed}
    arrays = {"feature_sum": card.feature_sum.numpy(), "unit_sum": card.unit_sum.numpy()}
    if len(card.sample_ids):
        arrays["sample_ids"] = card.sample_ids
    for name in _MOMENTS:
        moments: Moments | None = getattr(card, name)
        if moments is not None:
            scalars |= {f"{name}.count": moments.count, f"{name}.residual": moments.residual}
            arrays |= {f"{name}.total": moments.total.numpy(), f"{name}.factor": moments.factor.numpy()}
    return scalars, arrays


def _unflatten(scalars: dict[str, Any], views: dict[str, Array]) -> ClassCard:
    arrays = {name: torch.from_numpy(view.copy()) for name, view in views.items()}
    moments = {
        name: Moments(
            int(scalars[f"{name}.count"]),
            arrays[f"{name}.total"],
            arrays[f"{name}.factor"],
            float(scalars[f"{name}.residual"]),
        )
        for name in _MOMENTS
        if f"{name}.count" in scalars
    }
    plain = {"count": int(scalars["count"]), "square_sum": float(scalars["square_sum"]), "root": None, "raw": None}
    signed = bool(scalars.get("signed", "raw" in moments))  # cards once had a plain view for signed features alone
    sums = {"feature_sum": arrays["feature_sum"], "unit_sum": arrays["unit_sum"]}
    ids = views["sample_ids"].copy() if "sample_ids" in views else np.empty(0, dtype=np.uint64)
    values: dict[str, Any] = {**plain, **sums, **moments, "signed": signed, "sample_ids": ids}
    return ClassCard(**{field.name: values[field.name] for field in fields(ClassCard)})


def _checked(card: ClassCard) -> ClassCard:
    """The card, unless its numbers cannot be those of any class."""
    views = [moments for moments in (card.root, card.raw) if moments is not None]
    shares = [card.projected, card.held_out]
    sound = (
        card.count == sum(share.count for share in shares) >= 1
        and card.feature_sum.shape == card.unit_sum.shape
        and len(views) > 0
        and all(view.count == card.count and view.dim == len(card.feature_sum) for view in views)
        and card.projected.dim == card.held_out.dim
        and all(_is_sound(moments) for moments in (*views, *shares))
        and all(bool(part.isfinite().all()) for part in (card.feature_sum, card.unit_sum))
        and 0 <= card.square_sum < np.inf
        and card.sample_ids.ndim == 1
        and card.sample_ids.dtype == np.uint64
        and len(card.sample_ids) <= card.count
    )
    if not sound:
        raise ValueError("its counts, shapes or numbers contradict each other")
    return card


def _is_sound(moments: Moments) -> bool:
    return (
        moments.count >= 0
        and 0 <= moments.residual < np.inf
        and moments.total.ndim == 1
        and moments.factor.ndim == 2
        and moments.factor.shape[1] == moments.dim
        and bool(moments.total.isfinite().all() and moments.factor.isfinite().all())
    )
