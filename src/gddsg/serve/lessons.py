"""From photos of a request to the next model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from gddsg.backbones.feature_cache import FeatureCache
from gddsg.core.backbone_identity import same_backbone
from gddsg.core.model import Model, Settings
from gddsg.data.dataset import PhotoListing, Skipped
from gddsg.data.photo import Photo
from gddsg.errors import DataError
from gddsg.photos.embedding import EmbeddedPhotos
from gddsg.photos.learning import check_labels
from gddsg.photos.model_backbone import ModelBackbone
from gddsg.photos.reports import list_skipped
from gddsg.photos.sorting import sort_photos
from gddsg.photos.threads import Progress
from gddsg.serve.advice import Unlike, find_unlike
from gddsg.serve.live_model import LiveModel, Step

KeepPhotos = Callable[[Mapping[int, Photo]], None]
"""Told the photos that are about to be learnt, by sample id."""


@dataclass(frozen=True)
class Taught:
    """What came of teaching photos.

    Attributes
    ----------
    learnt, known : int
        New photos, and those that the class had been learnt from before.
    skipped : tuple of Skipped
        What could not be learnt, and why.
    unlike : tuple of Unlike
        Photos that look unlike the class.
    photos : int
        That the class has been learnt from by now.
    created : bool
        Whether the class is new.
    """

    learnt: int
    known: int
    skipped: tuple[Skipped, ...]
    unlike: tuple[Unlike, ...]
    photos: int
    created: bool


@dataclass(frozen=True)
class _Learnt:
    before: Model
    after: Model
    new: tuple[int, ...]
    known: int
    skipped: tuple[Skipped, ...]


class Teaching:
    """Teaches photos to the model of the moment.

    Parameters
    ----------
    live : LiveModel
        The model.
    backbone : ModelBackbone
        Of it.
    cache : FeatureCache
        Of features, so that a repeated request takes no time.
    settings : dict
        Of a new model.
    """

    def __init__(self, live: LiveModel, backbone: ModelBackbone, cache: FeatureCache, settings: dict[str, Any]) -> None:
        self._live, self._backbone, self._cache, self._settings = live, backbone, cache, settings

    def teach(
        self, label: str, photos: Sequence[Photo], progress: Progress | None, keep: KeepPhotos | None = None
    ) -> Taught:
        """Learn photos of a class.

        Parameters
        ----------
        label : str
            The class.
        photos : sequence of Photo
            Whatever their labels are.
        progress : callable or None
            Told how far the work is.
        keep : callable or None
            See :data:`KeepPhotos`.
        """
        listing = PhotoListing(tuple(replace(photo, label=label) for photo in photos))
        while True:  # once more only if the model was exchanged, or photos were forgotten, meanwhile
            model = self._live.current().model or self._new_model(listing)
            check_labels(listing.photos, model, case_sensitive=False)
            embedded = self._backbone.embed(listing, model, self._cache, progress, known=model.label_samples())
            if keep is not None:
                keep(dict(zip(embedded.samples, embedded.photos, strict=True)))
            found: _Learnt | None = self._live.change(_maker(embedded, model, label))
            if found is not None:
                return _report(found, embedded, label)

    def _new_model(self, listing: PhotoListing) -> Model:
        settings = Settings(**self._settings, backbone=self._backbone.load_new(listing.photos).identity)
        settings.check()
        return Model(settings)


def _maker(embedded: EmbeddedPhotos, expected: Model, label: str) -> Callable[[Model | None], Step]:
    """Learns photos that were embedded for a model; the value of its step is None where they have to be so again."""

    def make(now: Model | None) -> Step:
        model = Model(expected.settings) if now is None else now
        if not same_backbone(model.backbone, expected.backbone):
            return Step(now)
        check_labels([Photo("", label)], model, case_sensitive=False)
        found = sort_photos(embedded, model.label_samples())
        if found.without_features:
            return Step(now)
        if not found.new:
            if label not in model.cards:
                raise DataError(f"No photo could be learnt:\n{list_skipped(found.skipped)}")
            return Step(now, _Learnt(model, model, (), found.known, found.skipped))
        rows = list(found.new)
        samples = np.array([embedded.samples[row] for row in rows], dtype=np.uint64)
        cards = model.make_cards(torch.from_numpy(embedded.features[rows]), [label] * len(rows), samples)
        after = model.plus(cards)
        return Step(after, _Learnt(model, after, found.new, found.known, found.skipped), cards)

    return make


def _report(found: _Learnt, embedded: EmbeddedPhotos, label: str) -> Taught:
    rows = list(found.new)
    names = [embedded.photos[row].name for row in rows]
    return Taught(
        learnt=len(rows),
        known=found.known,
        skipped=found.skipped,
        unlike=tuple(find_unlike(found.before, label, names, embedded.features[rows])) if rows else (),
        photos=found.after.cards[label].count,
        created=label not in found.before.cards,
    )
