"""What the paper proves or claims, run: theorem 1, its corollary, Brooks' condition, and colours of graphs.

    python -m benchmarks.theory_lab FOLDER

writes ``benchmarks/records/theory.json`` and the figures in ``docs/theory/``; ``docs/theory.md`` shows both. FOLDER
holds ``cifar100*.npz``, ``cub200*.npz`` and ``dogs*.npz``; without it the part on real graphs is taken from the record
that there is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import product, takewhile
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from benchmarks.theory_figures import write_figures
from benchmarks.theory_page import page_sentences, page_tables
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from gddsg.bench.revision import code_revision
from gddsg.core.grouping import canonical_groups
from gddsg.core.model import Model
from gddsg.core.similarity_graph import similarity_graph
from gddsg.data import feature_file
from gddsg.files import replace_file
from gddsg.learners import Discriminant
from gddsg.theory import (
    FAMILIES,
    Colours,
    Estimate,
    LinearTasks,
    brooks_probability,
    colourable_with_largest_degree,
    colours,
    exception_free_probability,
    expected_forgetting,
    expected_generalisation_error,
    forgetting_over_orders,
    generalisation_over_orders,
    generalisation_variance_bound,
    is_exception,
    printed_generalisation_error,
    printed_probability,
    random_graph,
    simulate,
    walk,
)

DATASETS = ("cifar100", "cub200", "dogs")
DRAWS, GRAPHS, SMALL_GRAPHS, SHUFFLES, BOUND_POINTS = 20_000, 10_000, 200, 200, 400
# Ratio r = 0.8, as in the families; only distances of the optima count, and centroids have 1280 dimensions.
CENTROID_SAMPLES, CENTROID_WIDTH = 320, 1600
BROOKS = (
    (3, 0.5), (5, 0.5), (7, 1 / 3), (10, 0.02), (10, 0.05), (10, 0.2), (10, 0.5), (10, 0.9), (10, 0.95), (20, 0.02),
    (20, 0.98), (36, 0.99), (36, 0.995), (40, 0.01), (40, 0.997),
)  # fmt: skip
SIZES, DENSITIES = (10, 20, 30), (0.1, 0.3, 0.5, 0.7, 0.9)
SEED = 1000
CLAIMED = (5, 9, 10, 20, 35, 40, 100)


def settings() -> list[LinearTasks]:
    """Settings in which closed forms are held against simulation: tasks, samples, width and noise, tasks at random.

    Noisy ones have p ≥ n + 8, where standard errors can be trusted; three without noise have p = n + 2.
    """
    shapes = ((1, 10), (4, 12), (10, 18), (10, 40), (16, 24), (2, 40))
    grid = [*product((2, 3, 5), shapes, (0.0, 0.5, 2.0)), *product((2, 3, 5), ((5, 7),), (0.0,))]
    return [
        LinearTasks(np.random.default_rng(k).standard_normal((n_tasks, 4)), n, p, noise)
        for k, (n_tasks, (n, p), noise) in enumerate(grid)
    ]


def monte_carlo(draws: int) -> Iterator[dict[str, Any]]:
    """Closed forms beside what the learner did."""
    for seed, tasks in enumerate(settings(), start=SEED):
        found = simulate(tasks, draws, seed)
        yield {
            "tasks": tasks.n_tasks,
            "samples": tasks.n_samples,
            "width": tasks.width,
            "noise": tasks.noise,
            "forgetting": _beside(found.forgetting, closed=expected_forgetting(tasks)),
            "generalisation": _beside(
                found.generalisation_error,
                closed=expected_generalisation_error(tasks),
                printed=printed_generalisation_error(tasks),
            ),
        }


def _beside(found: Estimate, **forms: float) -> dict[str, float]:
    return {"mean": found.mean, "error": found.error, **forms}


def families() -> list[dict[str, Any]]:
    """Variances over orders along every family of tasks."""
    return [
        {"name": family.name, "parameter": family.parameter, "points": [asdict(point) for point in walk(family)]}
        for family in FAMILIES
    ]


def bound_points() -> list[list[float]]:
    """Random tasks of equal norm: share of the largest sum of squared distances, Var E[G_T] and its bound."""
    rng, points = np.random.default_rng(0), []
    for _ in range(BOUND_POINTS):
        optima = rng.standard_normal((8, int(rng.integers(1, 5))))
        optima[:, 0] += 3 * rng.random()
        tasks = LinearTasks(optima / np.linalg.norm(optima, axis=1, keepdims=True), 10, 50)
        share = float(tasks.squared_distances.sum()) / (2 * tasks.n_tasks**2)
        points.append([share, generalisation_over_orders(tasks).variance, generalisation_variance_bound(tasks)])
    return points


def brooks(n_graphs: int) -> Iterator[dict[str, Any]]:
    """Probabilities as printed, as counted, and as shares of random graphs."""
    for seed, (n, p) in enumerate(BROOKS):
        rng = np.random.default_rng(seed)
        graphs = [random_graph(n, p, rng) for _ in range(n_graphs)]
        free = np.array([not is_exception(graph) for graph in graphs])
        connected = np.array([connected_components(graph)[0] == 1 for graph in graphs])
        yield {
            "classes": n,
            "p": p,
            "graphs": n_graphs,
            "printed": printed_probability(n, p),
            "counted": exception_free_probability(n, p),
            "drawn": float(free.mean()),
            "with_connected": brooks_probability(n, p),
            "drawn_with_connected": float((free & connected).mean()),
            "drawn_colourable": float(np.mean([colourable_with_largest_degree(graph) for graph in graphs])),
        }


def claims() -> list[dict[str, float]]:
    """Up to which p the graph of N classes is no exception with probability 0.99."""
    forms = {"printed": printed_probability, "counted": exception_free_probability}
    return [{"classes": n, **{name: _limit(n, form) for name, form in forms.items()}} for n in CLAIMED]


def _limit(n: int, probability: Callable[[int, float], float]) -> float:
    grid = np.linspace(0, 1, 20_001).tolist()
    return max(takewhile(lambda p: probability(n, p) >= 0.99, grid))


def small_graphs(n_graphs: int) -> Iterator[dict[str, Any]]:
    """Colours of random graphs: the rule, its bound, and the fewest."""
    for seed, (n, p) in enumerate(product(SIZES, DENSITIES)):
        rng = np.random.default_rng(seed)
        found = [colours(random_graph(n, p, rng)) for _ in range(n_graphs)]
        yield {"classes": n, "p": p, **_summary(found)}


def every_small_graph() -> dict[str, Any]:
    """The same of every connected graph of two to seven vertices."""
    atlas = [graph for graph in nx.graph_atlas_g() if len(graph) > 1 and nx.is_connected(graph)]
    return _summary([colours(nx.to_numpy_array(graph).astype(bool)) for graph in atlas])


def _summary(found: list[Colours]) -> dict[str, Any]:
    known = [(one, one.chromatic_number) for one in found if one.chromatic_number is not None]
    excess = np.array([one.welsh_powell - number for one, number in known])
    return {
        "graphs": len(found),
        "known": len(known),
        "chromatic": float(np.mean([number for _, number in known])),
        "welsh_powell": float(np.mean([one.welsh_powell for one in found])),
        "bound": float(np.mean([one.bound for one in found])),
        "largest_degree": float(np.mean([one.largest_degree for one in found])),
        "optimal": float((excess == 0).mean()),
        "most_too_many": int(excess.max()),
        "bound_reached": float(np.mean([one.welsh_powell == one.bound for one in found])),
        "rule_above_largest_degree": int(sum(one.welsh_powell > one.largest_degree for one in found)),
    }


def real_graphs(folder: Path) -> Iterator[dict[str, Any]]:
    """Colours of the similarity graphs of real classes, and the variances over orders in their groups."""
    for name in DATASETS:
        data = feature_file(next(folder.glob(f"{name}*.npz")))
        model = Discriminant().fit(data.train_features, data.train_labels).learnt_.state
        for distance in ("cosine", "euclidean"):
            adjacency = similarity_graph(model.cards, distance).adjacency.numpy()
            n = len(adjacency)
            yield {
                "dataset": name,
                "distance": distance,
                "classes": n,
                "density": float(adjacency.sum() / (n * (n - 1))),
                "components": int(connected_components(adjacency)[0]),
                "colours": asdict(colours(adjacency)),
                "groups": _groups(model) if distance == "cosine" else None,
            }


def _groups(model: Model) -> dict[str, Any]:
    """Classes as tasks with their centroids as optima: groups of the colouring beside random ones of the same sizes."""
    cards = model.cards
    groups = canonical_groups(similarity_graph(cards), {label: card.key for label, card in cards.items()})
    place = {label: i for i, label in enumerate(cards)}
    members = [[place[label] for label in group] for group in groups]
    centroids = np.array([card.centroid.double().numpy() for card in cards.values()])
    units = centroids / np.linalg.norm(centroids, axis=1, keepdims=True)
    return {
        "groups": len([group for group in members if len(group) > 2]),
        "largest": max(map(len, members)),
        "unit": _beside_random(units, members),
        "plain": _beside_random(centroids, members),
    }


def _beside_random(points: NDArray[np.float64], members: list[list[int]]) -> dict[str, list[float]]:
    rng, runs = np.random.default_rng(0), _consecutive(members)
    coloured = _variances(points, members)
    random = np.array([_variances(points[rng.permutation(len(points))], runs) for _ in range(SHUFFLES)])
    below = (random < coloured).mean(0)
    return {"coloured": coloured, "random": random.mean(0).tolist(), "random_below": below.tolist()}


def _consecutive(members: list[list[int]]) -> list[list[int]]:
    """Groups of the same sizes, of classes that stand one after another."""
    ends = np.cumsum([len(group) for group in members])
    return [list(range(end - len(group), end)) for end, group in zip(ends.tolist(), members, strict=True)]


def _variances(points: NDArray[np.float64], members: list[list[int]]) -> list[float]:
    """Mean squared distance in a group, Var E[G_T] and Var E[F_T]: means over groups of three classes or more."""
    rows = []
    for group in (group for group in members if len(group) > 2):
        tasks, pairs = LinearTasks(points[group], CENTROID_SAMPLES, CENTROID_WIDTH), len(group) * (len(group) - 1)
        mean = float(tasks.squared_distances.sum()) / pairs
        rows.append([mean, generalisation_over_orders(tasks).variance, forgetting_over_orders(tasks).variance])
    return [float(value) for value in np.mean(rows, axis=0)]


def main() -> None:
    """Run everything, write the record and the figures, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/theory.json"))
    parser.add_argument("--figures", type=Path, default=Path("docs/theory"))
    args = parser.parse_args()
    real = list(real_graphs(args.folder)) if args.folder else json.loads(args.out.read_text())["real_graphs"]
    record = {
        "revision": code_revision(),
        "monte_carlo": {"draws": DRAWS, "settings": list(monte_carlo(DRAWS))},
        "families": families(),
        "bound": bound_points(),
        "brooks": list(brooks(GRAPHS)),
        "claims": claims(),
        "small_graphs": list(small_graphs(SMALL_GRAPHS)),
        "every_small_graph": every_small_graph(),
        "real_graphs": real,
    }
    replace_file(args.out, (json.dumps(record, indent=1) + "\n").encode())
    write_figures(record, args.figures)
    for name, lines in page_tables(record).items():
        print("\n".join([f"\n{name}:", *lines]))
    print("", *page_sentences(record).values(), sep="\n")


if __name__ == "__main__":
    main()
