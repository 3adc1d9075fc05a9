"""Novelty of an input against all known classes, and the limit beyond which it counts as unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gddsg.core.once import Lazy

Floats = NDArray[np.float64]

_DIRECTION_WEIGHT = 0.2
_TINY = 1e-12
_REACH = 2.0  # times the largest distance of a known input: beyond that distance alone makes an input stranger
ROWS_AT_ONCE = 1024


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
        Sorted novelties of known inputs, as fresh samples would have them, and their largest distance; see
        :mod:`gddsg.core.known_inputs`.
    """

    whitener: Floats
    means: tuple[Floats, ...]
    directions: tuple[Floats, ...]
    centre: Floats
    background: Floats
    known: Lazy[tuple[Floats, float]]

    def measure(self, vectors: Floats) -> Floats:
        """Novelty ``(n,)`` of vectors ``(n, dim)``."""
        nearest = np.concatenate([part.min(1) for part in self._parts(vectors, self.distances)])
        angle = np.concatenate([part.min(1) for part in self._parts(vectors, self.angles)])
        # far away the ratio of two distances levels off, wherever the input is going: then distance itself counts
        beyond = np.log(nearest / (_REACH * self.known()[1] + _TINY) + _TINY).clip(min=0)
        novelty: Floats = combined_novelty(nearest, self.spread(vectors), angle) + beyond
        return novelty

    def limit(self, kept: float) -> float:
        """The novelty below which a share ``kept`` of known inputs lies, from pseudo-features of the cards."""
        return float(np.quantile(self.known()[0], kept))

    def _parts(self, vectors: Floats, measure: Callable[[Floats], Floats]) -> Iterator[Floats]:
        """What ``measure`` finds for some rows at a time: a table of all rows and classes would fill the memory."""
        for start in range(0, len(vectors), ROWS_AT_ONCE):
            yield measure(vectors[start : start + ROWS_AT_ONCE])

    def distances(self, vectors: Floats) -> Floats:
        """Squared distances ``(n, n_classes)`` to the means in the shared metric."""
        return squared_distances(vectors @ self.whitener, self.means)

    def angles(self, vectors: Floats) -> Floats:
        """One less the cosines ``(n, n_classes)`` to the means."""
        directions = unit_rows(vectors)
        return 1 - np.concatenate([directions @ part.T for part in self.directions], axis=1)

    def spread(self, vectors: Floats) -> Floats:
        """Squared distances ``(n,)`` to the middle of the classes in the metric of all inputs."""
        squares: Floats = np.square((vectors - self.centre) @ self.background).sum(1)
        return squares


def unit_rows(vectors: Floats) -> Floats:
    """Vectors ``(n, dim)`` of unit length; zero stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions: Floats = vectors / np.where(norms > 0, norms, 1.0)
    return directions


def squared_distances(vectors: Floats, means: tuple[Floats, ...]) -> Floats:
    """``(n, n_classes)`` between vectors ``(n, dim)`` and means that come in blocks."""
    own = np.square(vectors).sum(1)[:, None]
    parts = [own + np.square(block).sum(1) - 2 * vectors @ block.T for block in means]
    distances: Floats = np.concatenate(parts, axis=1)
    return np.maximum(distances, 0, out=distances)


def combined_novelty(nearest: Floats, spread: Floats, angle: Floats) -> Floats:
    """``log(m / m_0) + 0.2 log(1 - cos)`` ``(n,)`` of its three parts."""
    relative = (nearest + _TINY) / (spread + _TINY)
    found: Floats = np.log(relative) + _DIRECTION_WEIGHT * np.log(angle.clip(min=_TINY))
    return found
