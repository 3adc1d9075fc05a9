"""From cards to groups: who is similar to whom, how the graph is coloured, who joins which group."""

import itertools

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gddsg.core.class_card import ClassCard
from gddsg.core.colouring import welsh_powell, welsh_powell_bound
from gddsg.core.grouping import (
    canonical_groups,
    class_groups,
    extend_groups,
    groups_on_arrival,
    one_group,
    random_groups,
    similar_groups,
    task_groups,
    without,
)
from gddsg.core.similarity_graph import SimilarityGraph, similarity_graph

RANK = 32


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def card(features):
    return ClassCard.of(features, lambda x: x, RANK)


def clusters(n_classes=12, dim=8, spread=1.0, seed=0):
    """Samples by class, of different sizes and widths, close enough for some of the classes to be similar."""
    centres = 1.5 + normal(n_classes, dim, seed=seed)
    return {
        c: centres[c] + spread * (0.2 + c / n_classes) * normal(5 + 3 * c, dim, seed=100 + c) for c in range(n_classes)
    }


def adjacency_of(n, edges):
    matrix = torch.zeros(n, n, dtype=torch.bool)
    for i, j in edges:
        matrix[i, j] = matrix[j, i] = True
    return matrix


def graph_of(labels, edges, distances=None):
    """A graph by hand: edges as pairs of labels, distances 1 unless told."""
    position = {label: i for i, label in enumerate(labels)}
    matrix = torch.ones(len(labels), len(labels), dtype=torch.float64).fill_diagonal_(0)
    for (a, b), distance in (distances or {}).items():
        matrix[position[a], position[b]] = matrix[position[b], position[a]] = distance
    adjacency = adjacency_of(len(labels), [(position[a], position[b]) for a, b in edges])
    return SimilarityGraph(tuple(labels), matrix, torch.zeros(len(labels), dtype=torch.float64), adjacency)


def assert_proper_partition(groups, graph):
    assert sorted(itertools.chain(*groups)) == sorted(graph.labels)
    assert all(groups)
    position = {label: i for i, label in enumerate(graph.labels)}
    for group in groups:
        for a, b in itertools.combinations(group, 2):
            assert not graph.adjacency[position[a], position[b]]


@st.composite
def graphs(draw, max_vertices=12):
    n = draw(st.integers(0, max_vertices))
    pairs = list(itertools.combinations(range(n), 2))
    chosen = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    return n, [pair for pair, edge in zip(pairs, chosen, strict=True) if edge]


# Similarity graph.


def test_cosine_distances_and_radii_are_those_of_the_samples():
    samples = clusters()
    graph = similarity_graph({label: card(features) for label, features in samples.items()})
    for i, ours in samples.items():
        exact = ours.double()
        centroid = exact.mean(0)
        cosines = [float(x @ centroid / x.norm() / centroid.norm()) for x in exact]
        assert float(graph.radii[i]) == pytest.approx(sum(1 - cosine for cosine in cosines) / len(exact), abs=1e-6)
        for j, theirs in samples.items():
            other = theirs.double().mean(0)
            expected = 1 - float(centroid @ other / centroid.norm() / other.norm())
            assert float(graph.distances[i, j]) == pytest.approx(expected, abs=1e-6)


