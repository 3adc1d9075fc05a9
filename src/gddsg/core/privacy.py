"""Noisy class cards: what a place may hand out of its samples under differential privacy.

``card = card(Gaussian(sums of clipped samples))``: every sum is released by the Gaussian mechanism, and what is made of
the sums afterwards spends nothing. Neighbouring data sets differ in one sample more or less. The names of the classes
and how many there are of them are taken to be known, and so are the bounds of clipping.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gddsg.core.class_card import ClassCard
from gddsg.core.coded_rows import CodedRows
from gddsg.core.label import Label
from gddsg.core.moments import CodedMoments
from gddsg.errors import InputError

Floats = NDArray[np.float64]

CENTRED_SHARE = 0.7
"""Bound of a sample's distance to the centre of all, as a share of the bound of its length. Features of a network have
much in common, which need not be protected once it is known; a constant, so that no data choose it."""

SHARES = {"counts": 0.05, "centre": 0.04, "energy": 0.01, "sums": 0.9}
"""Of each sum in what is spent, that is, in ``1 / noise_multiplier²``."""


@dataclass(frozen=True, eq=False)
class SiteSums:
    """All that is released of a place: four sums, each with noise where there is any.

    Attributes
    ----------
    counts : ndarray
        ``(n_classes,)``, samples of every class. One sample more moves it by 1.
    total : ndarray
        ``(dim,)``, sum of all clipped samples, by which the centre is known. One more moves it by the clip at most.
    sums : ndarray
        ``(n_classes, dim)``, sums of clipped distances to the centre. One more moves it by 0.7 of the clip at most.
    energy : float
        Sum of the squares of these distances. One more moves it by the square of 0.7 of the clip at most.
    """

    counts: Floats
    total: Floats
    sums: Floats
    energy: float

    @property
    def centre(self) -> Floats:
        """``(dim,)``, of all samples, as far as the noise lets it be known."""
        return _centre(self.total, self.counts)


def private_cards(
    features: NDArray[Any],
    labels: Sequence[Label],
    *,
    clip: float,
    noise_multiplier: float,
    generator: np.random.Generator | None = None,
) -> dict[Label, ClassCard]:
    """Cards of a place under differential privacy, for a model without heads and with ``feature_transform="none"``.

    They hold noisy counts and means, and one spread for all classes and directions: no scatter of single classes, ids,
    sketches, nor held-out or projected sums.

    Parameters
    ----------
    features : ndarray
        ``(n_samples, dim)``.
    labels : sequence of Label
        One a row.
    clip : float
        Samples that are longer are shortened to this length. A constant that is known to all, such as the usual length
        of the backbone's features of public photos; it must not be computed from these features.
    noise_multiplier : float
        Of the whole release, see :func:`gddsg.core.privacy_spending.noise_multiplier`; 0 for none, which protects
        nobody.
    generator : numpy.random.Generator or None
        Whoever knows its seed can take the noise away again: without one, the operating system gives it.

    Returns
    -------
    dict of Label to ClassCard
        One a class.
    """
    rows, names, place = _checked(features, labels)
    _check_positive("clip", clip)
    if not 0 <= noise_multiplier < math.inf:
        raise InputError(f"noise_multiplier={noise_multiplier!r} was given; expected a number from 0.")
    random = np.random.default_rng() if generator is None else generator
    return cards_of(released(rows, place, len(names), clip, noise_multiplier, random), names, clip, noise_multiplier)


def released(
    rows: Floats, place: NDArray[np.intp], n_classes: int, clip: float, noise_multiplier: float, random: Any
) -> SiteSums:
    """The sums of a place with Gaussian noise: the only step that looks at samples, and what has to be accounted for.

    Each sum gets noise of ``noise_multiplier / sqrt(share)`` times the most that one sample can move it. The shares add
    up to 1, so together the four are one Gaussian mechanism of that noise multiplier; that the centre is noisy already
    when the distances to it are taken changes nothing of this.

    Parameters
    ----------
    rows, place : ndarray
        ``(n_samples, dim)`` and ``(n_samples,)``, features and the number of the class.
    n_classes : int
        How many.
    clip, noise_multiplier : float
        See :func:`private_cards`.
    random : numpy.random.Generator
        Draws the noise.

    Returns
    -------
    SiteSums
        With noise.
    """

    def noise(what: str, most: float, size: tuple[int, ...]) -> Floats:
        scale = noise_multiplier / math.sqrt(SHARES[what]) * most
        drawn: Floats = random.normal(0.0, scale, size)
        return drawn

    dim, near = rows.shape[1], CENTRED_SHARE * clip
    counts = np.bincount(place, minlength=n_classes) + noise("counts", 1.0, (n_classes,))
    total = clipped(rows, clip).sum(0) + noise("centre", clip, (dim,))
    apart = clipped(rows - _centre(total, counts), near)
    sums = np.zeros((n_classes, dim))
    np.add.at(sums, place, apart)
    sums += noise("sums", near, sums.shape)
    energy = float(np.square(apart).sum() + noise("energy", near**2, (1,))[0])
    return SiteSums(counts, total, sums, energy)


def clipped(rows: Floats, bound: float) -> Floats:
    """Rows shortened to the length ``bound`` where they are longer.

    Parameters
    ----------
    rows : ndarray
        ``(n, dim)``.
    bound : float
        The length.

    Returns
    -------
    ndarray
        ``(n, dim)``.
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    shortened: Floats = rows * np.minimum(1.0, bound / np.maximum(lengths, np.finfo(np.float64).tiny))
    return shortened


