"""What else the similarity graph could be good for: three trials on training samples held back, none on test samples.

    python benchmarks/try_graph.py FOLDER --out benchmarks/records/graph.json

FOLDER holds ``cifar100*.npz``, ``cub200*.npz`` and ``dogs*.npz``. A fifth of the training samples is held back and
classified by a discriminant of the others. The trials, each beside the discriminant as it is:

- neighbours: the covariance of a class leans on those of its ten nearest classes, too;
- experts: where the two likeliest classes are joined in the graph, their common scatter decides between them;
- coarse stage: only classes in the clusters nearest to an input are looked at, in place of all.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from gddsg.bench.revision import code_revision
from gddsg.core.discriminant import moments_in
from gddsg.core.metric import own_weight
from gddsg.core.similarity_graph import similarity_graph
from gddsg.core.transform import apply_view
from gddsg.data import feature_file
from gddsg.evaluation import average_accuracy
from gddsg.files import replace_file
from gddsg.learners import Discriminant

DATASETS = ("cifar100", "cub200", "dogs")
WEIGHTS = (0.0, 0.05, 0.1, 0.2)
CLUSTERS_ASKED = (0.1, 0.2, 0.4)
NEIGHBOURS, NEIGHBOUR_RANK, CANDIDATES = 10, 16, 24


class Held:
    """A discriminant of four fifths of the training samples, and the others in whitened coordinates."""

    def __init__(self, path: Path) -> None:
        data = feature_file(path)
        held = _one_in_five(data.train_labels)
        learner = Discriminant().fit(data.train_features[~held], data.train_labels[~held])
        model = learner.learnt_.state
        metric, cards = model.derived.metric, model.cards
        parts = [moments_in(metric, card) for card in cards.values()]
        self.labels, self.truth = np.array(list(cards)), data.train_labels[held]
        self.means = metric.whiten(torch.stack([part.mean for part in parts]))
        self.inputs = metric.whiten(torch.from_numpy(apply_view(data.train_features[held], metric.view)))
        self.scatter = [
            (part.factor.decoded().double() @ metric.whitener) / max(part.count - 1, 1) ** 0.5 for part in parts
        ]
        self.own = [(1 - metric.shrinkage) * own_weight(part) for part in parts]
        self.kept = 1 - metric.shrinkage
        self.similar = similarity_graph(cards).adjacency
        errors = metric.effective_dim / torch.tensor([float(part.count) for part in parts], dtype=torch.float64)
        self.linear = self.inputs @ self.means.T - (self.means.square().sum(1) - errors) / 2
        self.candidates = self.linear.topk(min(CANDIDATES, len(parts)), 1).indices

    def accuracy(self, scores: Tensor) -> float:
        """A_N in per cent."""
        return round(100 * average_accuracy(self.truth, self.labels[scores.argmax(1).numpy()]), 2)

    def scores(self, factors: Sequence[Tensor]) -> Tensor:
        """Scores of the candidates with covariance ``I + FᵀF``, by Woodbury's identity."""
        out = torch.full_like(self.linear, -torch.inf)
        for c, factor in enumerate(factors):
            rows = (self.candidates == c).any(1).nonzero()[:, 0]
            out[rows, c] = self.linear[rows, c] + _term(factor, self.inputs[rows] - self.means[c])
        return out

    def own_factors(self) -> list[Tensor]:
        """Of every class by itself."""
        return [weight**0.5 * rows for weight, rows in zip(self.own, self.scatter, strict=True)]


