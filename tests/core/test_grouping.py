"""Who is in which group: by content, never by name, and for every grouping."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gddsg.core import grouping
from gddsg.core.canonical_order import BLOCK_SIZE, by_content, content_blocks
from gddsg.core.class_card import ClassCard
from gddsg.core.grouping import (
    MAX_GROUP_SIZE,
    canonical_groups,
    class_groups,
    extend_groups,
    groups_on_arrival,
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


class Keyed:
    """Stands for a card of which only the key matters."""

    def __init__(self, key):
        self.key = key


def hashes(labels, seed=0):
    """Random hashes by label, in canonical order."""
    keys = np.random.default_rng(seed).integers(0, 2**64, len(labels), dtype=np.uint64).tolist()
    return dict(sorted(zip(labels, keys, strict=True), key=lambda item: item[1]))


def keyed(labels, seed=0):
    """Cards with such hashes."""
    return {label: Keyed(key) for label, key in hashes(labels, seed).items()}


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


# Canonical groups.


@settings(max_examples=150, deadline=None, derandomize=True)
@given(graphs())
def test_canonical_groups_are_a_proper_partition(graph):
    n, edges = graph
    similar = graph_of(range(n), edges)
    assert_proper_partition(canonical_groups(similar, hashes(range(n))), similar)


def groups_of(cards, distance="cosine", name="canonical", seed=0):
    made = class_groups(name, by_content(cards), distance, seed, {})
    return tuple(group for block in made.values() for group in block)


@pytest.mark.parametrize("spread", [0.8, 1.3, 1.6])
def test_canonical_groups_of_cards_ignore_the_order_of_insertion(spread):
    cards = {label: card(features) for label, features in clusters(spread=spread).items()}
    groups = groups_of(cards)
    assert_proper_partition(groups, similarity_graph(cards))
    assert len(groups) > 1
    for seed in range(4):
        order = torch.randperm(12, generator=torch.Generator().manual_seed(seed)).tolist()
        assert groups_of({label: cards[label] for label in order}) == groups


@pytest.mark.parametrize("name", ["canonical", "one", "random", "similar"])
@pytest.mark.parametrize("spread", [0.8, 1.3, 1.6])
def test_names_have_no_part_in_groups(spread, name):
    cards = {label: card(features) for label, features in clusters(spread=spread).items()}
    groups = groups_of(cards, name=name)
    for seed in range(4):
        names = torch.randperm(12, generator=torch.Generator().manual_seed(seed)).tolist()
        renamed = groups_of({names[label]: one for label, one in cards.items()}, name=name)
        expected = [{names[label] for label in group} for group in groups]
        assert sorted(map(sorted, renamed)) == sorted(map(sorted, expected))
        if name != "similar":
            assert renamed == tuple(tuple(names[label] for label in group) for group in groups)


def test_canonical_groups_by_hand():
    assert canonical_groups(graph_of("abcd", [("a", "b"), ("b", "c")]), hashes("abcd")) == (("b", "d"), ("a", "c"))
    assert canonical_groups(graph_of("abc", []), hashes("abc")) == (("a", "b", "c"),)
    assert canonical_groups(graph_of("", []), {}) == ()


def test_a_large_colour_is_divided_by_content():
    labels = list(range(10 * MAX_GROUP_SIZE))
    keys = hashes(labels)
    groups = canonical_groups(graph_of(keys, []), keys)
    assert sorted(itertools.chain(*groups)) == labels
    assert max(map(len, groups)) <= MAX_GROUP_SIZE
    assert len(groups) <= 32
    named = {-label: key for label, key in keys.items()}
    assert canonical_groups(graph_of(named, []), named) == tuple(tuple(-k for k in group) for group in groups)
    newcomer = {**keys, "new": keys[0] ^ (1 << 60)}
    changed = set(canonical_groups(graph_of(newcomer, []), newcomer)) ^ set(groups)
    assert len(changed) == 2  # one group before, one after
    assert {label for group in changed for label in group} >= {"new", 0}


def test_cards_of_one_hash_stay_in_one_group():
    keys = dict.fromkeys(range(MAX_GROUP_SIZE + 1), 7)
    assert canonical_groups(graph_of(keys, []), keys) == (tuple(keys),)


# Order and blocks by content.


def test_canonical_order_is_that_of_the_hashes():
    cards = {"a": Keyed(3), "b": Keyed(2**63), "c": Keyed(0), "d": Keyed(3)}
    assert list(by_content(cards)) == ["c", "a", "d", "b"]


@pytest.mark.parametrize("n", [1, BLOCK_SIZE, BLOCK_SIZE + 1, 3000])
def test_blocks_are_runs_of_the_canonical_order_and_not_too_large(n):
    keys = list(hashes(range(n)).values())
    blocks = [keys[run] for run in content_blocks(keys)]
    assert list(itertools.chain(*blocks)) == keys
    assert max(map(len, blocks)) <= BLOCK_SIZE
    assert all(blocks)
    assert (len(blocks) == 1) == (n <= BLOCK_SIZE)


def blocks_by_bits(keys, bit=63):
    """Halves by one bit after the other, from the highest on."""
    if len(keys) <= BLOCK_SIZE or bit < 0:
        return [keys]
    halves = [[key for key in keys if key >> bit & 1 == side] for side in (0, 1)]
    return [block for half in halves if half for block in blocks_by_bits(half, bit - 1)]


@pytest.mark.parametrize("shift", [0, 40, 54])
def test_blocks_are_halved_by_the_bits_of_the_hashes(shift):
    """Hashes that share their highest bits are told apart by lower ones."""
    low = [key >> shift for key in hashes(range(3000)).values()]
    keys = sorted([*low, *(2**63 + (key >> shift) // 2 for key in hashes(range(600), seed=1).values())])
    assert [keys[run] for run in content_blocks(keys)] == blocks_by_bits(keys)


def test_a_newcomer_changes_its_own_block_alone():
    keys = list(hashes(range(2000)).values())
    grown = sorted([*keys, 2**62 + 17])
    before, after = ({tuple(some[run]) for run in content_blocks(some)} for some in (keys, grown))
    assert len(before ^ after) == 2
    assert {block for block in after if 2**62 + 17 in block} == after - before


def test_cards_of_one_hash_are_one_block_however_many():
    assert content_blocks([5] * (BLOCK_SIZE + 1)) == [slice(0, BLOCK_SIZE + 1)]


def test_groups_of_blocks_that_are_known_are_not_made_again(monkeypatch):
    monkeypatch.setattr("gddsg.core.canonical_order.BLOCK_SIZE", 8)
    cards = by_content({label: card(features) for label, features in clusters(n_classes=30).items()})
    rest = {label: one for label, one in cards.items() if label != 17}
    before = class_groups("canonical", rest, "cosine", 0, {})
    assert len(before) > 3
    asked, real = [], similarity_graph

    def named(some):
        return tuple(some), tuple(one.key for one in some.values())

    monkeypatch.setattr(grouping, "similarity_graph", lambda some, d: asked.append(named(some)) or real(some, d))
    after = class_groups("canonical", cards, "cosine", 0, before)
    assert asked == [block for block in after if block not in before]
    assert 17 in asked[0][0]
    assert len(asked) < len(after)
    assert after == class_groups("canonical", cards, "cosine", 0, {})
    assert max(len(labels) for labels, _ in after) <= 8
    for (labels, _), groups in after.items():
        assert_proper_partition(groups, similarity_graph({label: cards[label] for label in labels}))


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
    assert extend_groups((), graph, "abc") == canonical_groups(graph, hashes("abc")) == (("a", "c"), ("b",))
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
    cards = {label: card(features) for label, features in clusters().items()}
    assert groups_of(cards, name="one") == (tuple(by_content(cards)),)


def test_similar_groups_hold_what_canonical_groups_part():
    graph = pairs_of_similar(3)
    assert canonical_groups(graph, hashes(graph.labels)) == (("a0", "b0", "c0"), ("a1", "b1", "c1"))
    assert similar_groups(graph, 3) == (("a0", "a1"), ("b0", "b1"), ("c0", "c1"))


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


def test_random_groups_are_a_matter_of_content_and_seed():
    cards = keyed(list(range(16)))
    groups = random_groups(cards, 5, seed=0)
    assert 1 < len(groups) <= 5
    assert all(groups)
    assert sorted(itertools.chain(*groups)) == list(range(16))
    assert groups == random_groups(cards, 5, seed=0)
    assert groups != random_groups(cards, 5, seed=1)
    assert random_groups({f"c{k}": one for k, one in cards.items()}, 5, seed=0) == tuple(
        tuple(f"c{k}" for k in group) for group in groups
    )


def test_random_groups_part_two_classes_as_often_as_chance():
    cards, together = keyed(list(range(16))), 0
    for seed in range(50):
        of_class = {label: g for g, group in enumerate(random_groups(cards, 5, seed)) for label in group}
        together += sum(of_class[label] == of_class[label + 1] for label in range(0, 16, 2))
    assert 0.15 < together / 400 < 0.25


def test_random_groups_that_would_be_empty_are_left_out():
    cards = keyed(["a", "b"])
    groups = [random_groups(cards, 2, seed) for seed in range(20)]
    assert all(sorted(itertools.chain(*some)) == ["a", "b"] and all(some) for some in groups)
    assert {len(some) for some in groups} == {1, 2}


def test_the_newcomers_of_a_batch_are_a_group():
    groups = task_groups((), {"b", "a"})
    assert groups == (("a", "b"),)
    assert task_groups(groups, ()) == groups
    assert task_groups(groups, ["c"]) == (("a", "b"), ("c",))


def test_the_name_of_a_grouping_chooses_it():
    cards = by_content({label: card(features) for label, features in clusters().items()})
    graph = similarity_graph(cards)
    canonical = groups_of(cards)
    keys = {label: one.key for label, one in cards.items()}
    assert canonical == canonical_groups(graph, keys)
    assert groups_of(cards, name="random", seed=3) == random_groups(cards, len(canonical), 3)
    assert groups_of(cards, name="similar") == similar_groups(graph, len(canonical))
    assert groups_of(cards, "euclidean") == canonical_groups(similarity_graph(cards, "euclidean"), keys) != canonical
    some = pairs_of_similar(2)
    assert groups_on_arrival("arrival", (("a0",),), some, ["a1"]) == extend_groups((("a0",),), some, ["a1"])
    assert groups_on_arrival("task", (("a0",),), some, ["a1"]) == (("a0",), ("a1",))
    assert groups_on_arrival("canonical", (), some, ["a1"]) == ()


# Forgetting.


def test_a_forgotten_class_leaves_its_group_and_an_empty_group_goes():
    groups = (("a", "b"), ("c",), ("d",))
    assert without(groups, "a") == (("b",), ("c",), ("d",))
    assert without(groups, "c") == (("a", "b"), ("d",))
    assert without(groups, "z") == groups
    assert without((("a",),), "a") == ()
