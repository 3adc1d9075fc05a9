"""The similarity graph (paper, section 4.1): two classes are joined where they are hard to tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from gddsg.core.class_card import ClassCard
from gddsg.core.label import Label
from gddsg.core.transform import unit

if TYPE_CHECKING:
    import networkx as nx

_ROUNDING = 1e-12
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
