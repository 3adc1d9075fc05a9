"""The scatter of all classes together, kept up to date as classes come, change and go."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from gddsg.core.class_card import Moments
from gddsg.core.similarity_graph import Label

_MOST_BITS, _FLOAT64_BITS = 20, 53
_CLASSES_AT_ONCE = 64
_SAMPLE_CLASSES = 256


def span_inflation(part: Moments) -> float:
    """Half of the energy that a cut factor lost goes back into its span, the other half is isotropic.

    All of it isotropic would act as a second shrinkage, all of it in the span as if nothing lay outside.
    """
    kept = part.energy - part.residual
    return float((1 + part.residual / kept / 2) ** 0.5) if kept > 0 else 1.0


class ScatterPool:
    """Sum of the classes' scatters, without any rounding: adding and removing classes in any order gives equal bits.

    Entries of the factors are rounded to whole multiples of one quantum, 16 to 20 bits below the largest of all, so
    that float64 holds their products, and sums of these, exactly. A changed class costs its own scatter only.
    """

    def __init__(self) -> None:
        self._quantum, self._sum = 1.0, torch.zeros(1, 1, dtype=torch.float64)
        self._included: dict[Label, Moments] = {}
        self._peaks: dict[Label, tuple[Moments, float]] = {}

    def total(self, moments: Mapping[Label, Moments]) -> Tensor:
        """``(dim, dim)`` float64 sum over the classes."""
        self._update_peaks(moments)
        quantum = self._suitable_quantum()
        gone = {k: part for k, part in self._included.items() if moments.get(k) is not part}
        if quantum != self._quantum or 2 * len(gone) > len(moments):
            self._quantum, self._sum = quantum, torch.zeros(1, 1, dtype=torch.float64)
            self._included, gone = {}, {}
        new = {k: part for k, part in moments.items() if self._included.get(k) is not part}
        dim = next(iter(moments.values())).dim
        self._sum = self._sum.expand(dim, dim) + self._scatter(new.values(), dim) - self._scatter(gone.values(), dim)
        self._included = dict(moments)
        total = self._sum.clone()
        total.diagonal().add_(math.fsum(part.residual for part in moments.values()) / 2 / dim)
        return total

    def _update_peaks(self, moments: Mapping[Label, Moments]) -> None:
        known = self._peaks
        self._peaks = {
            k: known[k] if k in known and known[k][0] is part else (part, _peak(part)) for k, part in moments.items()
        }

    def _suitable_quantum(self) -> float:
        """A power of two so small that entries keep up to 20 bits, so large that no sum of products has over 53."""
        rows = sum(len(part.factor) for part, _ in self._peaks.values())
        bits = min(_MOST_BITS, (_FLOAT64_BITS - rows.bit_length()) // 2)
        return math.ldexp(1.0, math.frexp(max(peak for _, peak in self._peaks.values()))[1] - bits)

    def _scatter(self, parts: Iterable[Moments], dim: int) -> Tensor:
        total, rows = torch.zeros(dim, dim, dtype=torch.float64), [part.factor * span_inflation(part) for part in parts]
        for some in (rows[i : i + _CLASSES_AT_ONCE] for i in range(0, len(rows), _CLASSES_AT_ONCE)):
            whole = (torch.cat(some).double() / self._quantum).round_()
            total.addmm_(whole.T, whole)
        return total.mul_(self._quantum**2)


def _peak(part: Moments) -> float:
    return float(part.factor.abs().max()) * span_inflation(part) if part.factor.numel() else 0.0


class SampledSpectrum:
    """Spectrum of the pooled covariance of some classes, all of them where they are few.

    Many classes are sampled by a hash of their names, so that most newcomers leave the sample, and the slow
    decomposition, as it was. What is read off it is coarse: a shrinkage from a grid, and draws for the novelty limit.
    """

    def __init__(self) -> None:
        self._pool = ScatterPool()
        self._parts: list[Moments] = []
        self._spectrum: tuple[Tensor, Tensor] | None = None

    def of(self, moments: Mapping[Label, Moments], total: Tensor) -> tuple[Tensor, Tensor]:
        """Eigenvalues ``(dim,)`` and eigenvectors ``(dim, dim)``; ``total`` is the scatter of all ``moments``."""
        sample = _sample(moments)
        parts = list(sample.values())
        same = len(parts) == len(self._parts) and all(a is b for a, b in zip(parts, self._parts, strict=True))
        if self._spectrum is None or not same:
            scatter = total if len(sample) == len(moments) else self._pool.total(sample)
            self._parts, self._spectrum = parts, spectrum(pooled_covariance(parts, scatter))
        return self._spectrum


def _sample(moments: Mapping[Label, Moments]) -> dict[Label, Moments]:
    hashes = {label: zlib.crc32(repr(label).encode()) for label in moments}
    sample, divisor = dict(moments), 1
    while len(sample) > _SAMPLE_CLASSES:
        divisor *= 2
        sample = {label: part for label, part in sample.items() if hashes[label] % divisor == 0}
    return sample or dict(moments)


def pooled_covariance(moments: Iterable[Moments], scatter: Tensor) -> Tensor:
    """Scatter over its degrees of freedom; isotropic where no class has two different samples."""
    parts = list(moments)
    covariance = scatter / max(sum(part.count for part in parts) - len(parts), 1)
    means = torch.stack([part.mean for part in parts])
    level = float(covariance.diagonal().mean())
    spread = float((means - means.mean(0)).square().mean()) or 1.0
    return covariance if level > 1e-12 * spread else spread * torch.eye(len(scatter), dtype=torch.float64)


def spectrum(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors in half the time that float64 would take; nothing exact is made of them."""
    values, vectors = torch.linalg.eigh(covariance.float())
    return values.double().clamp(min=0), vectors.double()
