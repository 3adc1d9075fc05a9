"""The similarity graph (paper, section 4.1): two classes are joined where they are hard to tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from gddsg.core.class_card import ClassCard
from gddsg.core.label import Label
from gddsg.core.transform import unit

if TYPE_CHECKING:
    import networkx as nx
    from scipy.sparse import csr_array

_ROUNDING, _ROWS_AT_ONCE = 1e-12, 256
Distance = Literal["cosine", "euclidean"]


@dataclass(frozen=True, eq=False)
class SimilarityGraph:
    """An undirected graph over classes, without loops.

    Attributes
    ----------
    labels : tuple of Label
        The classes.
    distances : Tensor
        ``(n_classes, n_classes)`` distances between centroids.
    radii : Tensor
        ``(n_classes,)`` mean distance of a class's samples to its centroid (the two sides of eq. 3).
    adjacency : Tensor
        ``(n_classes, n_classes)`` bool, True where two classes are similar.
    """

    labels: tuple[Label, ...]
    distances: Tensor
    radii: Tensor
    adjacency: Tensor

    def to_networkx(self) -> nx.Graph:
        """The graph as a :class:`networkx.Graph`; edges carry ``distance``, nodes carry ``radius``."""
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from((label, {"radius": float(r)}) for label, r in zip(self.labels, self.radii, strict=True))
        for i, j in torch.nonzero(self.adjacency.triu(1)).tolist():
            graph.add_edge(self.labels[i], self.labels[j], distance=float(self.distances[i, j]))
        return graph


def similarity_graph(cards: Mapping[Label, ClassCard], distance: Distance = "cosine") -> SimilarityGraph:
    """Join classes i and j unless ``d(c_i, c_j) > max(radius_i, radius_j)`` (eq. 3 and 4); classes in given order."""
    ordered = list(cards.values())
    centroids = torch.stack([card.centroid for card in ordered])
    if distance == "cosine":
        return cosine_graph(tuple(cards), centroids, torch.stack([c.unit_sum.double() / c.count for c in ordered]))
    distances, radii = _euclidean(ordered, centroids)
    return _joined(tuple(cards), distances, radii, float(centroids.abs().max()))


def similar_pairs(cards: Mapping[Label, ClassCard], distance: Distance = "cosine") -> csr_array:
    """The same graph without a table of all pairs: distances ``(n_classes, n_classes)`` of similar classes alone.

    Every pair is looked at, some hundred classes at a time, so that the time grows with the square of the number of
    classes and the memory with the number of pairs found. A distance of zero is stored, too.

    Parameters
    ----------
    cards : mapping of Label to ClassCard
        The classes; a row and a column each, in their order.
    distance : {"cosine", "euclidean"}
        Between centroids.
    """
    from scipy.sparse import csr_array  # few programs ask, and all would wait for its import

    vectors, radii, scale = _places(list(cards.values()), distance)
    ends, columns, found = [0], [], []
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        apart = _apart(vectors[rows], vectors, distance)
        similar = ~(apart > torch.maximum(radii[rows, None], radii[None, :]) + _ROUNDING * scale)
        own = torch.arange(len(apart))
        similar[own, own + start] = False
        for row, near in zip(apart, similar, strict=True):
            columns.append(near.nonzero()[:, 0].numpy())
            found.append(row[near].clamp(min=0).numpy())
            ends.append(ends[-1] + len(columns[-1]))
    n = len(vectors)
    return csr_array((np.concatenate(found), np.concatenate(columns), np.array(ends)), shape=(n, n))


def _places(cards: list[ClassCard], distance: Distance) -> tuple[Tensor, Tensor, float]:
    """Where classes are, how far their samples reach, and what rounding is measured by."""
    read = [(card.centroid, card.unit_sum.double() / card.count, card.raw.energy / card.count) for card in cards]
    centroids = torch.stack([centroid for centroid, _, _ in read])
    if distance == "euclidean":
        return centroids, torch.tensor([energy for _, _, energy in read]).double().sqrt(), float(centroids.abs().max())
    directions = unit(centroids)
    radii = 1 - (torch.stack([mean for _, mean, _ in read]) * directions).sum(1)
    return directions, radii.clamp(min=0), 1.0


def _apart(some: Tensor, every: Tensor, distance: Distance) -> Tensor:
    if distance == "cosine":
        return 1 - some @ every.T
    return torch.cdist(some, every, compute_mode="donot_use_mm_for_euclid_dist")


def cosine_graph(labels: tuple[Label, ...], centroids: Tensor, unit_means: Tensor) -> SimilarityGraph:
    """The graph by cosine distance.

    Parameters
    ----------
    labels : tuple of Label
        The classes.
    centroids, unit_means : Tensor
        ``(n_classes, feature_dim)`` float64: means of the samples, and of the samples brought to unit length.
    """
    directions = unit(centroids)
    # mean over samples of 1 - cos(x, c) = 1 - unit_mean · ĉ: exact, and no second pass over the samples
    radii = 1 - (unit_means * directions).sum(1)
    return _joined(labels, 1 - directions @ directions.T, radii.clamp(min=0), 1.0)


def _joined(labels: tuple[Label, ...], distances: Tensor, radii: Tensor, scale: float) -> SimilarityGraph:
    distances = ((distances + distances.T) / 2).clamp(min=0).fill_diagonal_(0)
    # classes of one and the same vector have distance and radius 0 up to rounding, and must count as similar
    adjacency = ~(distances > torch.maximum(radii[:, None], radii[None, :]) + _ROUNDING * scale)
    adjacency.fill_diagonal_(False)
    return SimilarityGraph(labels, distances, radii, adjacency)


def _euclidean(cards: list[ClassCard], centroids: Tensor) -> tuple[Tensor, Tensor]:
    # sums give the root mean square radius; it lies above the mean radius by the spread of the radii
    radii = torch.tensor([card.raw.energy / card.count for card in cards], dtype=torch.float64).sqrt()
    return torch.cdist(centroids, centroids, compute_mode="donot_use_mm_for_euclid_dist"), radii