def test_euclidean_radii_are_the_root_mean_square_of_the_samples():
    samples = clusters()
    graph = similarity_graph({label: card(features) for label, features in samples.items()}, "euclidean")
    for i, ours in samples.items():
        exact = ours.double()
        centroid = exact.mean(0)
        squares = [float((x - centroid).square().sum()) for x in exact]
        assert float(graph.radii[i]) == pytest.approx((sum(squares) / len(squares)) ** 0.5, rel=1e-5)
        for j, theirs in samples.items():
            expected = float((centroid - theirs.double().mean(0)).norm())
            assert float(graph.distances[i, j]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("spread", [0.8, 1.3, 1.6])
def test_classes_are_joined_unless_farther_apart_than_both_radii(distance, spread):
    cards = {label: card(features) for label, features in clusters(spread=spread).items()}
    graph = similarity_graph(cards, distance)
    edges = 0
    for i, j in itertools.permutations(graph.labels, 2):
        apart = graph.distances[i, j] > graph.radii[i] and graph.distances[i, j] > graph.radii[j]
        assert bool(graph.adjacency[i, j]) == (not apart)
        edges += not apart
    assert 0 < edges < 12 * 11
    assert not graph.adjacency.diagonal().any()
    assert torch.equal(graph.adjacency, graph.adjacency.T)


def test_similarity_by_hand():
    """Radii 1, 3, 0.5 and centroids at 0, 3, 3.6 on a line: only the wide class reaches the others, one just so."""
    cards = {
        "narrow": card(torch.tensor([[-1.0, 0.0], [1.0, 0.0]])),
        "wide": card(torch.tensor([[0.0, 0.0], [6.0, 0.0]])),
        "far": card(torch.tensor([[3.6, 0.5], [3.6, -0.5]])),
    }
    graph = similarity_graph(cards, "euclidean")
    assert graph.labels == ("far", "narrow", "wide")
    torch.testing.assert_close(graph.radii, torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64), rtol=1e-6, atol=0)
    assert graph.adjacency.tolist() == [[False, False, True], [False, False, True], [True, True, False]]


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_one_sample_classes_have_no_radius_and_stand_alone(distance):
    graph = similarity_graph({c: card(normal(1, 8, seed=c)) for c in range(6)}, distance)
    assert float(graph.radii.max()) < 1e-2
    assert float(graph.radii.min()) >= 0
    assert not graph.adjacency.any()


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_classes_with_the_same_centroid_are_similar(distance):
    spread = normal(5, 8)
    centre = normal(8, seed=1) * 3
    cards = {
        "a": card(torch.cat([centre + spread, centre - spread])),
        "b": card(torch.cat([centre + spread / 8, centre - spread / 8])),
        "c": card(-centre[None] * 2),
    }
    graph = similarity_graph(cards, distance)
    assert graph.adjacency.tolist() == [[False, True, False], [True, False, False], [False, False, False]]


def test_equal_one_sample_classes_are_similar():
    for seed in range(30):
        graph = similarity_graph({c: card(normal(1, 16, seed=seed)) for c in range(5)})
        assert torch.equal(graph.adjacency, graph.adjacency.T), seed
        assert int(graph.adjacency.sum()) == 20, seed


def test_distances_are_symmetric_bit_for_bit():
    for seed in range(3):
        graph = similarity_graph({c: card(normal(3, 40, seed=100 * seed + c)) for c in range(31)})
        assert torch.equal(graph.distances, graph.distances.T), seed


def test_a_class_of_zeros_is_no_obstacle():
    cards = {0: card(torch.zeros(3, 4)), 1: card(normal(5, 4))}
    for distance in ("cosine", "euclidean"):
        graph = similarity_graph(cards, distance)
        assert bool(torch.isfinite(graph.distances).all())
        assert bool(torch.isfinite(graph.radii).all())


def test_the_graph_depends_on_the_classes_not_on_their_arrival():
    cards = {label: card(features) for label, features in clusters().items()}
    backwards = dict(reversed(cards.items()))
    one, other = similarity_graph(cards), similarity_graph(backwards)
    assert one.labels == other.labels == tuple(range(12))
    assert torch.equal(one.distances, other.distances)
    assert torch.equal(one.adjacency, other.adjacency)
    assert canonical_groups(one) == canonical_groups(other)


def test_the_graph_goes_to_networkx_with_its_numbers():
    graph = graph_of("abc", [("a", "b"), ("a", "c")], {("a", "c"): 0.25})
    graph.radii[2] = 0.5
    theirs = graph.to_networkx()
    assert dict(theirs.nodes(data="radius")) == {"a": 0.0, "b": 0.0, "c": 0.5}
    assert list(theirs.edges(data="distance")) == [("a", "b", 1.0), ("a", "c", 0.25)]


# Colouring.


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


# Canonical groups.


@settings(max_examples=150, deadline=None, derandomize=True)
@given(graphs())
def test_canonical_groups_are_a_proper_partition(graph):
    n, edges = graph
    similar = graph_of(range(n), edges)
    assert_proper_partition(canonical_groups(similar), similar)


@pytest.mark.parametrize("spread", [0.8, 1.3, 1.6])
def test_canonical_groups_of_cards_ignore_the_order_of_insertion(spread):
    cards = {label: card(features) for label, features in clusters(spread=spread).items()}
    graph = similarity_graph(cards)
    groups = canonical_groups(graph)
    assert_proper_partition(groups, graph)
    assert len(groups) > 1
    for seed in range(4):
        order = torch.randperm(12, generator=torch.Generator().manual_seed(seed)).tolist()
        assert canonical_groups(similarity_graph({label: cards[label] for label in order})) == groups


