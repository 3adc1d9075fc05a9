"""From sorted photos to the next model, and what there is to report of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch

from gddsg.core.model import Model
from gddsg.data.dataset import refuse_case_twins
from gddsg.data.photo import Photo
from gddsg.learners.labels import checked_labels
from gddsg.photos.embedding import EmbeddedPhotos
from gddsg.photos.naming import refuse_new_class
from gddsg.photos.reports import LearnReport
from gddsg.photos.sorting import SortedPhotos


def check_labels(photos: Sequence[Photo], model: Model, case_sensitive: bool) -> None:
    """Refuse labels that do not go with the classes a model has, or that no class can have.

    Parameters
    ----------
    photos : sequence of Photo
        With the labels.
    model : Model
        With the classes.
    case_sensitive : bool
        Whether classes may differ only in upper and lower case.
    """
    refuse_new_class(photos, model.cards)
    labels = [photo.label for photo in photos]
    checked_labels(labels, len(labels), model.labels)
    refuse_case_twins(labels, case_sensitive, [str(label) for label in model.labels])


def grow_model(model: Model, embedded: EmbeddedPhotos, found: SortedPhotos) -> Model:
    """The model that has learnt the new photos too.

    Parameters
    ----------
    model : Model
        The one before.
    embedded : EmbeddedPhotos
        The photos.
    found : SortedPhotos
        Which of them are new to this model.
    """
    rows = list(found.new)
    labels = [embedded.photos[row].label for row in rows]
    samples = np.array([embedded.samples[row] for row in rows], dtype=np.uint64)
    return model.plus(model.make_cards(torch.from_numpy(embedded.features[rows]), labels, samples))


def report_learning(before: Model, after: Model, embedded: EmbeddedPhotos, found: SortedPhotos) -> LearnReport:
    """What was learnt.

    Parameters
    ----------
    before, after : Model
        The model that did not know the new photos, and the one that does.
    embedded : EmbeddedPhotos
        The photos.
    found : SortedPhotos
        Which of them were new to that model.
    """
    learnt = dict(sorted(Counter(embedded.photos[row].label for row in found.new).items()))
    newcomers = tuple(label for label in learnt if label not in before.cards)
    copies = {label: after.cards[label].count - after.cards[label].distinct for label in learnt}
    near_copies = {label: n for label, n in copies.items() if n}
    return LearnReport(learnt, newcomers, found.known, found.skipped, embedded.computed, near_copies)
