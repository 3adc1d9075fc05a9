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
    distances, radii = (_cosine if distance == "cosine" else _euclidean)(ordered, centroids)
    distances = ((distances + distances.T) / 2).clamp(min=0).fill_diagonal_(0)
    # classes of one and the same vector have distance and radius 0 up to rounding, and must count as similar
    scale = 1.0 if distance == "cosine" else float(centroids.abs().max())
    adjacency = ~(distances > torch.maximum(radii[:, None], radii[None, :]) + _ROUNDING * scale)
    adjacency.fill_diagonal_(False)
    return SimilarityGraph(tuple(cards), distances, radii, adjacency)


def _cosine(cards: list[ClassCard], centroids: Tensor) -> tuple[Tensor, Tensor]:
    directions = unit(centroids)
    # mean over samples of 1 - cos(x, c) = 1 - unit_sum · ĉ / n: exact, and no second pass over the samples
    units = torch.stack([card.unit_sum.double() / card.count for card in cards])
    radii = 1 - (units * directions).sum(1)
    return 1 - directions @ directions.T, radii.clamp(min=0)


def _euclidean(cards: list[ClassCard], centroids: Tensor) -> tuple[Tensor, Tensor]:
    # sums give the root mean square radius; it lies above the mean radius by the spread of the radii
    radii = torch.tensor([card.raw.energy / card.count for card in cards], dtype=torch.float64).sqrt()
    return torch.cdist(centroids, centroids, compute_mode="donot_use_mm_for_euclid_dist"), radii
