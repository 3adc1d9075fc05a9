"""What figures need beside accuracies: the meta-features in the plane, and the similarity graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gddsg.bench.findings import EmbeddingFindings, GraphFindings
from gddsg.core.identification import meta_features
from gddsg.data import FeatureDataset, class_prototypes
from gddsg.errors import InputError, MissingExtraError

_POINTS = 1500


def draw(kind: str, learner: Any, data: FeatureDataset, seed: int) -> EmbeddingFindings | GraphFindings:
    """The picture's numbers.

    Parameters
    ----------
    kind : str
        ``graph``, ``t-SNE`` or ``UMAP``.
    learner : Any
        Unfitted; it has groups once it has learnt.
    data : FeatureDataset
        All training samples are learnt, some test samples drawn.
    seed : int
        Of the embedding and of the samples in it.

    Returns
    -------
    EmbeddingFindings or GraphFindings
        What is to be drawn.
    """
    learner.fit(data.train_features, data.train_labels)
    if not hasattr(learner, "class_groups_"):
        raise InputError(f"A {type(learner).__name__} has no groups to draw; use gddsg.")
    group_of = {label: group for group, members in enumerate(learner.class_groups_) for label in members}
    return _graph(learner, data, group_of) if kind == "graph" else _embedding(kind, data, group_of, seed)


def _graph(learner: Any, data: FeatureDataset, group_of: dict[Any, int]) -> GraphFindings:
    graph = learner.similarity_graph_
    edges = torch.nonzero(graph.adjacency.triu(1)).tolist()
    return GraphFindings(
        classes=tuple(label if isinstance(label, str) else data.classes[label] for label in graph.labels),
        group_of_class=tuple(group_of[label] for label in graph.labels),
        edges=tuple((i, j) for i, j in edges),
    )


def _embedding(kind: str, data: FeatureDataset, group_of: dict[Any, int], seed: int) -> EmbeddingFindings:
    """ρ(x) of some test samples, distances to the prototypes of all classes, brought to the plane."""
    rows = np.random.default_rng(seed).permutation(len(data.test_labels))[:_POINTS]
    prototypes = torch.from_numpy(class_prototypes(data)[1])
    rho = meta_features(torch.from_numpy(data.test_features[rows]), prototypes)
    points = (_tsne if kind == "t-SNE" else _umap)(rho, seed)
    labels = data.test_labels[rows].tolist()
    return EmbeddingFindings(
        points=tuple((x, y) for x, y in np.round(points.astype(float), 2).tolist()),
        groups=tuple(group_of[label] for label in labels),
        labels=tuple(label if isinstance(label, str) else data.classes[label] for label in labels),
    )


def _tsne(rho: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    from sklearn.manifold import TSNE

    return np.asarray(TSNE(random_state=seed, init="pca", perplexity=min(30, len(rho) - 1)).fit_transform(rho))


def _umap(rho: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    try:
        from umap import UMAP
    except ImportError as error:
        raise MissingExtraError(
            "UMAP needs umap-learn, which is not installed. Install it with: pip install 'gddsg[umap]'"
        ) from error
    return np.asarray(UMAP(random_state=seed, n_jobs=1).fit_transform(rho))
