"""How right a model would be about new photos, from those it learns: each is asked of a model that has not seen it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from gddsg.core.model import Model, Settings
from gddsg.data.dataset import Skipped
from gddsg.errors import DataError, InputError
from gddsg.photos.embedding import EmbeddedPhotos
from gddsg.photos.evaluation import judge, summarise
from gddsg.photos.reports import PhotoEvaluation
from gddsg.photos.sorting import sort_photos


def cross_validate(settings: Settings, embedded: EmbeddedPhotos, folds: int, reject: float | None) -> PhotoEvaluation:
    """Part the photos, and ask about each part the model that has learnt all the others.

    A photo that comes twice counts once, one that comes under two labels or alone in its class is left out. Which part
    a photo falls into follows from the contents of the photos of its class alone.

    Parameters
    ----------
    settings : Settings
        Of the models.
    embedded : EmbeddedPhotos
        Labelled photos with features.
    folds : int
        Number of parts, two at least.
    reject : float or None
        Share of known inputs to keep; photos less like any class are unknown.
    """
    if folds < 2:
        raise InputError(f"folds={folds!r} was given; expected a whole number from 2, such as 5.")
    usable = _usable(embedded)
    if not usable.photos:
        raise DataError(
            "No class has two different photos that can be used, and one photo cannot be both learnt and asked about. "
            "Name folders with more photos of each class."
        )
    labels = [photo.label for photo in usable.photos]
    samples, names = np.array(usable.samples, dtype=np.uint64), np.unique(labels)
    fold_of = part_samples(np.array(labels), samples, folds)
    logs, predicted = np.empty((len(labels), len(names))), np.empty(len(labels), dtype=object)
    for fold in np.unique(fold_of):
        asked, learnt = fold_of == fold, np.flatnonzero(fold_of != fold)
        begun = Model(settings)
        features = torch.from_numpy(usable.features[learnt])
        model = begun.plus(begun.make_cards(features, [labels[row] for row in learnt], samples[learnt]))
        logs[asked], predicted[asked] = judge(model.predictor, usable.features[asked], reject)
    return summarise(names, usable, logs, predicted.astype(str))


def part_samples(labels: NDArray[np.str_], samples: NDArray[np.uint64], folds: int) -> NDArray[np.intp]:
    """The part of each sample, ``(n,)``: those of a class fall into all parts alike, in the order of their hashes.

    Parameters
    ----------
    labels, samples : ndarray
        ``(n,)``, of different samples.
    folds : int
        Number of parts.
    """
    fold_of = np.empty(len(samples), dtype=np.intp)
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        own = own[np.argsort(samples[own])]
        first = int(samples[own[0]]) % folds  # else the first parts would get all that is over
        fold_of[own] = (first + np.arange(len(own))) % folds
    return fold_of


def _usable(embedded: EmbeddedPhotos) -> EmbeddedPhotos:
    """Each photo once, without those that contradict each other or are alone in their class."""
    found = sort_photos(embedded, {})
    labels = [embedded.photos[row].label for row in found.new]
    names, counts = np.unique(labels, return_counts=True)
    alone = set(names[counts == 1].tolist())
    rows = [row for row, label in zip(found.new, labels, strict=True) if label not in alone]
    lonely = [embedded.photos[row].name for row in found.new if embedded.photos[row].label in alone]
    reason = "the only photo of its class, which cannot be both learnt and asked about"
    return replace(
        embedded,
        photos=tuple(embedded.photos[row] for row in rows),
        samples=tuple(embedded.samples[row] for row in rows),
        features=embedded.features[rows],
        skipped=(*found.skipped, *(Skipped(name, reason) for name in lonely)),
    )
