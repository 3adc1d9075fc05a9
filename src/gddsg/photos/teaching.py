"""How the model in a file changes: photos are learnt or moved to another class, classes forgotten or renamed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from gddsg.backbones.base import Array
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.core.model import Model
from gddsg.core.once import Lazy
from gddsg.data.dataset import PhotoListing, clean_label
from gddsg.data.image_folder import unlabelled_photos
from gddsg.data.photo import Photo, content_key, identify_sample
from gddsg.errors import DataError
from gddsg.photos.correcting import AllBut, correct_model, find_class, list_samples, refuse_missing
from gddsg.photos.embedding import EmbeddedPhotos
from gddsg.photos.first_model import FirstModel
from gddsg.photos.learning import check_labels, grow_model, report_learning
from gddsg.photos.model_backbone import ModelBackbone, no_model
from gddsg.photos.naming import refuse_new_name
from gddsg.photos.reports import CorrectionReport, LearnReport, list_skipped, refuse_skipped
from gddsg.photos.sorting import SortedPhotos, sort_photos
from gddsg.photos.threads import Progress
from gddsg.store import SharedModel

StrPath = str | PathLike[str]


class Teacher:
    """Changes the model in a file, each time in one step or not at all; see :class:`gddsg.photos.PhotoClassifier`.

    Parameters
    ----------
    file : SharedModel
        The file.
    backbone : ModelBackbone
        Of the model in it.
    cache : FeatureCache
        Of features.
    settings : dict
        Of a new model, see :class:`gddsg.core.model.Settings`.
    """

    def __init__(
        self, file: SharedModel, backbone: ModelBackbone, cache: FeatureCache, settings: dict[str, Any]
    ) -> None:
        self._file, self._backbone, self._cache = file, backbone, cache
        self._first = FirstModel(file.path, backbone, settings)

    # ---------------------------------------------------------------- learning

    def learn(
        self, listing: PhotoListing, strict: bool, case_sensitive: bool, progress: Progress | None
    ) -> LearnReport:
        """Learn labelled photos; those that the model has learnt before are left out."""
        report = None
        while report is None:  # once more only if another process has forgotten some of the photos meanwhile
            report = self._learn(listing, strict, case_sensitive, progress)
        return report

    def _learn(
        self, listing: PhotoListing, strict: bool, case_sensitive: bool, progress: Progress | None
    ) -> LearnReport | None:
        """Learn what is new; None if photos that were known, hence not embedded, are so no more."""
        new = Lazy(lambda: self._first.new(listing.photos))
        model = self._first.or_successor(self._file.read(), new)
        check_labels(listing.photos, model, case_sensitive)  # before the long work, and again after it
        # embedding takes long and needs no lock; what it finds is kept in the cache even if it is interrupted
        embedded = self._backbone.embed(listing, model, self._cache, progress, known=model.label_samples())
        found = _sort(embedded, model, strict)
        if not found.new:  # then there is nothing to write, and nobody to wait for
            if not model.cards:
                raise DataError(f"No photo could be learnt:\n{list_skipped(found.skipped)}")
            return report_learning(model, model, embedded, found)
        after = model

        def grow(now: Model | None) -> Model | None:
            nonlocal after
            current = self._first.or_successor(now, new)
            self._backbone.require_same(current, model.settings.backbone)
            check_labels(listing.photos, current, case_sensitive)
            found = _sort(embedded, current, strict)
            if not found.new or found.without_features:
                return None
            after = grow_model(current, embedded, found)
            return after

        before = self._first.or_successor(self._file.change(grow), new)
        found = _sort(embedded, before, strict)
        return None if found.without_features else report_learning(before, after, embedded, found)

    # ---------------------------------------------------------------- other changes

    def forget(self, labels: Sequence[str]) -> None:
        """Delete classes, all or none of them."""

        def forget_all(model: Model) -> Model:
            for label in labels:
                model = model.without(label)
            if not model.cards:
                raise DataError("That would leave no class at all. Delete the file of the model instead.")
            return model

        self._change(forget_all)

    def rename(self, old: str, new: str) -> None:
        """Give a class another name."""
        refuse_new_name(old, new)
        self._change(lambda model: model.renamed(old, new))

    def correct(
        self, photo: StrPath, label: str, folders: Sequence[StrPath], case_sensitive: bool, progress: Progress | None
    ) -> CorrectionReport:
        """Move a photo to another class; photos of the class it was in are looked for in folders."""
        moved = Photo.of_file(Path(photo), clean_label(label))
        sample = identify_sample(content_key(moved.read()))
        report = None
        while report is None:  # once more only if another process has changed the class meanwhile
            report = self._correct(moved, sample, folders, case_sensitive, progress)
        return report

    def _correct(
        self, photo: Photo, sample: int, folders: Sequence[StrPath], case_sensitive: bool, progress: Progress | None
    ) -> CorrectionReport | None:
        """Move the photo; None if its class is no longer what it was when features were looked up."""
        model, new = self._require(self._file.read()), photo.label
        old = find_class(model, sample, photo.name)
        if old == new:
            return CorrectionReport(photo.name, str(old), new, 0, False)
        check_labels([photo], model, case_sensitive)
        samples = list_samples(model, old)
        features = self._find_features(samples, model, PhotoListing((photo,)), progress)
        if folders and samples - features.keys():
            features |= self._find_features(samples - features.keys(), model, unlabelled_photos(*folders), progress)
        refuse_missing(samples, features, old, len(folders))

        def step(current: Model) -> Model:
            self._backbone.require_same(current, model.settings.backbone)
            check_labels([photo], current, case_sensitive)
            same = old in current.cards and list_samples(current, old) == samples
            return correct_model(current, sample, old, new, features) if same else current

        before = self._change(step)
        if old not in before.cards or list_samples(before, old) != samples:
            return None
        return CorrectionReport(photo.name, str(old), new, len(samples) - 1, new not in before.cards)

    def _find_features(
        self, samples: Collection[int], model: Model, listing: PhotoListing, progress: Progress | None
    ) -> dict[int, Array]:
        """Features of samples, from the cache or by those photos of a listing that are meant, by sample id."""
        found = self._backbone.look_up(samples, model, self._cache)
        wanted = AllBut(set(samples) - found.keys())
        embedded = self._backbone.embed(listing, model, self._cache, progress, known=wanted)
        return found | dict(zip(embedded.samples, embedded.features, strict=True))

    def _change(self, step: Callable[[Model], Model]) -> Model:
        """Put the successor of the model in its place; the model that was there before."""
        self._require(self._file.read())  # where there is none, nobody has to be waited for
        return self._require(self._file.change(lambda model: step(self._require(model))))

    def _require(self, model: Model | None) -> Model:
        if model is None:
            raise no_model(self._file.path)
        return model


def _sort(embedded: EmbeddedPhotos, model: Model, strict: bool) -> SortedPhotos:
    found = sort_photos(embedded, model.label_samples())
    if strict:
        refuse_skipped(found.skipped, "Nothing was learnt, since {} cannot be")
    return found
