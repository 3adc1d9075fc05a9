"""Novelty of an input against all known classes, and the limit beyond which it counts as unknown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gddsg.core.discriminant import Discriminant, span_inflation
from gddsg.core.transform import unit

_DIRECTION_WEIGHT = 0.2
_PSEUDO_FEATURES = 2000
_POOLED_SAMPLES = 4  # a class's own scatter is trusted like n - 1 samples, the pooled one like these many
_METRIC_OPTIMISM = 1 / 3  # of the optimism of the metric; the rest cancels between the two distances


def pseudo_features(discriminant: Discriminant, per_class: int, seed: int) -> tuple[Tensor, Tensor]:
    """Gaussian draws from the cards: ``(n_classes · per_class, dim)`` vectors and the index of their class."""
    generator = torch.Generator().manual_seed(seed)
    spread = discriminant.whitening.values.sqrt()[:, None] * discriminant.whitening.vectors.T
    draws = []
    for part, mean in zip(discriminant.moments, discriminant.means, strict=True):
        own = (part.count - 1) / (part.count - 1 + _POOLED_SAMPLES)
        degrees = max(part.count - 1, 1)
        basis = part.factor.double() * span_inflation(part) / degrees**0.5
        z = torch.randn(per_class, len(basis), generator=generator, dtype=torch.float64)
        noise = torch.randn(per_class, len(spread), generator=generator, dtype=torch.float64)
        isotropic = (part.residual / 2 / degrees / part.dim) ** 0.5
        draws.append(mean + own**0.5 * (z @ basis + isotropic * noise) + (1 - own) ** 0.5 * (noise.flip(1) @ spread))
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
        return self._combine(nearest, angle, vectors)

    def limit(self, kept: float) -> float:
        """The novelty below which a share ``kept`` of known inputs lies, from pseudo-features of the cards."""
        return float(torch.quantile(self._known, kept))

    @cached_property
    def _known(self) -> Tensor:
        """Sorted novelties of known inputs, as fresh samples would have them."""
        d = self.discriminant
        per_class = -(-_PSEUDO_FEATURES // len(d.moments))
        vectors, classes = pseudo_features(d, per_class, seed=0)
        # the mean has seen its samples: a fresh one lies farther by (n / (n - 1))², and the metric has seen them too
        stretch = (d.counts / (d.counts - 1).clamp(min=1)).square()[classes]
        distances = d.distances(d.whiten(vectors))
        angles = 1 - self._cosines(vectors)
        rows = torch.arange(len(classes))
        distances[rows, classes] *= stretch * (1 + _METRIC_OPTIMISM * d.optimism)
        angles[rows, classes] *= stretch
        return self._combine(distances.amin(1), angles.amin(1), vectors).sort().values

    def _combine(self, nearest: Tensor, angle: Tensor, vectors: Tensor) -> Tensor:
        tiny = 1e-12
        relative = (nearest + tiny) / (self._background(vectors) + tiny)
        return relative.log() + _DIRECTION_WEIGHT * angle.clamp(min=tiny).log()

    def _cosines(self, vectors: Tensor) -> Tensor:
        return unit(vectors.double()) @ unit(self.discriminant.means).T

    @cached_property
    def _centre(self) -> Tensor:
        return self.discriminant.means.mean(0)

    @cached_property
    def _total_cholesky(self) -> Tensor:
        """Factor of the shrunk covariance of all inputs: within and between classes."""
        d, between = self.discriminant, self.discriminant.means - self._centre
        total = d.pooled + between.T @ between / len(between)
        shrunk = (1 - d.whitening.shrinkage) * total
        shrunk.diagonal().add_(d.whitening.shrinkage * total.diagonal().mean())
        factor: Tensor = torch.linalg.cholesky(shrunk)
        return factor

    def _background(self, vectors: Tensor) -> Tensor:
        centred = (vectors.double() - self._centre).T
        whitened: Tensor = torch.linalg.solve_triangular(self._total_cholesky, centred, upper=False)
        return whitened.square().sum(0)
