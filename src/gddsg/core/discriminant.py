"""Regularised quadratic discriminant from class cards: the evidence for every class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gddsg.core.canonical_order import content_blocks
from gddsg.core.class_card import ClassCard
from gddsg.core.metric import Metric, own_weight
from gddsg.core.moments import CodedMoments
from gddsg.core.once import Lazy
from gddsg.core.own_scatter import OwnScatter

Floats = NDArray[np.float64]

READY_CLASSES = 512
"""Models of no more classes keep the directions of all of them ready for use, eight times the size of a factor; larger
ones take factors from the cards each time a class is a candidate."""


@dataclass(frozen=True, eq=False)
class BlockMeans:
    """Means of some hundreds of classes.

    Attributes
    ----------
    whitened : ndarray
        ``(n_classes, dim)``, in coordinates in which T_0 is the identity.
    solved : Lazy of ndarray
        ``(n_classes, dim)``, ``T_0⁻¹ μ``; large models want it.
    biases : ndarray
        ``(n_classes,)``, half of ``‖whitened‖² - error``: a mean of n samples errs by ``tr(S T_0⁻¹) / n`` in squared
        distance, and without an allowance for it small classes would lose.
    """

    whitened: Floats
    solved: Lazy[Floats]
    biases: Floats

    @classmethod
    def of(cls, metric: Metric, cards: Sequence[ClassCard]) -> BlockMeans:
        """The means of some classes in the view of the metric."""
        whitened = metric.whiten(torch.stack([moments_in(metric, card).mean for card in cards]))
        errors = metric.effective_dim / torch.tensor([float(card.count) for card in cards], dtype=torch.float64)
        biases = (whitened.square().sum(1) - errors) / 2
        return cls(whitened.numpy(), Lazy(lambda: (whitened @ metric.whitener.T).numpy()), biases.numpy())


@dataclass(frozen=True, eq=False)
class Discriminant:
    """Gaussian classes with covariance ``T_c = T_0 + (1-g) b_c/(1-b_c) S_c``.

    T_0 is the metric that all share, S_c the class's own covariance. All is derived from counts, means and scatter,
    class by class, hence blind to the order in which classes came.

    Attributes
    ----------
    metric : Metric
        T_0.
    cards : tuple of ClassCard
        In canonical order.
    means : mapping of tuple of int to Lazy of BlockMeans
        Of some hundreds of cards together, by the hashes of their content, in canonical order.
    own : mapping of int to Lazy of OwnScatter
        By hash of content; computed when a class is first a candidate.
    """

    metric: Metric
    cards: tuple[ClassCard, ...]
    means: Mapping[tuple[int, ...], Lazy[BlockMeans]]
    own: Mapping[int, Lazy[OwnScatter]]

    @classmethod
    def of(cls, metric: Metric, cards: Sequence[ClassCard], earlier: Discriminant | None = None) -> Discriminant:
        """The discriminant of cards in canonical order; what an ``earlier`` one in the same metric knows is kept."""
        known = earlier if earlier is not None and earlier.metric is metric else Discriminant(metric, (), {}, {})
        ready, keys = len(cards) <= READY_CLASSES, [card.key for card in cards]
        own_known = known.own if ready == known.ready else {}
        means = {}
        for run in content_blocks(keys):
            block = tuple(keys[run])
            means[block] = known.means.get(block) or Lazy(partial(BlockMeans.of, metric, cards[run]))
        own = {
            key: own_known.get(key) or Lazy(partial(_own_scatter, metric, card, ready))
            for key, card in zip(keys, cards, strict=True)
        }
        return cls(metric, tuple(cards), means, own)

    @property
    def ready(self) -> bool:
        """Whether directions are kept ready for use."""
        return len(self.cards) <= READY_CLASSES

    def prototypes(self) -> Tensor:
        """Means of all classes in the metric's view, ``(n_classes, dim)`` float64."""
        return torch.stack([moments_in(self.metric, card).mean for card in self.cards])


def moments_in(metric: Metric, card: ClassCard) -> CodedMoments:
    """A card's moments in the view of the metric; the plain ones where it has no other."""
    return card.view(metric.view) or card.raw


def _own_scatter(metric: Metric, card: ClassCard, ready: bool) -> OwnScatter:
    part = moments_in(metric, card)
    return OwnScatter.of(part.factor, scatter_weight(metric, part), metric.quick_whitener.numpy(), ready)


def scatter_weight(metric: Metric, part: CodedMoments) -> float:
    """``(1-g) b/(1-b) / (n-1)``: what the scatter of a class weighs beside T_0."""
    return (1 - metric.shrinkage) * own_weight(part) / max(part.count - 1, 1)
