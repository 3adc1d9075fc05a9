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
from gddsg.core.coded_rows import CodedRows
from gddsg.core.decompositions import cholesky
from gddsg.core.metric import Metric, own_weight
from gddsg.core.moments import CodedMoments
from gddsg.core.once import Lazy

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
class OwnScatter:
    """What a class's own scatter adds to its score: ``½ ‖inner F T_0⁻¹ (x - μ)‖² - ½ log det``, by Woodbury's identity.

    F are the rows of the class's factor, and W the whitener, ``W Wᵀ = T_0⁻¹``.

    Attributes
    ----------
    directions : ndarray
        ``inner F W``, ``(rank, dim)`` float64; empty in large models.
    factor : CodedRows
        F.
    inner : ndarray
        ``(rank, rank)`` float32.
    log_det : float
        Of ``I + w F T_0⁻¹ Fᵀ``.
    """

    directions: Floats
    factor: CodedRows
    inner: NDArray[np.float32]
    log_det: float

    def term_ready(self, whitened: Floats, centre: Floats) -> Floats:
        """What is added to the scores ``(n,)``, from ``Wᵀ x`` ``(n, dim)`` and ``Wᵀ μ``, by the directions."""
        return self._term(whitened @ self.directions.T - self.directions @ centre)

    def term(self, solved: Floats, centre: Floats) -> Floats:
        """What is added to the scores ``(n,)``, from ``T_0⁻¹ x`` ``(n, dim)`` and ``T_0⁻¹ μ``."""
        codes = self.factor.codes.astype(np.float64)
        along = (solved @ codes.T - codes @ centre) * self.factor.scales.astype(np.float64)
        return self._term(along @ self.inner.T.astype(np.float64))

    def _term(self, along: Floats) -> Floats:
        term: Floats = (np.square(along).sum(1) - self.log_det) / 2
        return term


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
    """Each class by itself, so that rounding does not depend on which others are asked for together."""
    part = moments_in(metric, card)
    weight = (1 - metric.shrinkage) * own_weight(part) / max(part.count - 1, 1)
    rows = part.factor.decoded() @ metric.quick_whitener  # F W, so that F T_0⁻¹ Fᵀ = rows rowsᵀ
    identity = torch.eye(len(rows), dtype=torch.float64)
    lower = cholesky(weight * (rows @ rows.T).double() + identity)
    inner = (weight**0.5 * torch.linalg.solve_triangular(lower, identity, upper=False)).float()
    log_det = 2 * float(lower.diagonal().log().sum())
    directions = (inner @ rows if ready else rows[:0]).double().numpy()
    return OwnScatter(directions, part.factor, inner.numpy(), log_det)
