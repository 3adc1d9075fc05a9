"""Places for the classes of a similarity graph: look-alikes near each other, and no box over another.

Places and sizes are in ems (1 is the size of the type), from the top left, so that picture and page share one layout.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

__all__ = ["MARGIN", "NARROWEST", "Floats", "Pair", "placed"]

Floats = np.ndarray[Any, np.dtype[np.float64]]
Pair = tuple[int, int]

MARGIN = 1.5
NARROWEST = 48.0


def placed(distances: Floats, drawn: list[Pair], halves: Floats) -> Floats:
    """Places in which joined classes are near each other and no box covers another."""
    area = 6.0 * float(np.prod(2 * halves, axis=1).sum())
    width = max(np.sqrt(area * 5 / 3), NARROWEST - 2 * MARGIN)
    height = min(width * 3 / 5, 5 * len(halves))  # of two or three classes all would be far from each other
    centres = _parted(_evened(_layout(distances, drawn)) * [width, height], halves)
    return np.asarray(centres - (centres - halves).min(0) + MARGIN + _centring(centres, halves))


def _centring(centres: Floats, halves: Floats) -> Floats:
    """Shift to the right that keeps a few boxes in the middle of the least width."""
    used = float(np.ptp(np.concatenate([centres - halves, centres + halves])[:, 0])) + 2 * MARGIN
    return np.array([max(NARROWEST - used, 0.0) / 2, 0.0])


def _layout(distances: Floats, drawn: list[Pair]) -> Floats:
    scale = float(distances.max()) or 1.0
    lengths = 0.3 + distances / scale  # never 0, and not too uneven to be drawn
    # the shortest tree that spans all classes holds parts together that no line joins
    tree = [(int(i), int(j)) for i, j in zip(*minimum_spanning_tree(lengths).nonzero(), strict=True)]
    net = nx.Graph()
    net.add_nodes_from(range(len(distances)))
    net.add_edges_from((i, j, {"length": lengths[i, j], "pull": 1 / lengths[i, j]}) for i, j in [*drawn, *tree])
    places = nx.spring_layout(net, weight="pull", seed=0)
    if 2 < len(distances) <= 150:  # better, but its time grows with the cube of the classes
        places = nx.kamada_kawai_layout(net, pos=places, weight="length")
    return _laid_flat(np.array([places[i] for i in range(len(distances))]))


def _laid_flat(points: Floats) -> Floats:
    """Turned so that the longest extent is horizontal; a diagonal chain would leave two corners empty."""
    points = points - points.mean(0)
    _, axes = np.linalg.eigh(points.T @ points)
    return np.asarray(points @ axes[:, ::-1])


def _evened(points: Floats) -> Floats:
    """Points in the unit square, halfway between where they are and an even distribution along each axis."""
    most = max(len(points) - 1, 1)
    ranks = points.argsort(0, kind="stable").argsort(0, kind="stable") / most
    least = points.min(0)
    spread = np.maximum(points.max(0) - least, 1e-12)
    return np.asarray((ranks + (points - least) / spread) / 2)


def _parted(centres: Floats, halves: Floats, rounds: int = 300) -> Floats:
    """Push boxes apart until none covers another, each pair along the axis in which it takes the smaller push."""
    n = len(centres)
    if n > 2000:  # n² numbers a round; at this size it is the page with its search that helps
        return centres
    room = halves[:, None] + halves[None, :] + np.array([1.2, 0.9])
    side = np.where(np.arange(n)[:, None] < np.arange(n)[None, :], -1.0, 1.0)[:, :, None]
    for done in range(rounds):
        gaps = centres[:, None] - centres[None, :]
        excess = room - np.abs(gaps)
        clash = (excess > 1e-3).all(2) & ~np.eye(n, dtype=bool)
        if not clash.any():
            break
        along = excess == excess.min(2, keepdims=True)
        away = np.where(gaps == 0, side, np.sign(gaps))
        centres = centres + 0.4 * (clash[:, :, None] * along * excess * away).sum(1)
        if done >= 50:  # in a crowd pushes only pass clashes on, so let it have more room
            centres = centres * 1.01
    return centres
