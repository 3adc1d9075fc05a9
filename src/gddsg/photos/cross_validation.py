"""How right a model would be about new photos, from those it learns: each is asked of a model that has not seen it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gddsg.backbones.base import Array
from gddsg.core.model import Model, Settings
from gddsg.core.near_copies import near_pairs, sketch_samples
from gddsg.data.dataset import Skipped
from gddsg.errors import DataError, InputError
from gddsg.photos.embedding import EmbeddedPhotos
from gddsg.photos.evaluation import judge, summarise
from gddsg.photos.reports import PhotoEvaluation
from gddsg.photos.sorting import sort_photos


def cross_validate(settings: Settings, embedded: EmbeddedPhotos, folds: int, reject: float | None) -> PhotoEvaluation:
    """Part the photos, and ask about each part the model that has learnt all the others.

    A photo that comes twice counts once, one that comes under two labels or alone in its class is left out, and near
    copies of each other stay together: else some would be asked of a model that has all but seen them. Which part a
    photo falls into follows from the contents of the photos of its class alone.

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
    usable, scenes = _usable(embedded)
    if not usable.photos:
        raise DataError(
            "No class has two different photos that can be used, and one photo cannot be both learnt and asked about. "
            "Name folders with more photos of each class."
        )
    labels = [photo.label for photo in usable.photos]
    samples, names = np.array(usable.samples, dtype=np.uint64), np.unique(labels)
    fold_of = part_samples(np.array(labels), scenes, folds)
    logs, predicted = np.empty((len(labels), len(names))), np.empty(len(labels), dtype=object)
    for fold in np.unique(fold_of):
        asked, learnt = fold_of == fold, np.flatnonzero(fold_of != fold)
        begun = Model(settings)
        features = torch.from_numpy(usable.features[learnt])
        model = begun.plus(begun.make_cards(features, [labels[row] for row in learnt], samples[learnt]))
        logs[asked], predicted[asked] = judge(model.predictor, usable.features[asked], reject)
    return summarise(names, usable, logs, predicted.astype(str))


def part_samples(labels: NDArray[np.str_], scenes: NDArray[np.uint64], folds: int) -> NDArray[np.intp]:
    """The part of each sample, ``(n,)``: the scenes of a class fall into all parts alike, in the order of their ids.

    Parameters
    ----------
    labels, scenes : ndarray
        ``(n,)``, of samples; those of one scene stay together.
    folds : int
        Number of parts.
    """
    fold_of = np.empty(len(scenes), dtype=np.intp)
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        ids, place = np.unique(scenes[own], return_inverse=True)
        first = int(ids[0]) % folds  # else the first parts would get all that is over
        fold_of[own] = (first + place) % folds
    return fold_of


def find_scenes(features: Array, samples: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Of each sample of a class, ``(n,)``, the lowest id among those that near copies join it with.

    Parameters
    ----------
    features, samples : ndarray
        ``(n, dim)`` and ``(n,)``, all of one class.
    """
    sketches = sketch_samples(features)
    if len(sketches) == 0:
        return samples
    part = np.arange(len(samples))
    for some, theirs in near_pairs(sketches):
        joined = coo_array((np.ones(len(some)), (part[some], part[theirs])), shape=(len(samples), len(samples)))
        part = connected_components(joined, directed=False)[1][part]
    lowest = np.full(len(samples), np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(lowest, part, samples)
    scenes: NDArray[np.uint64] = lowest[part]
    return scenes


def _usable(embedded: EmbeddedPhotos) -> tuple[EmbeddedPhotos, NDArray[np.uint64]]:
    """Each photo once, without those that contradict each other or are alone in their class; and their scenes."""
    found = sort_photos(embedded, {})
    new, samples = np.array(found.new, dtype=np.intp), np.array(embedded.samples, dtype=np.uint64)
    labels, scenes = np.array([embedded.photos[row].label for row in new]), samples[new]
    kept = np.zeros(len(new), dtype=bool)
    for label in np.unique(labels):
        own = labels == label
        scenes[own] = find_scenes(embedded.features[new[own]], scenes[own])
        kept[own] = len(np.unique(scenes[own])) > 1
    rows, lonely = new[kept].tolist(), [embedded.photos[row].name for row in new[~kept]]
    reason = "the only photo of its class, near copies aside: it cannot be both learnt and asked about"
    usable = replace(
        embedded,
        photos=tuple(embedded.photos[row] for row in rows),
        samples=tuple(embedded.samples[row] for row in rows),
        features=embedded.features[rows],
        skipped=(*found.skipped, *(Skipped(name, reason) for name in lonely)),
    )
    return usable, scenes[kept]
