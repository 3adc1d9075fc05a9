"""Class groups: sets of classes of which no two are similar."""

from __future__ import annotations

import zlib
from collections.abc import Collection

import torch

from gddsg.core.colouring import welsh_powell
from gddsg.core.similarity_graph import Label, SimilarityGraph

ClassGroups = tuple[tuple[Label, ...], ...]

MAX_GROUP_SIZE = 64
"""Classes in a canonical group; far more than the groups of real data have, which are limited by similarity."""


def canonical_groups(graph: SimilarityGraph) -> ClassGroups:
    """Colour the graph of all classes: the groups depend on the set of classes alone, not on their arrival.

    A colour of many classes is divided, since the time to solve a head grows with the cube of its group.
    """
    colours = _coloured(graph, list(range(len(graph.labels))))
    return tuple(part for group in colours for part in _divided(group))


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


def without(groups: ClassGroups, label: Label) -> ClassGroups:
    """The groups after a class has been forgotten; a group left empty goes."""
    kept = (tuple(member for member in group if member != label) for group in groups)
    return tuple(group for group in kept if group)


def _least_similar(members: list[list[int]], graph: SimilarityGraph, newcomer: int) -> int | None:
    fitting = [g for g, group in enumerate(members) if not bool(graph.adjacency[newcomer, group].any())]
    return max(fitting, key=lambda g: float(graph.distances[newcomer, members[g]].mean()), default=None)


def _divided(group: tuple[Label, ...], bit: int = 0) -> ClassGroups:
    """Halve a large group by a hash of the names, so that a newcomer changes one part and leaves the others alone."""
    if len(group) <= MAX_GROUP_SIZE or bit == 32:
        return (group,)
    halves: tuple[list[Label], list[Label]] = ([], [])
    for label in group:
        halves[zlib.crc32(repr(label).encode()) >> bit & 1].append(label)
    return tuple(part for half in halves if half for part in _divided(tuple(half), bit + 1))


def _coloured(graph: SimilarityGraph, vertices: list[int]) -> ClassGroups:
    chosen = torch.tensor(vertices, dtype=torch.long)
    colours = welsh_powell(graph.adjacency[chosen][:, chosen])
    groups: list[list[Label]] = [[] for _ in range(max(colours, default=-1) + 1)]
    for vertex, colour in zip(vertices, colours, strict=True):
        groups[colour].append(graph.labels[vertex])
    return tuple(tuple(group) for group in groups)
