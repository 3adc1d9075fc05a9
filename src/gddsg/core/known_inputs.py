"""Known inputs, drawn from the cards: what decides how strange an input has to be to count as unknown."""

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
from gddsg.core.discriminant import Discriminant, moments_in
from gddsg.core.metric import Metric, shrunk_whitener, span_inflation
from gddsg.core.novelty import ROWS_AT_ONCE, Floats, Novelty, combined_novelty, squared_distances, unit_rows
from gddsg.core.once import Lazy, Once
from gddsg.core.transform import unit

_MAX_OPTIMISM = 0.5  # beyond it the estimate is too large for the few samples it is made from
_PSEUDO_FEATURES = 8000  # a limit that keeps 90 % of known inputs then errs by a third of a per cent
_POOLED_SAMPLES = 4  # a class's own scatter is trusted like n - 1 samples, the pooled one like these many


@dataclass(frozen=True, eq=False)
class Draws:
    """Pseudo-features of a metric's classes, as novelty looks at them.

    Attributes
    ----------
    whitened, directions : ndarray
        ``(n, dim)``, in coordinates in which the metric is the identity, and of unit length.
    spread : ndarray
        ``(n,)``, squared distances to the middle of the classes in the metric of all inputs.
    owners : ndarray
        ``(n,)``, hashes of the cards they are drawn from.
    stretch, farther : ndarray
        ``(n,)``, how much farther from their own mean fresh samples are: by angle, and by distance.
    """

    whitened: Floats
    directions: Floats
    spread: Floats
    owners: NDArray[np.uint64]
    stretch: Floats
    farther: Floats


@dataclass(frozen=True, eq=False)
class KnownInputs:
    """How novel known inputs are, and the parts of it that hold as long as the metric does.

    Of a large model, whose metric a new class seldom moves, a newcomer then costs a look at its own block of classes.

    Attributes
    ----------
    discriminant : Discriminant
        Of all classes.
    middle : Lazy of (ndarray, ndarray)
        The centre of the metric's classes ``(dim,)``, and what whitens all inputs ``(dim, dim)``.
    draws : Once of Draws
        Kept by large models alone: those of a small one are as large, and its next class needs others.
    nearest : mapping of tuple of int to Once of (ndarray, ndarray)
        Of the draws, ``(n,)`` each, the squared distance and the angle to the nearest class of a block, by the hashes
        of the block's cards.
    """

    discriminant: Discriminant
    middle: Lazy[tuple[Floats, Floats]]
    draws: Once[Draws]
    nearest: Mapping[tuple[int, ...], Once[tuple[Floats, Floats]]]

    @classmethod
    def of(cls, discriminant: Discriminant, earlier: KnownInputs | None = None) -> KnownInputs:
        """Those of a discriminant; what ``earlier`` ones of the same metric know is kept."""
        metric = discriminant.metric
        if earlier is None or earlier.discriminant.metric is not metric:
            earlier = cls(discriminant, Lazy(partial(_middle, metric)), Once(), {})
        nearest = {block: earlier.nearest.get(block) or Once() for block in discriminant.means}
        return cls(discriminant, earlier.middle, earlier.draws, nearest)

    def novelty(self) -> Novelty:
        """The novelty against all classes."""
        metric, cards = self.discriminant.metric, self.discriminant.cards
        blocks = [cards[run] for run in content_blocks([card.key for card in cards])]
        centre, background = self.middle()
        novelty = Novelty(
            whitener=metric.whitener.numpy(),
            means=tuple(means().whitened for means in self.discriminant.means.values()),
            directions=tuple(_directions(metric, block) for block in blocks),
            centre=centre,
            background=background,
            known=Lazy(lambda: self._measure(novelty)),
        )
        return novelty

    def _measure(self, novelty: Novelty) -> tuple[Floats, float]:
        """Sorted novelties of the draws, and their largest distance."""
        metric = self.discriminant.metric
        large = len(metric.sample) < len(self.discriminant.cards)
        draws = self.draws.get(partial(_draws, metric, novelty)) if large else _draws(metric, novelty)
        found = [
            nearest.get(partial(_nearest, draws, block, means, directions))
            for (block, nearest), means, directions in zip(
                self.nearest.items(), novelty.means, novelty.directions, strict=True
            )
        ]
        distances, angles = (np.minimum.reduce(part) for part in zip(*found, strict=True))
        return np.sort(combined_novelty(distances, draws.spread, angles)), float(distances.max())


