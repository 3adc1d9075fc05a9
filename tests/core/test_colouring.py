"""Colouring: proper, without gaps, within the bound, and that of networkx."""

import itertools

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gddsg.core.colouring import welsh_powell, welsh_powell_bound


def adjacency_of(n, edges):
    matrix = torch.zeros(n, n, dtype=torch.bool)
    for i, j in edges:
        matrix[i, j] = matrix[j, i] = True
    return matrix


@st.composite
def graphs(draw, max_vertices=12):
    n = draw(st.integers(0, max_vertices))
    pairs = list(itertools.combinations(range(n), 2))
    chosen = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    return n, [pair for pair, edge in zip(pairs, chosen, strict=True) if edge]


def path(n):
    return n, [(i, i + 1) for i in range(n - 1)]


def complete(n):
    return n, list(itertools.combinations(range(n), 2))


def star(leaves, centre):
    return leaves + 1, [(centre, leaf) for leaf in range(leaves + 1) if leaf != centre]


@pytest.mark.parametrize(
    ("graph", "colours"),
    [
        ((0, []), []),
        ((1, []), [0]),
        ((4, []), [0, 0, 0, 0]),
        (path(2), [0, 1]),
        (path(3), [1, 0, 1]),
        (complete(4), [0, 1, 2, 3]),
        (star(4, centre=3), [1, 1, 1, 0, 1]),
        ((4, [(0, 1), (1, 2), (2, 3), (3, 0)]), [0, 1, 0, 1]),
        ((5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]), [0, 1, 0, 1, 2]),
        # first come first served would take three colours: 0 and 1 the first, 2 the second, 3 the third
        ((5, [(0, 2), (2, 3), (1, 3), (3, 4)]), [0, 1, 1, 0, 1]),
    ],
    ids=["empty", "point", "no edge", "edge", "path", "complete", "star", "square", "pentagon", "tree"],
)
def test_colouring_by_hand(graph, colours):
    assert welsh_powell(adjacency_of(*graph)) == colours


@settings(max_examples=300, deadline=None, derandomize=True)
@given(graphs())
def test_colouring_is_proper_without_gaps_and_within_the_bound(graph):
    n, edges = graph
    adjacency = adjacency_of(n, edges)
    colours = welsh_powell(adjacency)
    assert len(colours) == n
    assert all(colours[i] != colours[j] for i, j in edges)
    assert sorted(set(colours)) == list(range(len(set(colours))))
    assert len(set(colours)) <= welsh_powell_bound(adjacency)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(graphs())
def test_colours_are_those_of_networkx_largest_first(graph):
    """Vertices go in by number, so networkx breaks ties between degrees the same way."""
    n, edges = graph
    theirs = nx.Graph()
    theirs.add_nodes_from(range(n))
    theirs.add_edges_from(edges)
    expected = nx.greedy_color(theirs, strategy="largest_first")
    assert welsh_powell(adjacency_of(n, edges)) == [expected[vertex] for vertex in range(n)]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(graphs(), st.randoms(use_true_random=False))
def test_as_many_colours_as_networkx_where_degrees_are_untied(graph, random):
    """Leaves tell the degrees of the vertices apart; then no numbering of the vertices makes a difference."""
    n, edges = graph
    size = n
    for wanted, vertex in enumerate(range(n), start=n):
        missing = wanted - sum(vertex in edge for edge in edges)
        edges = edges + [(vertex, size + leaf) for leaf in range(missing)]
        size += missing
    order = random.sample(range(size), size)
    theirs = nx.Graph()
    theirs.add_nodes_from(order)
    theirs.add_edges_from(edges)
    expected = max(nx.greedy_color(theirs, strategy="largest_first").values(), default=-1)
    renamed = [(order.index(i), order.index(j)) for i, j in edges]
    colours = welsh_powell(adjacency_of(size, renamed))
    assert max(colours, default=-1) == expected


@pytest.mark.parametrize(
    ("graph", "bound"),
    [((0, []), 0), ((1, []), 1), ((4, []), 1), (path(5), 3), (complete(4), 4), (star(6, centre=0), 2)],
    ids=["empty", "point", "no edge", "path", "complete", "star"],
)
def test_bound_by_hand(graph, bound):
    assert welsh_powell_bound(adjacency_of(*graph)) == bound


@settings(max_examples=100, deadline=None, derandomize=True)
@given(graphs())
def test_the_bound_is_at_most_the_largest_degree_and_one(graph):
    adjacency = adjacency_of(*graph)
    assert welsh_powell_bound(adjacency) <= max(adjacency.sum(1).tolist(), default=-1) + 1
