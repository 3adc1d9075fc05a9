"""A classifier of photos that grows: a model file, the backbone it was learnt with, and the feature cache."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from gddsg.backbones.base import Backbone
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.core.model import Model, Settings
from gddsg.data.dataset import PhotoListing, Skipped
from gddsg.data.image_folder import unlabelled_photos
from gddsg.errors import DataError, InputError, ModelFileError
from gddsg.photos.embedding import EmbeddedPhotos
from gddsg.photos.evaluation import evaluate_photos
from gddsg.photos.learning import check_labels, grow_model, report_learning
from gddsg.photos.listing import list_labelled_photos
from gddsg.photos.model_backbone import ModelBackbone
from gddsg.photos.naming import refuse_new_name
from gddsg.photos.prediction import predict_photos
from gddsg.photos.reports import LearnReport, PhotoEvaluation, PhotoPrediction, list_skipped, refuse_skipped
from gddsg.photos.sorting import SortedPhotos, sort_photos
from gddsg.photos.threads import Progress
from gddsg.store import SharedModel

StrPath = str | PathLike[str]


class PhotoClassifier:
    """A growing classifier of photos, kept in one file.

    Every change is written to the file before the call returns, in one step: a crash leaves the state before or after.
    Several processes may change one file; each waits for its turn. Threads may predict while another learns: every
    answer is that of one model.

    Parameters
    ----------
    path : str or path-like
        Of the model file; :meth:`learn` creates it.
    backbone : str or None
        Name for a new model, see :func:`gddsg.backbones.load_backbone`. A model that exists knows its own; where the
        folder of it has moved, ``hf:FOLDER`` says where it is now, and :meth:`learn` makes the model remember that.
    device : str or None
        Torch device of the backbone; a GPU if there is one, unless named.
    cache : FeatureCache or None
        Of features; the user's, unless given.
    settings : dict or None
        Of a new model, see :class:`gddsg.core.model.Settings`.
    on_wait : callable or None
        Called when another process has to be waited for.
    ask : callable or None
        Given the name of a backbone from outside that only the model file names, says whether to use it. Who agrees
        once, or names the backbone, is not asked again; where there is nobody to ask, such a file is refused.

    Examples
    --------
    >>> from gddsg.photos import PhotoClassifier
    >>> animals = PhotoClassifier("animals.gddsg")
    >>> animals.learn("photos/")  # doctest: +SKIP
    >>> predictions, skipped = animals.predict("garden.jpg")  # doctest: +SKIP
    >>> predictions[0].label  # doctest: +SKIP
    'fox'
    """

    def __init__(
        self,
        path: StrPath,
        backbone: str | None = None,
        device: str | None = None,
        cache: FeatureCache | None = None,
        settings: dict[str, Any] | None = None,
        on_wait: Callable[[], None] | None = None,
        ask: Callable[[str], bool] | None = None,
    ) -> None:
        self.path = Path(path)
        self.cache = FeatureCache() if cache is None else cache
        self._settings = settings or {}
        self._file = SharedModel(self.path, on_wait)
        self._backbone = ModelBackbone(self.path, backbone, device, ask)

    @property
    def model(self) -> Model:
        """The model as it is in the file now: a value that never changes."""
        return self._require(self._file.read())

    @property
    def backbone(self) -> Backbone:
        """The backbone of the model, or the one wanted for a new model."""
        return self._backbone.load(self._file.read())

    def require_trust(self) -> None:
        """Refuse a model file that names a backbone from outside, unless the user has agreed to it or does so now."""
        model = self._file.read()
        if model is not None:
            self._backbone.require_trust(model)

    # ---------------------------------------------------------------- learning

    def learn(
        self, *paths: StrPath, strict: bool = False, case_sensitive: bool = False, progress: Progress | None = None
    ) -> LearnReport:
        """Learn the photos in folders, one class a folder, or in CSV lists; see :func:`gddsg.data.read_photos`.

        Photos that the model has learnt before are left out, so that a call may be repeated.

        Parameters
        ----------
        *paths : str or path-like
            Folders and lists.
        strict : bool
            Whether anything that has to be left out for another reason is an error; then nothing is learnt.
        case_sensitive : bool
            Whether classes may differ only in upper and lower case.
        progress : callable or None
            Told how far the work is.
        """
        listing = list_labelled_photos(paths, "train", case_sensitive)
        return self.learn_photos(listing, strict=strict, case_sensitive=case_sensitive, progress=progress)

    def learn_photos(
        self,
        listing: PhotoListing,
        *,
        strict: bool = False,
        case_sensitive: bool = False,
        progress: Progress | None = None,
    ) -> LearnReport:
        """Learn labelled photos, wherever they come from.

        Parameters
        ----------
        listing : PhotoListing
            The photos.
        strict, case_sensitive, progress : object
            As in :meth:`learn`.
        """
        report = None
        while report is None:  # once more only if another process has forgotten some of the photos meanwhile
            report = self._learn(listing, strict, case_sensitive, progress)
        return report

    def _learn(
        self, listing: PhotoListing, strict: bool, case_sensitive: bool, progress: Progress | None
    ) -> LearnReport | None:
        """Learn what is new; None if photos that were known, hence not embedded, are so no more."""
        model = self._begin(self._file.read())
        check_labels(listing.photos, model, case_sensitive)  # before the long work, and again after it
        # embedding takes long and needs no lock; what it finds is kept in the cache even if it is interrupted
        embedded = self._backbone.embed(listing, model, self.cache, progress, known=model.label_samples())
        found = _sort(embedded, model, strict)
        if not found.new:  # then there is nothing to write, and nobody to wait for
            if not model.cards:
                raise DataError(f"No photo could be learnt:\n{list_skipped(found.skipped)}")
            return report_learning(model, embedded, found)

        def grow(now: Model | None) -> Model | None:
            current = self._begin(now)
            self._backbone.require_same(current, model.settings.backbone)
            check_labels(listing.photos, current, case_sensitive)
            found = _sort(embedded, current, strict)
            return grow_model(current, embedded, found) if found.new and not found.without_features else None

        before = self._begin(self._file.change(grow))
        found = _sort(embedded, before, strict)
        return None if found.without_features else report_learning(before, embedded, found)

    def _begin(self, model: Model | None) -> Model:
        """The model in the file, or an empty one to begin with; either goes with the backbone."""
        if model is None:
            settings = Settings(**self._settings, backbone=self._backbone.load(None).identity)
            settings.check()
            return Model(settings)
        self._refuse_other_settings(model)
        return model.of_backbone(self._backbone.identify(model))

    def _refuse_other_settings(self, model: Model) -> None:
        """Settings are chosen for a new model; who asks for others later would not get them."""
        for name, wanted in self._settings.items():
            found = getattr(model.settings, name, None)
            if found != wanted:
                raise InputError(
                    f"{self.path} was made with {name}={found!r}, and {name}={wanted!r} was asked for. That cannot be "
                    "changed later: leave it out, or learn into a new model file."
                )

    # ---------------------------------------------------------------- prediction

    def predict(
        self,
        *paths: StrPath,
        top: int = 5,
        reject: float | None = None,
        strict: bool = False,
        progress: Progress | None = None,
    ) -> tuple[list[PhotoPrediction], tuple[Skipped, ...]]:
        """Classify image files and all images in folders; what cannot be read comes back as the second part.

        Parameters
        ----------
        *paths : str or path-like
            Image files and folders.
        top : int
            How many classes to name for each photo.
        reject : float or None
            Share of known inputs to keep, such as 0.99; photos less like any class are ``"unknown"``.
        strict : bool
            Whether a file that cannot be read is an error.
        progress : callable or None
            Told how far the work is.
        """
        model = self.model
        embedded = self._embed_all(unlabelled_photos(*paths), model, strict, progress)
        if not embedded.photos:
            return [], embedded.skipped
        return predict_photos(model.predictor, embedded.photos, embedded.features, top, reject), embedded.skipped

    def evaluate(
        self,
        *paths: StrPath,
        reject: float | None = None,
        strict: bool = False,
        case_sensitive: bool = False,
        progress: Progress | None = None,
    ) -> PhotoEvaluation:
        """Accuracy on labelled photos: the ``test`` part of folders that have one, else all of them.

        Parameters
        ----------
        *paths : str or path-like
            Folders and lists.
        case_sensitive : bool
            Whether classes may differ only in upper and lower case.
        reject, strict, progress : object
            As in :meth:`predict`.
        """
        model = self.model
        embedded = self._embed_all(list_labelled_photos(paths, "test", case_sensitive), model, strict, progress)
        if not embedded.photos:
            raise DataError(f"None of the photos can be read:\n{list_skipped(embedded.skipped)}")
        return evaluate_photos(model.predictor, embedded, reject)

    def _embed_all(
        self, listing: PhotoListing, model: Model, strict: bool, progress: Progress | None
    ) -> EmbeddedPhotos:
        embedded = self._backbone.embed(listing, model, self.cache, progress)
        if strict:
            refuse_skipped(embedded.skipped, "{} cannot be used")
        return embedded

    # ---------------------------------------------------------------- other changes

    def forget(self, *labels: str) -> None:
        """Delete classes, all or none of them.

        Parameters
        ----------
        *labels : str
            The classes.
        """

        def forget_all(model: Model) -> Model:
            for label in labels:
                model = model.without(label)
            if not model.cards:
                raise DataError("That would leave no class at all. Delete the file of the model instead.")
            return model

        self._change(forget_all)

    def rename(self, old: str, new: str) -> None:
        """Give a class another name.

        Parameters
        ----------
        old, new : str
            The name it has, and the one it gets.
        """
        refuse_new_name(old, new)
        self._change(lambda model: model.renamed(old, new))

    def _change(self, step: Callable[[Model], Model]) -> None:
        _ = self.model  # where there is none, nobody has to be waited for
        self._file.change(lambda model: step(self._require(model)))

    def _require(self, model: Model | None) -> Model:
        if model is None:
            raise ModelFileError(f"There is no model file {self.path}. Create it with learn: gddsg learn MODEL FOLDER.")
        return model


def _sort(embedded: EmbeddedPhotos, model: Model, strict: bool) -> SortedPhotos:
    found = sort_photos(embedded, model.label_samples())
    if strict:
        refuse_skipped(found.skipped, "Nothing was learnt, since {} cannot be")
    return found