def test_canonical_groups_by_hand():
    assert canonical_groups(graph_of("abcd", [("a", "b"), ("b", "c")])) == (("b", "d"), ("a", "c"))
    assert canonical_groups(graph_of("abc", [])) == (("a", "b", "c"),)
    assert canonical_groups(graph_of("", [])) == ()


# Groups by arrival.


def test_a_newcomer_joins_the_least_similar_group_that_fits():
    distances = {("n", "a"): 0.2, ("n", "b"): 0.9, ("n", "c"): 0.6, ("n", "d"): 0.6, ("n", "e"): 0.99}
    graph = graph_of("abcden", [("n", "e")], distances)
    # group means 0.55 and 0.6; the third is farthest but holds a similar class
    assert extend_groups((("a", "b"), ("c", "d"), ("e",)), graph, {"n"}) == (("a", "b"), ("c", "d", "n"), ("e",))


def test_it_is_the_mean_distance_that_counts_not_the_least_or_the_largest():
    distances = {("n", "a"): 0.1, ("n", "b"): 0.2, ("n", "c"): 0.6, ("n", "d"): 0.5, ("n", "e"): 0.5}
    distances |= {("n", "f"): 0.05, ("n", "g"): 0.9, ("n", "h"): 0.9}
    graph = graph_of("abcdefghn", [], distances)
    groups = (("a", "b", "c"), ("d", "e"), ("f", "g", "h"))
    assert extend_groups(groups, graph, {"n"}) == (*groups[:2], ("f", "g", "h", "n"))


def test_a_large_group_does_not_win_by_its_size():
    distances = {("n", "a"): 0.4, ("n", "b"): 0.4, ("n", "c"): 0.4, ("n", "d"): 0.9}
    graph = graph_of("abcdn", [], distances)
    assert extend_groups((("a", "b", "c"), ("d",)), graph, {"n"}) == (("a", "b", "c"), ("d", "n"))


def test_equally_distant_groups_are_filled_in_their_order():
    assert extend_groups((("a",), ("b",)), graph_of("abn", []), {"n"}) == (("a", "n"), ("b",))


def test_newcomers_see_one_another():
    graph = graph_of("amn", [("m", "n")])
    assert extend_groups((("a",),), graph, {"n", "m"}) == (("a", "m"), ("n",))


def test_newcomers_that_fit_nowhere_are_coloured_among_themselves():
    edges = [("a", "m"), ("a", "n"), ("a", "o"), ("a", "p"), ("m", "n"), ("n", "o")]
    assert extend_groups((("a",),), graph_of("amnop", edges), "mnop") == (("a",), ("n", "p"), ("m", "o"))


def test_the_first_classes_are_coloured():
    graph = graph_of("abc", [("a", "b")])
    assert extend_groups((), graph, "abc") == canonical_groups(graph) == (("a", "c"), ("b",))
    assert extend_groups((("a", "c"), ("b",)), graph, ()) == (("a", "c"), ("b",))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(graphs(), st.data())
def test_old_classes_never_move_and_groups_stay_proper(graph, data):
    n, edges = graph
    groups, seen = (), set()
    for arrivals in data.draw(batches(n)):
        seen |= set(arrivals)
        labels = sorted(seen)
        now = graph_of(labels, [edge for edge in edges if seen.issuperset(edge)])
        grown = extend_groups(groups, now, arrivals)
        assert len(grown) >= len(groups)
        for old, new in zip(groups, grown, strict=False):
            assert new[: len(old)] == old
        assert_proper_partition(grown, now)
        groups = grown
    assert seen == set(range(n))


@st.composite
def batches(draw, n):
    """All of ``range(n)`` in some order, cut into batches of some sizes."""
    order, cuts = draw(st.permutations(range(n))), draw(st.sets(st.integers(0, n)))
    return [order[a:b] for a, b in itertools.pairwise(sorted(cuts | {0, n}))]


# Groups for comparison.


def pairs_of_similar(n_pairs):
    """Classes a0, a1, b0, b1 and so on: the two of a letter are similar and close, all others are not."""
    letters = "abcdefgh"[:n_pairs]
    labels = [f"{letter}{i}" for letter in letters for i in (0, 1)]
    couples = [(f"{letter}0", f"{letter}1") for letter in letters]
    return graph_of(labels, couples, dict.fromkeys(couples, 0.1))


