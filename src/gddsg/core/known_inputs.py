"""Known inputs, drawn from the cards: what decides how strange an input has to be to count as unknown."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gddsg.core.canonical_order import content_blocks
from gddsg.core.discriminant import Discriminant, moments_in
from gddsg.core.metric import Metric, shrunk_whitener, span_inflation
from gddsg.core.novelty import ROWS_AT_ONCE, Floats, Novelty, combined_novelty
from gddsg.core.once import Lazy
from gddsg.core.transform import unit

_MAX_OPTIMISM = 0.5  # beyond it the estimate is too large for the few samples it is made from
_PSEUDO_FEATURES = 8000  # a limit that keeps 90 % of known inputs then errs by a third of a per cent
_POOLED_SAMPLES = 4  # a class's own scatter is trusted like n - 1 samples, the pooled one like these many


def novelty_of(discriminant: Discriminant) -> Novelty:
    """The novelty against all classes of a discriminant."""
    metric, cards = discriminant.metric, discriminant.cards
    blocks = [cards[run] for run in content_blocks([card.key for card in cards])]
    own = [torch.stack([moments_in(metric, card).mean for card in block]) for block in blocks]
    sampled = torch.stack([moments_in(metric, card).mean for card in metric.sample])
    centre = sampled.mean(0)
    between = (sampled - centre).T @ (sampled - centre) / len(sampled)
    novelty = Novelty(
        whitener=metric.whitener.numpy(),
        means=tuple(means().whitened for means in discriminant.means.values()),
        directions=tuple(unit(part).numpy() for part in own),
        centre=centre.numpy(),
        background=shrunk_whitener(metric.pooled + between, metric.shrinkage).numpy(),
        known=Lazy(lambda: _known(novelty, discriminant)),
    )
    return novelty


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


def _known(novelty: Novelty, discriminant: Discriminant) -> tuple[Floats, float]:
    metric = discriminant.metric
    drawn, drawn_from = pseudo_features(metric, -(-_PSEUDO_FEATURES // len(metric.sample)), seed=0)
    place = {card.key: column for column, card in enumerate(discriminant.cards)}
    columns = np.array([place[card.key] for card in metric.sample])[drawn_from.numpy()]
    counts = np.array([float(card.count) for card in metric.sample])[drawn_from.numpy()]
    # a mean has seen its samples: fresh ones lie farther from it by (n / (n - 1))²; the metric has seen them too,
    # which the two distances share, so that half of its effect cancels
    stretch = np.square(counts / np.maximum(counts - 1, 1))
    farther = stretch / (1 - min(metric.optimism, _MAX_OPTIMISM)) ** 0.5
    nearest: list[Floats] = []
    angles: list[Floats] = []
    for start in range(0, len(columns), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        own = np.arange(len(columns[rows])), columns[rows]
        for table, stretched, found in (
            (novelty.distances(drawn.numpy()[rows]), farther[rows], nearest),
            (novelty.angles(drawn.numpy()[rows]), stretch[rows], angles),
        ):
            table[own] *= stretched
            found.append(table.min(1))
    distances = np.concatenate(nearest)
    values = combined_novelty(distances, novelty.spread(drawn.numpy()), np.concatenate(angles))
    return np.sort(values), float(distances.max())