def _one_in_five(labels: Any) -> Any:
    held, rng = np.zeros(len(labels), dtype=bool), np.random.default_rng(0)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        held[rows[: len(rows) // 5]] = True
    return held


def _term(factor: Tensor, gaps: Tensor) -> Tensor:
    """What a covariance ``I + FᵀF`` in place of I adds to the scores of inputs that lie so far from the mean."""
    lower = torch.linalg.cholesky(torch.eye(len(factor), dtype=torch.float64) + factor @ factor.T)
    along = torch.linalg.solve_triangular(lower, (gaps @ factor.T).T, upper=False)
    return along.square().sum(0) / 2 - lower.diagonal().log().sum()


def neighbours(held: Held) -> Iterator[dict[str, Any]]:
    """``I + w S_c + v S_N`` with S_N the mean scatter of the nearest classes."""
    distances = torch.cdist(held.means, held.means).fill_diagonal_(torch.inf)
    nearest = distances.topk(NEIGHBOURS, largest=False).indices.tolist()
    for weight in WEIGHTS:
        factors = [
            torch.cat(
                [own, *((held.kept * weight / NEIGHBOURS) ** 0.5 * held.scatter[j][:NEIGHBOUR_RANK] for j in near)]
            )
            for own, near in zip(held.own_factors(), nearest, strict=True)
        ]
        yield {"trial": "neighbours", "weight": weight, "A_N": held.accuracy(held.scores(factors))}


def experts(held: Held) -> Iterator[dict[str, Any]]:
    """Two look-alikes in front share the mean of their scatters, and the nearer one wins."""
    scores = held.scores(held.own_factors())
    first, second = scores.topk(2, 1).indices.T
    joined = held.similar[first, second].nonzero()[:, 0]
    pairs: dict[tuple[int, int], list[int]] = {}
    for row, i, j in zip(joined.tolist(), first[joined].tolist(), second[joined].tolist(), strict=True):
        pairs.setdefault((min(i, j), max(i, j)), []).append(row)
    decided = scores.clone()
    for (i, j), rows in pairs.items():
        factor = torch.cat([(held.own[c] / 2) ** 0.5 * held.scatter[c] for c in (i, j)])
        own = [held.linear[rows, c] + _term(factor, held.inputs[rows] - held.means[c]) for c in (i, j)]
        top = scores[rows].max(1).values
        for c, found in zip((i, j), own, strict=True):
            decided[rows, c] = top + found - torch.maximum(*own)
    yield {"trial": "experts", "asked": round(len(joined) / len(scores), 4), "A_N": held.accuracy(decided)}


def coarse_stage(held: Held) -> Iterator[dict[str, Any]]:
    """Clusters of classes that look alike; colour groups would not do, for what is in one of them is unlike."""
    n_clusters = max(round(len(held.labels) ** 0.5), 2)
    clusters = KMeans(n_clusters, n_init=4, random_state=0).fit(held.means.numpy())
    centres, own = torch.from_numpy(clusters.cluster_centers_), torch.from_numpy(clusters.labels_).long()
    nearness = held.inputs @ centres.T - centres.square().sum(1) / 2
    order = nearness.argsort(1, descending=True)
    full = held.scores(held.own_factors())
    for share in CLUSTERS_ASKED:
        few = order[:, : max(round(share * n_clusters), 1)]
        seen = torch.zeros_like(nearness, dtype=torch.bool).scatter_(1, few, True)[:, own]
        found = held.accuracy(torch.where(seen, full.clamp(min=-1e300), -torch.inf))
        looked_at = (float(seen.double().mean()) * len(held.labels) + n_clusters) / len(held.labels)
        yield {"trial": "coarse stage", "clusters": share, "distances": round(looked_at, 3), "A_N": found}


def page_lines(record: Mapping[str, Any]) -> list[str]:
    """The table of docs/tried.md: a line for every trial."""
    found: dict[str, dict[str, str]] = {}
    for one in record["values"]:
        found.setdefault(_trial(one), {})[one["dataset"]] = _shown(one)
    lines = ["| trial | CIFAR-100 | CUB-200 | Stanford Dogs |", "|---|---|---|---|"]
    return [
        *lines,
        *(f"| {name} | {' | '.join(cells[dataset] for dataset in DATASETS)} |" for name, cells in found.items()),
    ]


def _trial(one: Mapping[str, Any]) -> str:
    if one["trial"] == "neighbours":
        return f"neighbours' scatter, weight {one['weight']:g}" if one["weight"] else "the discriminant as it is"
    if one["trial"] == "experts":
        return "experts (share of inputs that they decide)"
    return f"coarse stage, {one['clusters']:.0%} of the clusters (share of the distances)"


def _shown(one: Mapping[str, Any]) -> str:
    share = one.get("asked", one.get("distances"))
    return f"{one['A_N']:.2f}" if share is None else f"{one['A_N']:.2f} ({share:.0%})"


def main() -> None:
    """Run all trials on all data sets, and write one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/graph.json"))
    args = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for name in DATASETS:
        held = Held(next(args.folder.glob(f"{name}*.npz")))
        for line in (*neighbours(held), *experts(held), *coarse_stage(held)):
            lines.append({"dataset": name, **line})
            print(json.dumps(lines[-1]), flush=True)
    record = {"revision": code_revision(), "values": lines}
    replace_file(args.out, (json.dumps(record, indent=1) + "\n").encode())
    print("\n".join(page_lines(record)))


if __name__ == "__main__":
    main()