def test_one_group_holds_all_classes():
    assert one_group(pairs_of_similar(2)) == (("a0", "a1", "b0", "b1"),)
    assert one_group(graph_of("", [])) == ()


def test_similar_groups_hold_what_canonical_groups_part():
    graph = pairs_of_similar(3)
    assert canonical_groups(graph) == (("a0", "b0", "c0"), ("a1", "b1", "c1"))
    assert similar_groups(graph, 3) == (("a0", "a1"), ("b0", "b1"), ("c0", "c1"))
    assert len(class_groups("similar", graph, (), seed=0)) == 2


def test_similar_groups_join_by_mean_distance():
    distances = {("a", "b"): 0.1, ("c", "d"): 0.2, ("a", "c"): 0.3, ("b", "c"): 0.9, ("a", "d"): 0.9, ("b", "d"): 0.9}
    distances |= {("e", "a"): 0.5, ("e", "b"): 0.95, ("e", "c"): 0.76, ("e", "d"): 0.76}
    # by mean distance e joins {a, b} at 0.725; by the least {a, b} and {c, d} would join, by the largest e and {c, d}
    assert similar_groups(graph_of("abcde", [], distances), 2) == (("a", "b", "e"), ("c", "d"))


@pytest.mark.parametrize("n_groups", [1, 2, 4, 8])
def test_similar_groups_are_as_many_as_asked_for(n_groups):
    graph = pairs_of_similar(4)
    groups = similar_groups(graph, n_groups)
    assert len(groups) == n_groups
    assert sorted(itertools.chain(*groups)) == sorted(graph.labels)
    assert similar_groups(graph_of("ab", []), 5) == (("a",), ("b",))


def test_random_groups_are_a_matter_of_names_and_seed():
    graph = pairs_of_similar(8)
    groups = random_groups(graph, 5, seed=0)
    assert 1 < len(groups) <= 5
    assert all(groups)
    assert sorted(itertools.chain(*groups)) == sorted(graph.labels)
    assert groups == random_groups(graph_of(graph.labels, []), 5, seed=0)
    assert groups != random_groups(graph, 5, seed=1)


def test_random_groups_part_similar_classes_no_more_often_than_chance():
    graph, together = pairs_of_similar(8), 0
    for seed in range(50):
        of_class = {label: g for g, group in enumerate(random_groups(graph, 5, seed)) for label in group}
        together += sum(of_class[f"{letter}0"] == of_class[f"{letter}1"] for letter in "abcdefgh")
    assert 0.15 < together / 400 < 0.25


def test_random_groups_that_would_be_empty_are_left_out():
    groups = random_groups(graph_of("ab", [("a", "b")]), 2, seed=0)
    assert sorted(itertools.chain(*groups)) == ["a", "b"]
    assert all(groups)
    assert {len(random_groups(graph_of("ab", []), 2, seed)) for seed in range(20)} == {1, 2}


def test_the_newcomers_of_a_batch_are_a_group():
    groups = task_groups((), {"b", "a"})
    assert groups == (("a", "b"),)
    assert task_groups(groups, ()) == groups
    assert task_groups(groups, ["c"]) == (("a", "b"), ("c",))


def test_the_name_of_a_grouping_chooses_it():
    graph, arrived = pairs_of_similar(2), (("a0", "a1"), ("b0", "b1"))
    assert class_groups("canonical", graph, arrived, 0) == canonical_groups(graph)
    assert class_groups("one", graph, arrived, 0) == one_group(graph)
    assert class_groups("random", graph, arrived, 3) == random_groups(graph, 2, 3)
    assert class_groups("similar", graph, (), 0) == similar_groups(graph, 2)
    for grouping in ("arrival", "task"):
        assert class_groups(grouping, graph, arrived, 0) == arrived
    assert groups_on_arrival("arrival", (("a0",),), graph, ["a1"]) == extend_groups((("a0",),), graph, ["a1"])
    assert groups_on_arrival("task", (("a0",),), graph, ["a1"]) == (("a0",), ("a1",))
    assert groups_on_arrival("canonical", (), graph, ["a1"]) == ()


# Forgetting.


def test_a_forgotten_class_leaves_its_group_and_an_empty_group_goes():
    groups = (("a", "b"), ("c",), ("d",))
    assert without(groups, "a") == (("b",), ("c",), ("d",))
    assert without(groups, "c") == (("a", "b"), ("d",))
    assert without(groups, "z") == groups
    assert without((("a",),), "a") == ()