def novelty_of(discriminant: Discriminant) -> Novelty:
    """The novelty against all classes of a discriminant."""
    return KnownInputs.of(discriminant).novelty()


def _middle(metric: Metric) -> tuple[Floats, Floats]:
    sampled = torch.stack([moments_in(metric, card).mean for card in metric.sample])
    centre = sampled.mean(0)
    between = (sampled - centre).T @ (sampled - centre) / len(sampled)
    return centre.numpy(), shrunk_whitener(metric.pooled + between, metric.shrinkage).numpy()


def _directions(metric: Metric, cards: Sequence[ClassCard]) -> Floats:
    directions: Floats = unit(torch.stack([moments_in(metric, card).mean for card in cards])).numpy()
    return directions


def pseudo_features(metric: Metric, per_class: int, seed: int) -> tuple[Tensor, Tensor]:
    """Gaussian draws from the cards that the metric is made of.

    A class's covariance is its own mixed with the pooled one, which few samples need more. Of the energy that its
    factor lost, half is spread over the factor's span and half as the pooled covariance spreads it.

    Returns
    -------
    vectors : Tensor
        ``(n_classes · per_class, dim)``.
    classes : Tensor
        Index of their cards in ``metric.sample``.
    """
    generator = torch.Generator().manual_seed(seed)
    pooled = metric.values.sqrt()[:, None] * metric.vectors.double().T

    def normal(size: int) -> Tensor:
        return torch.randn(per_class, size, generator=generator, dtype=torch.float64)

    draws = []
    for card in metric.sample:
        part = moments_in(metric, card).decoded()
        own, degrees = (part.count - 1) / (part.count - 1 + _POOLED_SAMPLES), max(part.count - 1, 1)
        basis = part.factor.double() * span_inflation(part) / degrees**0.5
        lost = part.residual / 2 / degrees / float(metric.values.sum())
        shared = (1 - own + own * lost) ** 0.5 * normal(part.dim) @ pooled
        draws.append(part.mean + own**0.5 * normal(len(basis)) @ basis + shared)
    return torch.cat(draws), torch.arange(len(draws)).repeat_interleave(per_class)


def _draws(metric: Metric, novelty: Novelty) -> Draws:
    drawn, drawn_from = pseudo_features(metric, -(-_PSEUDO_FEATURES // len(metric.sample)), seed=0)
    vectors, classes = drawn.numpy(), drawn_from.numpy()
    counts = np.array([float(card.count) for card in metric.sample])[classes]
    # a mean has seen its samples: fresh ones lie farther from it by (n / (n - 1))²; the metric has seen them too,
    # which the two distances share, so that half of its effect cancels
    stretch = np.square(counts / np.maximum(counts - 1, 1))
    return Draws(
        whitened=np.concatenate([vectors[rows] @ novelty.whitener for rows in _parts(len(vectors))]),
        directions=unit_rows(vectors),
        spread=novelty.spread(vectors),
        owners=np.array([card.key for card in metric.sample], dtype=np.uint64)[classes],
        stretch=stretch,
        farther=stretch / (1 - min(metric.optimism, _MAX_OPTIMISM)) ** 0.5,
    )


def _nearest(draws: Draws, block: tuple[int, ...], means: Floats, directions: Floats) -> tuple[Floats, Floats]:
    """Of every draw the squared distance and the angle to the nearest class of a block; its own is farther off."""
    place = {key: column for column, key in enumerate(block)}
    columns = np.array([place.get(owner, -1) for owner in draws.owners.tolist()])
    distances, angles = np.empty(len(columns)), np.empty(len(columns))
    for rows in _parts(len(columns)):
        own = np.flatnonzero(columns[rows] >= 0)
        for table, stretched, found in (
            (squared_distances(draws.whitened[rows], (means,)), draws.farther, distances),
            (1 - draws.directions[rows] @ directions.T, draws.stretch, angles),
        ):
            table[own, columns[rows][own]] *= stretched[rows][own]
            found[rows] = table.min(1)
    return distances, angles


def _parts(n: int) -> list[slice]:
    return [slice(start, start + ROWS_AT_ONCE) for start in range(0, n, ROWS_AT_ONCE)]
