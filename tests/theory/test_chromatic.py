"""Chromatic numbers: of graphs known by heart, and against going through all colourings."""

import itertools

import networkx as nx
import numpy as np
import pytest

from gddsg.errors import InputError
from gddsg.theory import colours, crown_graph, random_graph


def matrix(graph):
    return nx.to_numpy_array(graph).astype(bool)


def by_trial(adjacency):
    """The fewest colours with which some colouring is proper."""
    n, edges = len(adjacency), np.argwhere(np.triu(adjacency))
    for k in range(1, n + 1):
        for found in itertools.product(range(k), repeat=n):
            if all(found[i] != found[j] for i, j in edges):
                return k
    return 0


@pytest.mark.parametrize(
    ("graph", "chromatic", "clique"),
    [
        (nx.petersen_graph(), 3, 2),
        (nx.mycielski_graph(4), 4, 2),
        (nx.mycielski_graph(5), 5, 2),
        (nx.complete_graph(7), 7, 7),
        (nx.cycle_graph(9), 3, 2),
        (nx.complement(nx.cycle_graph(9)), 5, 4),
        (nx.complement(nx.kneser_graph(7, 2)), 7, 6),
        (nx.empty_graph(4), 1, 1),
        (nx.empty_graph(0), 0, 0),
    ],
    ids=[
        "Petersen",
        "Grötzsch",
        "Mycielski 5",
        "complete",
        "odd cycle",
        "its complement",
        "K(7) lines",
        "edges none",
        "empty",
    ],
)
def test_graphs_known_by_heart(graph, chromatic, clique):
    found = colours(matrix(graph))
    assert found.chromatic_number == chromatic
    assert found.clique == clique


def test_small_graphs_by_trial():
    rng = np.random.default_rng(0)
    for _ in range(60):
        adjacency = random_graph(int(rng.integers(1, 7)), float(rng.random()), rng)
        assert colours(adjacency).chromatic_number == by_trial(adjacency)


def test_everything_is_in_its_place_on_random_graphs():
    rng = np.random.default_rng(1)
    for _ in range(40):
        found = colours(random_graph(20, float(rng.random()), rng))
        assert found.chromatic_number is not None
        assert found.clique <= found.fewest == found.most <= found.welsh_powell <= found.bound
        assert found.bound <= found.largest_degree + 1


@pytest.mark.parametrize("pairs", [3, 5, 12])
def test_the_rule_can_be_as_far_off_as_you_like(pairs):
    found = colours(crown_graph(pairs))
    assert (found.chromatic_number, found.welsh_powell, found.bound) == (2, pairs, pairs)


@pytest.mark.parametrize("graph", [nx.mycielski_graph(4), nx.petersen_graph(), nx.complement(nx.cycle_graph(9))])
def test_both_programs_agree(graph):
    """With few sets allowed the second one is taken; it may not know all cliques either."""
    assert colours(matrix(graph), most_sets=4).chromatic_number == colours(matrix(graph)).chromatic_number


def test_the_second_program_finds_colourings_with_fewer_colours():
    rng = np.random.default_rng(2)
    for _ in range(10):
        adjacency = random_graph(16, 0.5, rng)
        assert colours(adjacency, most_sets=10).chromatic_number == colours(adjacency).chromatic_number


def test_where_the_search_is_cut_short_bounds_are_told():
    found = colours(matrix(nx.mycielski_graph(6)), most_sets=10, most_nodes=1)
    assert found.chromatic_number is None
    assert 2 <= found.fewest < 6 <= found.most


@pytest.mark.parametrize(
    ("adjacency", "message"),
    [
        (np.zeros((2, 3), dtype=bool), r"shape \(2, 3\)"),
        (np.zeros((2, 2)), "type float64, expected a square matrix of bool"),
        (np.array([[False, True], [False, False]]), "not symmetric"),
        (np.eye(2, dtype=bool), "joins a class to itself"),
    ],
)
def test_what_is_no_graph_is_refused(adjacency, message):
    with pytest.raises(InputError, match=message):
        colours(adjacency)
