"""Novelty of an input against all known classes, and the limit beyond which it counts as unknown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gddsg.core.discriminant import Discriminant, shrunk_whitener
from gddsg.core.scatter_pool import span_inflation
from gddsg.core.transform import unit

_DIRECTION_WEIGHT = 0.2
_MAX_OPTIMISM = 0.5  # beyond it the estimate is too large for the few samples it is made from
_TINY = 1e-12
_PSEUDO_FEATURES = 8000  # a limit that keeps 90 % of known inputs then errs by a third of a per cent
_POOLED_SAMPLES = 4  # a class's own scatter is trusted like n - 1 samples, the pooled one like these many
_REACH = 2.0  # times the largest distance of a known input: beyond that distance alone makes an input stranger


def pseudo_features(discriminant: Discriminant, per_class: int, seed: int) -> tuple[Tensor, Tensor]:
    """Gaussian draws from the cards: ``(n_classes · per_class, dim)`` vectors and the index of their class.

    A class's covariance is its own mixed with the pooled one, which few samples need more. Of the energy that its
    factor lost, half is spread over the factor's span and half as the pooled covariance spreads it.
    """
    generator = torch.Generator().manual_seed(seed)
    pooled = discriminant.whitening.values.sqrt()[:, None] * discriminant.whitening.vectors.T

    def normal(size: int) -> Tensor:
        return torch.randn(per_class, size, generator=generator, dtype=torch.float64)

    draws = []
    for part, mean in zip(discriminant.moments, discriminant.means, strict=True):
        own, degrees = (part.count - 1) / (part.count - 1 + _POOLED_SAMPLES), max(part.count - 1, 1)
        basis = part.factor.double() * span_inflation(part) / degrees**0.5
        lost = part.residual / 2 / degrees / max(float(discriminant.whitening.values.sum()), _TINY)
        shared = (1 - own + own * lost) ** 0.5 * normal(part.dim) @ pooled
        draws.append(mean + own**0.5 * normal(len(basis)) @ basis + shared)
    return torch.cat(draws), torch.arange(len(draws)).repeat_interleave(per_class)


@dataclass(eq=False)
class Novelty:
    """How unlike every known class an input is.

    ``log(m / m_0) + 0.2 log(1 - cos)``: the squared distance to the nearest class mean over the distance to the mean
    of all classes (each in its own shrunk metric), and the angle to the nearest class mean. Relative distance sees
    inputs that are merely far from everything as what they are; the angle adds what whitening blows away.
    """

    discriminant: Discriminant

    def of(self, vectors: Tensor) -> Tensor:
        """Novelty ``(n,)`` of vectors ``(n, dim)``."""
        nearest = self.discriminant.distances(self.discriminant.whiten(vectors)).amin(1)
        angle = (1 - self._cosines(vectors)).amin(1)
        # far away the ratio of two distances levels off, wherever the input is going: then distance itself counts
        beyond = (nearest / (_REACH * self._known[1] + _TINY) + _TINY).log().clamp(min=0)
        return _combine(nearest, self._background(vectors), angle) + beyond

    def limit(self, kept: float) -> float:
        """The novelty below which a share ``kept`` of known inputs lies, from pseudo-features of the cards."""
        return float(torch.quantile(self._known[0], kept))

    @cached_property
    def _known(self) -> tuple[Tensor, float]:
        """Novelties of known inputs, as fresh samples would have them, and their largest distance."""
        d = self.discriminant
        vectors, classes = pseudo_features(d, -(-_PSEUDO_FEATURES // len(d.moments)), seed=0)
        distances, angles = d.distances(d.whiten(vectors)), 1 - self._cosines(vectors)
        # a mean has seen its samples: fresh ones lie farther from it by (n / (n - 1))²; the metric has seen them too,
        # which the two distances share, so that half of its effect cancels
        stretch = (d.counts / (d.counts - 1).clamp(min=1)).square()[classes]
        rows = torch.arange(len(classes))
        distances[rows, classes] *= stretch / (1 - min(d.optimism, _MAX_OPTIMISM)) ** 0.5
        angles[rows, classes] *= stretch
        nearest = distances.amin(1)
        return _combine(nearest, self._background(vectors), angles.amin(1)), float(nearest.max())

    def _cosines(self, vectors: Tensor) -> Tensor:
        return unit(vectors.double()) @ unit(self.discriminant.means).T

    @cached_property
    def _centre(self) -> Tensor:
        return self.discriminant.means.mean(0)

    @cached_property
    def _total_whitener(self) -> Tensor:
        """Whitens with the shrunk covariance of all inputs: within and between classes."""
        d, between = self.discriminant, self.discriminant.means - self._centre
        return shrunk_whitener(d.pooled + between.T @ between / len(between), d.whitening.shrinkage)

    def _background(self, vectors: Tensor) -> Tensor:
        return ((vectors.double() - self._centre) @ self._total_whitener).square().sum(1)


def _combine(nearest: Tensor, background: Tensor, angle: Tensor) -> Tensor:
    relative = (nearest + _TINY) / (background + _TINY)
    return relative.log() + _DIRECTION_WEIGHT * angle.clamp(min=_TINY).log()