def cards_of(sums: SiteSums, names: Sequence[Label], clip: float, noise_multiplier: float) -> dict[Label, ClassCard]:
    """Valid cards of noisy sums; no sample is looked at, so nothing is spent.

    Parameters
    ----------
    sums : SiteSums
        What was released.
    names : sequence of Label
        Of the classes, in the order of the sums.
    clip, noise_multiplier : float
        With which it was released.

    Returns
    -------
    dict of Label to ClassCard
        One a class.
    """
    counts = _plausible_counts(sums.counts, noise_multiplier / math.sqrt(SHARES["counts"]))
    near = CENTRED_SHARE * clip
    means = clipped(sums.sums / counts[:, None], near)  # no mean of clipped vectors is longer
    spread = max(sums.energy / counts.sum() - float(counts @ np.square(means).sum(1)) / counts.sum(), 0.0)
    spread = min(max(spread, 1e-4 * near**2), near**2)
    whole = np.rint(counts).astype(int).tolist()
    return {
        name: _card(count, sums.centre + mean, spread) for name, count, mean in zip(names, whole, means, strict=True)
    }


def _plausible_counts(noisy: Floats, deviation: float) -> Floats:
    """Counts of at least 1, drawn to their mean as far as noise makes them differ."""
    mean, variance = float(noisy.mean()), float(noisy.var())
    trusted = max(1 - deviation**2 / variance, 0.0) if variance > 0 else 1.0
    plausible: Floats = np.maximum(mean + trusted * (noisy - mean), 1.0)
    return plausible


def _centre(total: Floats, counts: Floats) -> Floats:
    return total / max(float(counts.sum()), 1.0)


def _card(count: int, mean: Floats, spread: float) -> ClassCard:
    """A card that knows its mean, and a scatter that is the same in all directions."""
    total, length = torch.from_numpy(count * mean).float(), float(np.linalg.norm(mean))
    dim = len(mean)
    return ClassCard(
        unit_sum=torch.from_numpy(count * mean / length).float() if length > 0 else torch.zeros(dim),
        root=None,
        raw=CodedMoments(count, total, _no_rows(dim), (count - 1) * spread),
        projected=CodedMoments(count, torch.zeros(0), _no_rows(0), 0.0),
        held_out=CodedMoments(0, torch.zeros(0), _no_rows(0), 0.0),
    )


def _no_rows(dim: int) -> CodedRows:
    return CodedRows(np.empty((0, dim), dtype=np.int8), np.empty(0, dtype=np.float32))


def _checked(features: NDArray[Any], labels: Sequence[Label]) -> tuple[Floats, list[Label], NDArray[np.intp]]:
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != len(labels) or not rows.size:
        raise InputError(
            f"Features of shape {rows.shape} and {len(labels)} labels were given; expected (n_samples, dim) and one "
            "label a row, one row at least."
        )
    if not np.isfinite(rows).all():
        raise InputError("Some features are not finite. Leave their samples out: one of them would make all sums so.")
    names = sorted(set(labels))
    number: Mapping[Label, int] = {name: i for i, name in enumerate(names)}
    return rows, names, np.array([number[label] for label in labels], dtype=np.intp)


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise InputError(f"{name}={value!r} was given; expected a number above 0.")
