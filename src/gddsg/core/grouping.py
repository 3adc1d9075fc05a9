"""Class groups: sets of classes of which no two are similar, and other ways to group for comparison.

A class's name has no part in it: whatever has to be ordered, divided or drawn goes by the content of the cards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import numpy as np
import torch

from gddsg.core.canonical_order import content_blocks
from gddsg.core.class_card import ClassCard
from gddsg.core.colouring import welsh_powell
from gddsg.core.label import Label
from gddsg.core.similarity_graph import Distance, SimilarityGraph, similarity_graph

ClassGroups = tuple[tuple[Label, ...], ...]
Block = tuple[tuple[Label, ...], tuple[int, ...]]
Grouping = Literal["canonical", "arrival", "one", "random", "similar", "task"]

MAX_GROUP_SIZE = 64
"""Classes in a canonical group; far more than the groups of real data have, which are limited by similarity."""


def class_groups(
    grouping: Grouping,
    cards: Mapping[Label, ClassCard],
    distance: Distance,
    seed: int,
    known: Mapping[Block, ClassGroups],
) -> dict[Block, ClassGroups]:
    """The groups of all classes, block by block; only canonical groups are made in more than one.

    Parameters
    ----------
    grouping : str
        Any way to group that does not depend on the order of arrival.
    cards : mapping of Label to ClassCard
        In canonical order.
    distance : str
        Of the similarity graph.
    seed : int
        Of random groups.
    known : mapping
        Groups of blocks that need not be made again.
    """
    labels, keys = tuple(cards), tuple([card.key for card in cards.values()])
    if not cards:
        return {}
    if grouping == "one":
        return {(labels, keys): (labels,)}
    canonical = {}
    for run in content_blocks(keys):
        block = (labels[run], keys[run])
        canonical[block] = known.get(block) or _block_groups(cards, block, distance)
    if grouping == "canonical":
        return canonical
    n_groups = sum(map(len, canonical.values()))
    if grouping == "random":
        return {(labels, keys): random_groups(cards, n_groups, seed)}
    return {(labels, keys): similar_groups(similarity_graph(cards, distance), n_groups)}


def _block_groups(cards: Mapping[Label, ClassCard], block: Block, distance: Distance) -> ClassGroups:
    graph = similarity_graph({label: cards[label] for label in block[0]}, distance)
    return canonical_groups(graph, dict(zip(*block, strict=True)))


def groups_on_arrival(
    grouping: Grouping, groups: ClassGroups, graph: SimilarityGraph, newcomers: Collection[Label]
) -> ClassGroups:
    """The groups after a batch has brought ``newcomers``; none where groups do not depend on the order of arrival."""
    if grouping == "arrival":
        return extend_groups(groups, graph, newcomers)
    return task_groups(groups, newcomers) if grouping == "task" else ()


def canonical_groups(graph: SimilarityGraph, keys: Mapping[Label, int]) -> ClassGroups:
    """Colour the graph: the groups depend on the set of classes alone, not on their arrival.

    A colour of many classes is divided by the hashes of their cards, ``keys``, since the time to solve a head grows
    with the cube of its group.
    """
    colours = _coloured(graph, list(range(len(graph.labels))))
    return tuple(part for group in colours for part in _divided(group, keys))


def extend_groups(groups: ClassGroups, graph: SimilarityGraph, newcomers: Collection[Label]) -> ClassGroups:
    """The paper's dynamic rule: newcomers join groups or found new ones, old classes never move.

    A newcomer joins, among the groups in which it is similar to nobody, the one that lies farthest from it on average.
    Those that fit nowhere form a similarity graph of their own, whose colours become new groups.
    """
    position = {label: i for i, label in enumerate(graph.labels)}
    members = [[position[label] for label in group] for group in groups]
    left_over = []
    for newcomer in sorted(position[label] for label in newcomers):
        home = _least_similar(members, graph, newcomer)
        if home is None:
            left_over.append(newcomer)
        else:
            members[home].append(newcomer)
    grown = tuple(tuple(graph.labels[i] for i in group) for group in members)
    return grown + _coloured(graph, left_over)


def random_groups(cards: Mapping[Label, ClassCard], n_groups: int, seed: int) -> ClassGroups:
    """At most ``n_groups`` groups that similarity has no part in: a class's follows from its card and the seed."""
    groups: list[list[Label]] = [[] for _ in range(n_groups)]
    for label, card in cards.items():
        groups[int(np.random.RandomState([card.key % 2**32, card.key >> 32, seed]).randint(n_groups))].append(label)
    return tuple(tuple(group) for group in groups if group)


def similar_groups(graph: SimilarityGraph, n_groups: int) -> ClassGroups:
    """``n_groups`` groups of classes that look alike, the opposite of colouring: clusters by mean centroid distance."""
    if len(graph.labels) <= n_groups:
        return tuple((label,) for label in graph.labels)
    from sklearn.cluster import AgglomerativeClustering  # few models need it, and all would wait for its import

    clustering = AgglomerativeClustering(n_groups, metric="precomputed", linkage="average")
    groups: list[list[Label]] = [[] for _ in range(n_groups)]
    for label, group in zip(graph.labels, clustering.fit_predict(graph.distances.numpy()).tolist(), strict=True):
        groups[group].append(label)
    return tuple(sorted(tuple(group) for group in groups))


def task_groups(groups: ClassGroups, newcomers: Collection[Label]) -> ClassGroups:
    """The newcomers of a batch form a group of their own, as methods without a similarity graph have it."""
    return (*groups, tuple(sorted(newcomers))) if newcomers else groups


def without(groups: ClassGroups, label: Label) -> ClassGroups:
    """The groups after a class has been forgotten; a group left empty goes."""
    kept = (tuple(member for member in group if member != label) for group in groups)
    return tuple(group for group in kept if group)


def _least_similar(members: list[list[int]], graph: SimilarityGraph, newcomer: int) -> int | None:
    fitting = [g for g, group in enumerate(members) if not bool(graph.adjacency[newcomer, group].any())]
    return max(fitting, key=lambda g: float(graph.distances[newcomer, members[g]].mean()), default=None)


def _divided(group: tuple[Label, ...], keys: Mapping[Label, int], bit: int = 0) -> ClassGroups:
    """Halve a large group by hashes of content, so that a newcomer changes one part and leaves the others alone."""
    if len(group) <= MAX_GROUP_SIZE or bit == 32:
        return (group,)
    halves: tuple[list[Label], list[Label]] = ([], [])
    for label in group:
        halves[keys[label] >> bit & 1].append(label)
    return tuple(part for half in halves if half for part in _divided(tuple(half), keys, bit + 1))


def _coloured(graph: SimilarityGraph, vertices: list[int]) -> ClassGroups:
    chosen = torch.tensor(vertices, dtype=torch.long)
    colours = welsh_powell(graph.adjacency[chosen][:, chosen])
    groups: list[list[Label]] = [[] for _ in range(max(colours, default=-1) + 1)]
    for vertex, colour in zip(vertices, colours, strict=True):
        groups[colour].append(graph.labels[vertex])
    return tuple(tuple(group) for group in groups)
