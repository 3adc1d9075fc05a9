"""Labelled samples made on the spot, in the form a learner takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gddsg.data.images import Images
from gddsg.learners.base import Learner

Features = NDArray[np.float32]
Labels = NDArray[Any]

_IMAGE_SIDE = 8
_PIXELS_PER_FEATURE = 24  # what a step of 1 is for features, in steps of 256 for colours


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of some classes, and fresh ones of the same classes in the same order.

    Attributes
    ----------
    inputs, fresh : ndarray or Images
        ``n`` samples of every class, class after class.
    labels : ndarray
        Of both, ``(n_samples,)``: ``c00``, ``c01`` and so on.
    """

    inputs: Any
    fresh: Any
    labels: Labels


def separated_classes(n_classes: int = 6, n: int = 30, dim: int = 12, seed: int = 0) -> tuple[Features, Labels]:
    """Well separated classes of non-negative features, labelled ``c00``, ``c01`` and so on."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0, 8, (n_classes, dim))
    X = np.concatenate([np.abs(rng.normal(centre, 0.5, (n, dim))) for centre in centres])
    return X.astype(np.float32), np.repeat(class_names(n_classes), n)


def class_names(n_classes: int) -> list[str]:
    """``c00``, ``c01`` and so on."""
    return [f"c{c:02d}" for c in range(n_classes)]


def samples_for(
    learner: Learner[Any], n_classes: int = 6, n: int = 30, *, noise: float = 0.0, seed: int = 0
) -> Samples:
    """Samples in the form that ``learner`` takes.

    Parameters
    ----------
    learner : Learner
        What it takes decides: features of 12 dimensions, or images of 8 × 8 pixels that differ in their colours.
    n_classes, n : int
        How many classes, and how many samples of each.
    noise : float
        How much classes overlap: 0 for well separated ones; with 2 some samples are mistaken.
    seed : int
        Of all draws.
    """
    return (_images if learner.takes == "images" else _features)(n_classes, n, noise, seed)


def _features(n_classes: int, n: int, noise: float, seed: int) -> Samples:
    X, y = separated_classes(n_classes, n, seed=seed)
    rng = np.random.default_rng([seed, 1])
    X = X + rng.normal(0, noise, X.shape).astype(np.float32)
    return Samples(X, np.abs(X + rng.normal(0, 0.3, X.shape)).astype(np.float32), y)


def _images(n_classes: int, n: int, noise: float, seed: int) -> Samples:
    """Images of one colour a class: cells of a grid of colours, so that any two classes are apart."""
    rng = np.random.default_rng(seed)
    side = int(np.ceil(n_classes ** (1 / 3)))
    grid = np.stack(np.meshgrid(*[np.linspace(30, 225, max(side, 2))] * 3), axis=-1).reshape(-1, 3)
    colours = rng.permutation(grid)[:n_classes].repeat(n, axis=0)
    colours = colours + rng.normal(0, 0.5 + noise, colours.shape) * _PIXELS_PER_FEATURE
    fresh = colours + rng.normal(0, 0.3 * _PIXELS_PER_FEATURE, colours.shape)
    shown, later = (Images.of(_painted(part, rng)) for part in (colours, fresh))
    return Samples(shown, later, np.repeat(class_names(n_classes), n))


def _painted(colours: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Pixels ``(n, 8, 8, 3)`` of the colours ``(n, 3)``, with a little grain."""
    grain = rng.normal(0, 4, (len(colours), _IMAGE_SIDE, _IMAGE_SIDE, 3))
    return (colours[:, None, None, :] + grain).clip(0, 255).astype(np.uint8)


def lonely_sample(learner: Learner[Any]) -> Any:
    """One sample far away from all classes."""
    if learner.takes == "images":
        return Images.of(np.full((1, _IMAGE_SIDE, _IMAGE_SIDE, 3), (255, 0, 255), dtype=np.uint8))
    return separated_classes()[0][:1] + 30


def equal_samples(learner: Learner[Any], n: int) -> Any:
    """So many samples that are all the same."""
    if learner.takes == "images":
        return Images.of(np.full((n, _IMAGE_SIDE, _IMAGE_SIDE, 3), 128, dtype=np.uint8))
    return np.ones((n, 3))
