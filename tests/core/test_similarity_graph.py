"""Who is similar to whom."""

import itertools

import pytest
import torch

from gddsg.core.class_card import ClassCard
from gddsg.core.similarity_graph import SimilarityGraph, similar_pairs, similarity_graph

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
        assert float(graph.radii[i]) == pytest.approx((sum(squares) / len(squares)) ** 0.5, rel=2e-3)
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
    assert graph.labels == ("narrow", "wide", "far")
    torch.testing.assert_close(graph.radii, torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64), rtol=1e-6, atol=0)
    assert graph.adjacency.tolist() == [[False, True, False], [True, False, True], [False, True, False]]


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


def test_classes_are_in_the_order_given_and_nothing_else_depends_on_it():
    cards = {label: card(features) for label, features in clusters().items()}
    one, other = similarity_graph(cards), similarity_graph(dict(reversed(cards.items())))
    assert one.labels == tuple(range(12)) == other.labels[::-1]
    torch.testing.assert_close(one.distances, other.distances.flip(0, 1), rtol=0, atol=1e-12)
    assert torch.equal(one.radii, other.radii.flip(0))
    assert torch.equal(one.adjacency, other.adjacency.flip(0, 1))


def test_the_graph_goes_to_networkx_with_its_numbers():
    graph = graph_of("abc", [("a", "b"), ("a", "c")], {("a", "c"): 0.25})
    graph.radii[2] = 0.5
    theirs = graph.to_networkx()
    assert dict(theirs.nodes(data="radius")) == {"a": 0.0, "b": 0.0, "c": 0.5}
    assert list(theirs.edges(data="distance")) == [("a", "b", 1.0), ("a", "c", 0.25)]


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("rows_at_once", [5, 256])
def test_the_graph_without_a_table_of_all_pairs_is_the_same(distance, rows_at_once, monkeypatch):
    monkeypatch.setattr("gddsg.core.similarity_graph._ROWS_AT_ONCE", rows_at_once)
    cards = {label: card(features) for label, features in clusters().items()}
    cards |= {50: cards[0], 51: card(normal(1, 8))}  # a class twice, and one of a single sample
    graph, pairs = similarity_graph(cards, distance), similar_pairs(cards, distance)
    found = torch.zeros_like(graph.adjacency)
    rows, columns = pairs.tocoo().coords
    found[rows, columns] = True
    assert 0 < len(rows) < len(cards) ** 2
    assert torch.equal(found, graph.adjacency)
    torch.testing.assert_close(torch.from_numpy(pairs.toarray()), graph.distances * graph.adjacency)
