"""A model at a moment, with what the service wants to know of it; each part computed once, when it is first wanted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gddsg.core.class_card import ClassCard
from gddsg.core.label import Label
from gddsg.core.model import Model
from gddsg.core.once import Lazy
from gddsg.core.similarity_graph import SimilarityGraph
from gddsg.errors import UnknownClassError
from gddsg.wording import counted, listed, similar_names

LEAST_OVERLAP = 0.01
"""Error between two classes below which nobody has to be told."""

_MOST_OVERLAPS = 5


@dataclass(frozen=True)
class Overlap:
    """A class that another one may be taken for.

    Attributes
    ----------
    name : str
        Of the other class.
    error : float
        Share of photos of the two that are expected to be taken for the wrong one, by the cards alone.
    """

    name: str
    error: float


class Snapshot:
    """A model at a moment.

    Parameters
    ----------
    model : Model or None
        None where nothing has been learnt.
    """

    def __init__(self, model: Model | None) -> None:
        self.model = model
        self.cards: dict[str, ClassCard] = {} if model is None else {str(k): card for k, card in model.cards.items()}
        self.revision = _revision(model)
        self._graph = Lazy(self._make_graph)
        self._overlaps = Lazy(self._find_overlaps)

    @property
    def answering(self) -> Model | None:
        """The model if it can answer; one without classes cannot."""
        return self.model if self.cards else None

    @property
    def photos(self) -> int:
        """Photos that all classes were learnt from."""
        return sum(card.count for card in self.cards.values())

    @cached_property
    def groups(self) -> list[list[str]]:
        """Names of the classes of each group."""
        return [] if self.model is None or not self.cards else [list(map(str, group)) for group in self.model.groups]

    @cached_property
    def group_of(self) -> dict[str, int]:
        """The group of each class."""
        return {name: place for place, group in enumerate(self.groups) for name in group}

    @property
    def graph(self) -> SimilarityGraph:
        """Which classes look alike; of a model that has some."""
        return self._graph()

    def edges(self) -> list[tuple[str, str, float]]:
        """Pairs of classes that look alike, and their distances."""
        if not self.cards:
            return []
        graph, names = self.graph, list(map(str, self.graph.labels))
        rows, columns = np.nonzero(np.triu(graph.adjacency.numpy(), 1))
        distances = graph.distances.numpy()[rows, columns]
        return [
            (names[i], names[j], round(float(d), 6))
            for i, j, d in zip(rows.tolist(), columns.tolist(), distances.tolist(), strict=True)
        ]

    def overlaps(self, name: str) -> list[Overlap]:
        """Classes that this one may be taken for, the likeliest first."""
        return self._overlaps().get(name, [])

    def label(self, name: str) -> Label:
        """The class of that name as the model has it.

        Raises
        ------
        UnknownClassError
            If there is none.
        """
        for label in () if self.model is None else self.model.labels:
            if str(label) == name:
                return label
        meant = similar_names(name, self.cards)
        raise UnknownClassError(
            f"There is no class {name[:200]!r}. "
            + (f"Did you mean {listed(meant)}? " if meant else "")
            + f"The model has {counted(len(self.cards), 'class')}."
        )

    def _make_graph(self) -> SimilarityGraph:
        assert self.model is not None  # who asks has looked
        return self.model.graph

    def _find_overlaps(self) -> dict[str, list[Overlap]]:
        """``1 / (1 + exp(t d² / 2))`` of all pairs: the log-odds that a photo has on average, as far as trusted.

        d² is the squared distance of two means in the metric of the classes, without what it owes to their errors; t is
        the temperature, by which the model makes honest probabilities of log-odds.
        """
        if self.model is None or len(self.cards) < 2:
            return {}
        predictor, metric = self.model.predictor, self.model.derived.metric
        means = np.concatenate(predictor.means)[predictor.columns]
        counts = np.array([card.distinct for card in self.cards.values()], dtype=float)
        sizes = (means**2).sum(1)
        squares = sizes[:, None] + sizes - 2 * means @ means.T
        squares -= metric.effective_dim * (1 / counts[:, None] + 1 / counts)
        errors = (1 - np.tanh(metric.temperature * squares.clip(min=0) / 4)) / 2  # the same, and never too large
        np.fill_diagonal(errors, 0)
        names, found = list(self.cards), {}
        for row, name in enumerate(names):
            likeliest = np.argsort(-errors[row], kind="stable")[:_MOST_OVERLAPS].tolist()
            found[name] = [
                Overlap(names[j], float(errors[row, j])) for j in likeliest if errors[row, j] >= LEAST_OVERLAP
            ]
        return found


def _revision(model: Model | None) -> str:
    """What tells a model from another: the same classes with the same cards have the same revision."""
    digest = hashlib.sha256()
    for label, card in () if model is None else model.cards.items():
        digest.update(f"{type(label).__name__}:{label}\0{card.key}\0".encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]
