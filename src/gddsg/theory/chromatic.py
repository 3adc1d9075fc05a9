"""The fewest colours a similarity graph can do with, to hold Welsh and Powell's rule against.

Colours are independent sets; a colouring is a cover of all vertices by such sets, and maximal ones suffice:

    minimise Σ_S x_S   subject to   Σ_{S ∋ v} x_S ≥ 1 for every vertex v,   x_S in {0, 1}

which HiGHS solves as an integer program. Where there are too many such sets, it is asked whether k colours do, with a
variable for every vertex and colour. A clique as large as a known colouring has colours makes both unnecessary, and
vertices that can be coloured last in any case are put aside before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import networkx as nx
import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, eye_array, kron, vstack

from gddsg.core.colouring import welsh_powell, welsh_powell_bound
from gddsg.errors import InputError
from gddsg.theory.brooks import Adjacency

_MOST_SETS = 50_000
_MOST_NODES = 20_000
_ROUNDING = 1e-6
_SOLVED, _INFEASIBLE = 0, 2  # what scipy's milp says


@dataclass(frozen=True)
class Colours:
    """How many colours a graph takes.

    Attributes
    ----------
    fewest, most : int
        Bounds of the chromatic number, equal where it is known.
    welsh_powell : int
        Colours that Welsh and Powell's rule takes.
    bound : int
        Their bound of it, ``max_i min(deg(v_i) + 1, i)``.
    largest_degree : int
        Δ, Brooks' bound of the chromatic number where his theorem applies.
    clique : int
        The largest set of classes found of which any two are similar; no colouring takes fewer.
    """

    fewest: int
    most: int
    welsh_powell: int
    bound: int
    largest_degree: int
    clique: int

    @property
    def chromatic_number(self) -> int | None:
        """The chromatic number, None where only bounds are known."""
        return self.fewest if self.fewest == self.most else None


def colours(adjacency: Adjacency, most_sets: int = _MOST_SETS, most_nodes: int = _MOST_NODES) -> Colours:
    """Colours of a graph by Welsh and Powell's rule, their bound, and the chromatic number or bounds of it.

    Parameters
    ----------
    adjacency : array
        ``(n_classes, n_classes)`` bool, symmetric with False on the diagonal.
    most_sets : int
        Independent sets, and cliques, that are listed; with more of the former the second program is taken.
    most_nodes : int
        Nodes of a search tree; when they are used up, bounds are given.

    Examples
    --------
    A cycle of five needs three colours, although no three of its vertices are joined:

    >>> cycle = np.roll(np.eye(5, dtype=bool), 1, axis=1)
    >>> colours(cycle | cycle.T)
    Colours(fewest=3, most=3, welsh_powell=3, bound=3, largest_degree=2, clique=2)
    """
    graph = _checked(adjacency)
    used = max(welsh_powell(torch.from_numpy(graph)), default=-1) + 1
    clique = max((len(one) for one in islice(_cliques(graph), most_sets)), default=0)
    fewest, most = (used, used) if clique == used else _bounds(graph, clique, used, most_sets, most_nodes)
    largest = int(graph.sum(1).max(initial=0))
    return Colours(fewest, most, used, welsh_powell_bound(torch.from_numpy(graph)), largest, clique)


def crown_graph(pairs: int) -> Adjacency:
    """Vertices a_1, b_1, a_2, b_2 ... with a_i joined to b_j for i ≠ j: two colours do, Welsh and Powell take n.

    Parameters
    ----------
    pairs : int
        n.

    Examples
    --------
    >>> colours(crown_graph(6))
    Colours(fewest=2, most=2, welsh_powell=6, bound=6, largest_degree=5, clique=2)
    """
    kind, number = np.arange(2 * pairs) % 2, np.arange(2 * pairs) // 2
    joined: Adjacency = (kind[:, None] != kind[None]) & (number[:, None] != number[None])
    return joined


def _bounds(graph: Adjacency, clique: int, used: int, most_sets: int, most_nodes: int) -> tuple[int, int]:
    """Bounds of the chromatic number: of what is left of the graph, by DSATUR and by the integer program."""
    rest = _reduced(graph, clique)
    if not len(rest):
        return clique, clique
    by_saturation = max(nx.greedy_color(nx.from_numpy_array(rest), "DSATUR").values()) + 1
    most = min(used, max(clique, by_saturation))
    others = ~rest
    np.fill_diagonal(others, False)
    sets = list(islice(_cliques(others), most_sets + 1))
    if len(sets) > most_sets:
        return _tried(rest, clique, most, most_sets, most_nodes)
    fewest, known = _covered(sets, len(rest), most, most_nodes)
    return max(clique, fewest), max(clique, known)


def _reduced(graph: Adjacency, clique: int) -> Adjacency:
    """Without vertices that any colouring of the others in ``clique`` colours or more extends to.

    They have fewer than ``clique`` neighbours, or no neighbour that another vertex, not joined to them, has not.
    """
    while len(graph):
        spare = graph.sum(1) < clique
        if not spare.any():
            common = graph.astype(np.int64) @ graph
            covered = (common == graph.sum(1)[:, None]) & ~graph & ~np.eye(len(graph), dtype=bool)
            spare = np.arange(len(graph)) == covered.any(1).argmax() if covered.any() else spare
        if not spare.any():
            break
        graph = graph[np.ix_(~spare, ~spare)]
    return graph


def _covered(sets: list[list[int]], n_vertices: int, most: int, most_nodes: int) -> tuple[int, int]:
    """Bounds by the integer program; ``most`` colours are known to do."""
    rows = np.concatenate([np.array(one) for one in sets])
    columns = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
    cover = csr_array((np.ones(len(rows)), (rows, columns)), shape=(n_vertices, len(sets)))
    found = milp(
        np.ones(len(sets)),
        integrality=np.ones(len(sets)),
        bounds=(0, 1),
        constraints=LinearConstraint(cover, lb=1),
        options={"node_limit": most_nodes},
    )
    most = most if found.x is None else min(most, round(found.fun))
    known = 0.0 if found.mip_dual_bound is None else max(found.mip_dual_bound, 0.0)
    return (most if found.success else int(np.ceil(known - _ROUNDING))), most


def _tried(graph: Adjacency, fewest: int, most: int, most_sets: int, most_nodes: int) -> tuple[int, int]:
    """Bounds by asking for one colour less, again and again."""
    cliques = _edge_cliques(graph, most_sets)
    while fewest < most:
        possible = _colourable(cliques, len(graph), most - 1, most_nodes)
        if possible is None:
            break
        fewest, most = (fewest, most - 1) if possible else (most, most)
    return fewest, most


def _edge_cliques(graph: Adjacency, most_sets: int) -> list[list[int]]:
    """Cliques, the largest first, such that every edge is in one of them."""
    open_edges, chosen = np.triu(graph), []
    listed = sorted(islice(_cliques(graph), most_sets), key=len, reverse=True)
    for clique in (*listed, *np.argwhere(open_edges).tolist()):
        inside = np.ix_(sorted(clique), sorted(clique))
        if open_edges[inside].any():
            chosen.append(clique)
            open_edges[inside] = False
    return chosen


def _colourable(cliques: list[list[int]], n_vertices: int, k: int, most_nodes: int) -> bool | None:
    """Whether k colours do; None where the search ended undecided.

    Every vertex takes one colour, every clique each colour once at most, and the largest takes 0, 1, 2 ... in turn.
    """
    if len(cliques[0]) > k:
        return False
    rows = np.repeat(np.arange(len(cliques)), [len(clique) for clique in cliques])
    member = csr_array((np.ones(len(rows)), (rows, np.concatenate(cliques))), shape=(len(cliques), n_vertices))
    once = vstack([kron(eye_array(n_vertices), np.ones((1, k))), kron(member, eye_array(k))], format="csr")
    least, given = np.zeros(once.shape[0]), np.zeros((n_vertices, k))
    least[:n_vertices] = 1
    given[cliques[0], range(len(cliques[0]))] = 1
    found = milp(
        np.zeros(n_vertices * k),
        integrality=np.ones(n_vertices * k),
        bounds=Bounds(given.ravel(), 1),
        constraints=LinearConstraint(once, lb=least, ub=1),
        options={"node_limit": most_nodes},
    )
    return {_SOLVED: True, _INFEASIBLE: False}.get(found.status)


def _cliques(graph: Adjacency) -> Iterator[list[int]]:
    found: Iterator[list[int]] = nx.find_cliques(nx.from_numpy_array(graph))
    return found


def _checked(adjacency: Adjacency) -> Adjacency:
    graph = np.asarray(adjacency)
    if graph.ndim != 2 or graph.dtype != np.bool_ or graph.shape[0] != graph.shape[1]:
        raise InputError(
            f"adjacency has shape {graph.shape} and type {graph.dtype}, expected a square matrix of bool, such as "
            "SimilarityGraph.adjacency.numpy()."
        )
    if (graph != graph.T).any() or graph.diagonal().any():
        raise InputError("adjacency is not symmetric, or joins a class to itself; use (A | A.T) with a False diagonal.")
    return graph
