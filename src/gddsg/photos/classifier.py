"""A classifier of photos that grows: a model file, the backbone it was learnt with, and the feature cache.

What brings torch along is imported when it is first needed: to learn, never to answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gddsg.backbones.base import Backbone
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.data.dataset import PhotoListing
from gddsg.data.image_folder import unlabelled_photos
from gddsg.errors import DataError
from gddsg.photos.embedding import EmbeddedPhotos
from gddsg.photos.filing import FilingReport, file_photos, leave_out_filed, prepare_folder
from gddsg.photos.inputs import ImageLike, list_images
from gddsg.photos.listing import list_labelled_photos
from gddsg.photos.model_backbone import ModelBackbone, no_model
from gddsg.photos.prediction import predict_photos
from gddsg.photos.reports import (
    CorrectionReport,
    LearnReport,
    PhotoEvaluation,
    PhotoPrediction,
    PhotoPredictions,
    list_skipped,
    refuse_skipped,
)
from gddsg.photos.threads import Progress
from gddsg.store import SharedModel

if TYPE_CHECKING:
    from gddsg.core.model import Model
    from gddsg.photos.teaching import Teacher
    from gddsg.store.answers import Answers

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
    quality : {"fast", "good", "best"} or None
        Of a new model for which no backbone is named, ``"good"`` unless given: the better, the longer a photo takes;
        see :mod:`gddsg.photos.quality`. A model that exists keeps the backbone it has.

    Examples
    --------
    >>> from gddsg.photos import PhotoClassifier
    >>> animals = PhotoClassifier("animals.gddsg")
    >>> animals.learn("photos/")  # doctest: +SKIP
    >>> animals.predict("garden.jpg")  # doctest: +SKIP
    garden.jpg  fox  93.0 %  (wolf 5.0 %, dog 1.1 %)
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
        quality: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.cache = FeatureCache() if cache is None else cache
        self._settings = settings or {}
        self._file = SharedModel(self.path, on_wait)
        self._backbone = ModelBackbone(self.path, backbone, device, ask, quality)

    @property
    def model(self) -> Model:
        """The model as it is in the file now: a value that never changes."""
        found = self._file.read()
        if found is None:
            raise no_model(self.path)
        return found

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes that the model knows, sorted."""
        return tuple(map(str, self._answering().predictor.labels.tolist()))

    @property
    def backbone(self) -> Backbone:
        """The backbone of the model; where there is none yet, the one that a new model of photos would get."""
        model = self._file.answering()
        return self._backbone.load_new() if model is None else self._backbone.load(model)

    def require_trust(self) -> None:
        """Refuse a model file that names a backbone from outside, unless the user has agreed to it or does so now."""
        model = self._file.answering()
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
        return self._teacher().learn(listing, strict, case_sensitive, progress)

    # ---------------------------------------------------------------- prediction

    def predict(
        self,
        *images: ImageLike,
        top: int = 5,
        reject: float | None = None,
        strict: bool = False,
        progress: Progress | None = None,
    ) -> PhotoPredictions:
        """Classify image files, all images in folders, and images in memory; what cannot be read is in ``skipped``.

        Parameters
        ----------
        *images : ImageLike
            Image files and folders, images of Pillow, and uint8 arrays ``(height, width, 3)`` or ``(height, width)``,
            in any mixture.
        top : int
            How many classes to name for each photo.
        reject : float or None
            Share of known inputs to keep, such as 0.99; photos less like any class are ``"unknown"``.
        strict : bool
            Whether a file that cannot be read is an error.
        progress : callable or None
            Told how far the work is.
        """
        model = self._answering()
        embedded = self._embed_all(list_images(images), model, strict, progress)
        if not embedded.photos:
            return PhotoPredictions((), embedded.skipped)
        found = predict_photos(model.predictor, embedded.photos, embedded.features, top, reject)
        return PhotoPredictions(tuple(found), embedded.skipped)

    def sort(
        self,
        *paths: StrPath,
        into: StrPath,
        move: bool = False,
        reject: float | None = None,
        strict: bool = False,
        progress: Progress | None = None,
    ) -> FilingReport:
        """Put photos into a folder for each class by what they are taken for; see :mod:`gddsg.photos.filing`.

        Parameters
        ----------
        *paths : str or path-like
            Image files and folders.
        into : str or path-like
            That the folders are made in; photos that are in it already stay there.
        move : bool
            Whether the photos are moved, instead of copied.
        reject, strict, progress : object
            As in :meth:`predict`; photos that are unlike any class go to the folder ``unknown``.
        """
        model, folder = self._answering(), Path(into)
        listing = leave_out_filed(unlabelled_photos(*paths, may_be_none=True), folder)
        prepare_folder(folder)  # before the long work
        embedded = self._embed_all(listing, model, strict, progress)
        found: list[PhotoPrediction] = []
        if embedded.photos:
            found = predict_photos(model.predictor, embedded.photos, embedded.features, 1, reject)
        filed = file_photos(found, folder, move=move)
        return replace(filed, skipped=(*embedded.skipped, *filed.skipped))

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
        from gddsg.photos.evaluation import evaluate_photos, find_learnt

        model = self._answering()
        embedded = self._embed_all(list_labelled_photos(paths, "test", case_sensitive), model, strict, progress)
        if not embedded.photos:
            raise DataError(f"None of the photos can be read:\n{list_skipped(embedded.skipped)}")
        learnt = find_learnt(embedded, model.label_samples(), model.label_sketches())
        return evaluate_photos(model.predictor, embedded, reject, learnt)

    def cross_validate(
        self,
        *paths: StrPath,
        folds: int = 5,
        reject: float | None = None,
        strict: bool = False,
        case_sensitive: bool = False,
        progress: Progress | None = None,
    ) -> PhotoEvaluation:
        """Accuracy to expect on new photos, without a test folder: each photo is asked of a model that never saw it.

        Models with the settings of this one learn the photos in folders, or the ``train`` part of folders that have
        one, but for a fifth each; what this model has learnt plays no part, and its file is left alone.

        Parameters
        ----------
        *paths : str or path-like
            Folders and lists, as for :meth:`learn`.
        folds : int
            Number of models; each does without one photo in so many.
        case_sensitive, reject, strict, progress : object
            As in :meth:`evaluate`.
        """
        from gddsg.photos.cross_validation import cross_validate

        model = self.model
        embedded = self._embed_all(list_labelled_photos(paths, "train", case_sensitive), model, strict, progress)
        if not embedded.photos:
            raise DataError(f"None of the photos can be read:\n{list_skipped(embedded.skipped)}")
        return cross_validate(model.settings, embedded, folds, reject)

    def _answering(self) -> Model | Answers:
        found = self._file.answering()
        if found is None:
            raise no_model(self.path)
        return found

    def _embed_all(
        self, listing: PhotoListing, model: Model | Answers, strict: bool, progress: Progress | None
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
        self._teacher().forget(labels)

    def rename(self, old: str, new: str) -> None:
        """Give a class another name.

        Parameters
        ----------
        old, new : str
            The name it has, and the one it gets.
        """
        self._teacher().rename(old, new)

    def correct(
        self,
        photo: StrPath,
        label: str,
        *,
        photos: Sequence[StrPath] = (),
        case_sensitive: bool = False,
        progress: Progress | None = None,
    ) -> CorrectionReport:
        """Move a photo that was learnt under the wrong class to another one, all or nothing.

        The class it was in is learnt again from its other photos, in one batch. Their features come from the cache; for
        those that are not there, folders with the photos have to be named.

        Parameters
        ----------
        photo : str or path-like
            The photo, byte for byte as it was learnt.
        label : str
            The class it belongs to, which may be new.
        photos : sequence of str or path-like
            Folders in which photos of the class it was in are looked for, at any depth.
        case_sensitive : bool
            Whether a new class may differ from another only in upper and lower case.
        progress : callable or None
            Told how far the work is.
        """
        return self._teacher().correct(photo, label, photos, case_sensitive, progress)

    def _teacher(self) -> Teacher:
        from gddsg.photos.teaching import Teacher  # brings torch along, which answers need not wait for

        return Teacher(self._file, self._backbone, self.cache, self._settings)
