"""Novelty of an input against all known classes, and the limit beyond which it counts as unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gddsg.core.canonical_order import content_blocks
from gddsg.core.discriminant import Discriminant, moments_in
from gddsg.core.metric import Metric, shrunk_whitener, span_inflation
from gddsg.core.once import Lazy
from gddsg.core.transform import unit

Floats = NDArray[np.float64]

_DIRECTION_WEIGHT = 0.2
_MAX_OPTIMISM = 0.5  # beyond it the estimate is too large for the few samples it is made from
_TINY = 1e-12
_PSEUDO_FEATURES = 8000  # a limit that keeps 90 % of known inputs then errs by a third of a per cent
_POOLED_SAMPLES = 4  # a class's own scatter is trusted like n - 1 samples, the pooled one like these many
_REACH = 2.0  # times the largest distance of a known input: beyond that distance alone makes an input stranger
_ROWS_AT_ONCE = 1024


def pseudo_features(metric: Metric, per_class: int, seed: int) -> tuple[Tensor, Tensor]:
    """Gaussian draws from the cards that the metric is made of.

    A class's covariance is its own mixed with the pooled one, which few samples need more. Of the energy that its
    factor lost, half is spread over the factor's span and half as the pooled covariance spreads it.

    Returns
    -------
    vectors : Tensor
        ``(n_classes · per_class, dim)``.
    classes : Tensor
        Index of their cards in ``metric.sample``.
    """
    generator = torch.Generator().manual_seed(seed)
    pooled = metric.values.sqrt()[:, None] * metric.vectors.double().T

    def normal(size: int) -> Tensor:
        return torch.randn(per_class, size, generator=generator, dtype=torch.float64)

    draws = []
    for card in metric.sample:
        part = moments_in(metric, card).decoded()
        own, degrees = (part.count - 1) / (part.count - 1 + _POOLED_SAMPLES), max(part.count - 1, 1)
        basis = part.factor.double() * span_inflation(part) / degrees**0.5
        lost = part.residual / 2 / degrees / float(metric.values.sum())
        shared = (1 - own + own * lost) ** 0.5 * normal(part.dim) @ pooled
        draws.append(part.mean + own**0.5 * normal(len(basis)) @ basis + shared)
    return torch.cat(draws), torch.arange(len(draws)).repeat_interleave(per_class)


@dataclass(frozen=True, eq=False)
class Novelty:
    """How unlike every known class an input is.

    ``log(m / m_0) + 0.2 log(1 - cos)``: the squared distance to the nearest class mean over the distance to the mean
    of all classes (each in its own shrunk metric), and the angle to the nearest class mean. Relative distance sees
    inputs that are merely far from everything as what they are; the angle adds what whitening blows away.

    Attributes
    ----------
    whitener : ndarray
        ``(dim, dim)``, of the metric of the classes.
    means : tuple of ndarray
        Whitened class means, some hundreds together, ``(n_block_classes, dim)``.
    directions : tuple of ndarray
        Class means of unit length, likewise.
    centre : ndarray
        ``(dim,)``, the middle of the classes.
    background : ndarray
        ``(dim, dim)``, whitens with the shrunk covariance of all inputs: within and between classes.
    known : Lazy of (ndarray, float)
        Sorted novelties of known inputs, as fresh samples would have them, and their largest distance.
    """

    whitener: Floats
    means: tuple[Floats, ...]
    directions: tuple[Floats, ...]
    centre: Floats
    background: Floats
    known: Lazy[tuple[Floats, float]]

    @classmethod
    def of(cls, discriminant: Discriminant) -> Novelty:
        """The novelty against all classes of a discriminant."""
        metric, cards = discriminant.metric, discriminant.cards
        blocks = [cards[run] for run in content_blocks([card.key for card in cards])]
        own = [torch.stack([moments_in(metric, card).mean for card in block]) for block in blocks]
        sampled = torch.stack([moments_in(metric, card).mean for card in metric.sample])
        centre = sampled.mean(0)
        between = (sampled - centre).T @ (sampled - centre) / len(sampled)
        novelty = cls(
            whitener=metric.whitener.numpy(),
            means=tuple(means().whitened for means in discriminant.means.values()),
            directions=tuple(unit(part).numpy() for part in own),
            centre=centre.numpy(),
            background=shrunk_whitener(metric.pooled + between, metric.shrinkage).numpy(),
            known=Lazy(lambda: _known(novelty, discriminant)),
        )
        return novelty

    def measure(self, vectors: Floats) -> Floats:
        """Novelty ``(n,)`` of vectors ``(n, dim)``."""
        nearest = np.concatenate([part.min(1) for part in self._parts(vectors, self._distances)])
        angle = np.concatenate([part.min(1) for part in self._parts(vectors, self._angles)])
        # far away the ratio of two distances levels off, wherever the input is going: then distance itself counts
        beyond = np.log(nearest / (_REACH * self.known()[1] + _TINY) + _TINY).clip(min=0)
        novelty: Floats = _combine(nearest, self._background(vectors), angle) + beyond
        return novelty

    def limit(self, kept: float) -> float:
        """The novelty below which a share ``kept`` of known inputs lies, from pseudo-features of the cards."""
        return float(np.quantile(self.known()[0], kept))

    def _parts(self, vectors: Floats, measure: Callable[[Floats], Floats]) -> Iterator[Floats]:
        """What ``measure`` finds for some rows at a time: a table of all rows and classes would fill the memory."""
        for start in range(0, len(vectors), _ROWS_AT_ONCE):
            yield measure(vectors[start : start + _ROWS_AT_ONCE])

    def _distances(self, vectors: Floats) -> Floats:
        """Squared distances ``(n, n_classes)`` to the means in the shared metric."""
        return squared_distances(vectors @ self.whitener, self.means)

    def _angles(self, vectors: Floats) -> Floats:
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit_vectors = vectors / np.where(norms > 0, norms, 1.0)
        return 1 - np.concatenate([unit_vectors @ part.T for part in self.directions], axis=1)

    def _background(self, vectors: Floats) -> Floats:
        squares: Floats = np.square((vectors - self.centre) @ self.background).sum(1)
        return squares


def squared_distances(vectors: Floats, means: tuple[Floats, ...]) -> Floats:
    """``(n, n_classes)`` between vectors ``(n, dim)`` and means that come in blocks."""
    own = np.square(vectors).sum(1)[:, None]
    parts = [own + np.square(block).sum(1) - 2 * vectors @ block.T for block in means]
    distances: Floats = np.concatenate(parts, axis=1)
    return np.maximum(distances, 0, out=distances)


def _known(novelty: Novelty, discriminant: Discriminant) -> tuple[Floats, float]:
    metric = discriminant.metric
    drawn, drawn_from = pseudo_features(metric, -(-_PSEUDO_FEATURES // len(metric.sample)), seed=0)
    place = {card.key: column for column, card in enumerate(discriminant.cards)}
    columns = np.array([place[card.key] for card in metric.sample])[drawn_from.numpy()]
    counts = np.array([float(card.count) for card in metric.sample])[drawn_from.numpy()]
    # a mean has seen its samples: fresh ones lie farther from it by (n / (n - 1))²; the metric has seen them too,
    # which the two distances share, so that half of its effect cancels
    stretch = np.square(counts / np.maximum(counts - 1, 1))
    farther = stretch / (1 - min(metric.optimism, _MAX_OPTIMISM)) ** 0.5
    nearest: list[Floats] = []
    angles: list[Floats] = []
    for start in range(0, len(columns), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        own = np.arange(len(columns[rows])), columns[rows]
        for table, stretched, found in (
            (novelty._distances(drawn.numpy()[rows]), farther[rows], nearest),
            (novelty._angles(drawn.numpy()[rows]), stretch[rows], angles),
        ):
            table[own] *= stretched
            found.append(table.min(1))
    distances = np.concatenate(nearest)
    values = _combine(distances, novelty._background(drawn.numpy()), np.concatenate(angles))
    return np.sort(values), float(distances.max())


def _combine(nearest: Floats, background: Floats, angle: Floats) -> Floats:
    relative = (nearest + _TINY) / (background + _TINY)
    found: Floats = np.log(relative) + _DIRECTION_WEIGHT * np.log(angle.clip(min=_TINY))
    return found
