"""Brooks' condition: probabilities are those of all graphs counted, and of random ones."""

import itertools

import networkx as nx
import numpy as np
import pytest

from gddsg.errors import InputError
from gddsg.theory import (
    brooks_probability,
    colourable_with_largest_degree,
    colours,
    complete_probability,
    connected_probability,
    exception_free_probability,
    is_exception,
    odd_cycle_probability,
    printed_probability,
    random_graph,
)


def all_graphs(n):
    """Every labelled graph on n vertices."""
    pairs = list(itertools.combinations(range(n), 2))
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        adjacency = np.zeros((n, n), dtype=bool)
        for (i, j), edge in zip(pairs, chosen, strict=True):
            adjacency[i, j] = adjacency[j, i] = edge
        yield adjacency


def weight(adjacency, p):
    edges, pairs = adjacency.sum() // 2, len(adjacency) * (len(adjacency) - 1) // 2
    return p**edges * (1 - p) ** (pairs - edges)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_probabilities_are_those_of_all_graphs(n, p):
    free = both = 0.0
    for adjacency in all_graphs(n):
        if not is_exception(adjacency):
            free += weight(adjacency, p)
            both += weight(adjacency, p) * nx.is_connected(nx.from_numpy_array(adjacency))
    assert exception_free_probability(n, p) == pytest.approx(free, abs=1e-12)
    assert brooks_probability(n, p) == pytest.approx(both, abs=1e-12)


def test_the_printed_probability_is_not_that_of_all_graphs():
    """Twelve cycles and one complete graph among the 1024 graphs on five vertices; the paper has the latter alone."""
    assert sum(map(is_exception, all_graphs(5))) == 13
    assert 1024 * (1 - exception_free_probability(5, 0.5)) == pytest.approx(13)
    assert 1024 * (1 - printed_probability(5, 0.5)) == pytest.approx(1, abs=1e-3)


def test_even_cycles_are_no_exception():
    cycle = nx.to_numpy_array(nx.cycle_graph(6)).astype(bool)
    assert not is_exception(cycle)
    assert odd_cycle_probability(6, 0.3) == 0
    assert printed_probability(6, 0.3) < exception_free_probability(6, 0.3)


@pytest.mark.parametrize(("n", "p"), [(5, 0.5), (7, 1 / 3), (10, 0.95), (20, 0.98)])
def test_random_graphs_agree(n, p):
    rng, draws = np.random.default_rng(5), 3000
    found = np.array([not is_exception(random_graph(n, p, rng)) for _ in range(draws)])
    expected = exception_free_probability(n, p)
    assert abs(found.mean() - expected) < 3 * np.sqrt(expected * (1 - expected) / draws)


@pytest.mark.parametrize("n", [2, 10, 40])
def test_certain_graphs(n):
    assert connected_probability(n, 0) == 0
    assert connected_probability(n, 1) == 1
    assert complete_probability(n, 1) == 1
    assert brooks_probability(n, 1) == 0
    assert exception_free_probability(n, 0) == 1


def test_brooks_theorem_decides_as_the_chromatic_number_does():
    """On every graph of up to six vertices, connected or not."""
    for graph in nx.graph_atlas_g()[1:209]:
        adjacency = nx.to_numpy_array(graph).astype(bool)
        found = colours(adjacency)
        assert colourable_with_largest_degree(adjacency) == (found.chromatic_number <= found.largest_degree)


def test_no_class_is_no_exception_to_anything():
    assert colourable_with_largest_degree(np.zeros((0, 0), dtype=bool))


@pytest.mark.parametrize(
    ("n", "p", "message"), [(0, 0.5, "n_classes is 0"), (5, 1.5, "p is 1.5"), (5, np.nan, "p is nan")]
)
def test_what_is_no_probability_is_refused(n, p, message):
    with pytest.raises(InputError, match=message):
        printed_probability(n, p)
