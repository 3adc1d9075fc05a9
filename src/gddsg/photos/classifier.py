"""A classifier of photos that grows: a model file, the backbone it was learnt with, and the feature cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gddsg.backbones import DEFAULT_BACKBONE, PRESETS, load_backbone
from gddsg.backbones.base import Backbone
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.data.dataset import PhotoListing, Skipped, refuse_case_twins
from gddsg.data.image_folder import read_photos, test_photos, unlabelled_photos
from gddsg.data.photo import Photo
from gddsg.data.photo_list import Part, listed_photos
from gddsg.errors import BackboneError, DataError, ModelFileError
from gddsg.photos.embedding import EmbeddedPhotos, recall_or_embed
from gddsg.photos.recognition import (
    Knowledge,
    Survey,
    given,
    if_nothing_is_new,
    news,
    read_knowledge,
    sample_id,
    survey,
)
from gddsg.photos.reports import ClassResult, LearnReport, PhotoEvaluation, PhotoPrediction
from gddsg.photos.threads import Progress

if TYPE_CHECKING:
    from gddsg.learners.gddsg import GDDSG

StrPath = str | PathLike[str]
FileState = tuple[int, int, int]
UNKNOWN = "unknown"
_LISTED = 20


class PhotoClassifier:
    """A growing classifier of photos, kept in one file.

    Every change is written to the file before the call returns, in one step: a crash leaves the state before or after.
    Several processes may change one file; each waits for its turn.

    Parameters
    ----------
    path : of the model file; :meth:`learn` creates it.
    backbone : name for a new model, see :func:`gddsg.backbones.load_backbone`; a model that exists knows its own.
    device : torch device of the backbone; a GPU if there is one, unless named.
    cache : of features; the user's, unless given.
    settings : arguments of :class:`gddsg.GDDSG` for a new model.
    on_wait : called when another process has to be waited for.

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
    ) -> None:
        self.path = Path(path)
        self._wanted_backbone = backbone
        self._device = device
        self.cache = FeatureCache() if cache is None else cache
        self._settings = settings or {}
        self._on_wait = on_wait
        self._backbone: Backbone | None = None
        self._loaded: tuple[FileState, GDDSG] | None = None
        self._known: tuple[FileState, Knowledge] | None = None

    # ---------------------------------------------------------------- learning

    def learn(
        self, *paths: StrPath, strict: bool = False, case_sensitive: bool = False, progress: Progress | None = None
    ) -> LearnReport:
        """Learn the photos in folders, one class a folder, or in CSV lists; see :func:`gddsg.data.read_photos`.

        Photos that the model has learnt before are left out, so that a call may be repeated. With ``strict`` anything
        that has to be left out for another reason is an error, and nothing is learnt.
        """
        listing = _labelled(paths, "train", case_sensitive)
        return self.learn_photos(listing, strict=strict, case_sensitive=case_sensitive, progress=progress)

    def learn_photos(
        self,
        listing: PhotoListing,
        *,
        strict: bool = False,
        case_sensitive: bool = False,
        progress: Progress | None = None,
    ) -> LearnReport:
        """Learn labelled photos, wherever they come from."""
        report = None
        while report is None:  # once more only if another process has forgotten some of the photos meanwhile
            report = self._learn(listing, strict, case_sensitive, progress)
        return report

    def _learn(
        self, listing: PhotoListing, strict: bool, case_sensitive: bool, progress: Progress | None
    ) -> LearnReport | None:
        known, labels = self._knowledge(), [photo.label for photo in listing.photos]
        refuse_case_twins(labels, case_sensitive, known.labels)  # before the long work, and again after it
        identity = self._identity(known)
        found = survey(listing.photos, known.learnt_as, progress)
        nothing = if_nothing_is_new(found.rest, known.learnt_as) if known.learnt_as else None
        if nothing is not None:
            unreadable, rest = nothing
            old = news(given(found.old), known.learnt_as)
            skipped = _skipped(strict, listing.skipped, unreadable, old.contradictory, rest.contradictory)
            return LearnReport({}, (), old.known + rest.known, skipped, computed=0)
        # embedding takes long and needs no lock; what it finds is kept in the cache even if it is interrupted
        embedded = self._embed([one.photo for one in found.rest], identity, _counting_on(progress, found))
        with self._locked():
            model = self._current()
            if model is None:
                model = _learner()(backbone=identity, **self._settings)
            self._require_own_features(model, identity)
            refuse_case_twins(labels, case_sensitive, _knowledge_of(model).labels)
            return self._learn_embedded(model, listing, found, embedded, strict)

    def _learn_embedded(
        self, model: GDDSG, listing: PhotoListing, found: Survey, embedded: EmbeddedPhotos, strict: bool
    ) -> LearnReport | None:
        """Learn what is new; None if photos that were found to be learnt are so no more."""
        before = _knowledge_of(model)
        samples = [sample_id(key) for key in embedded.keys]
        old = news(given(found.old), before.learnt_as)
        rest = news(list(zip(embedded.photos, samples, strict=True)), before.learnt_as)
        if old.new:
            return None
        skipped = _skipped(strict, listing.skipped, embedded.skipped, old.contradictory, rest.contradictory)
        labels = [embedded.photos[i].label for i in rest.new]
        if rest.new:
            self._loaded = None  # from here on the model is ahead of its file
            model.partial_fit(embedded.features[rest.new], labels, sample_ids=[samples[i] for i in rest.new])
            self._save(model)
        elif not self.path.exists():
            raise DataError(f"No photo could be learnt:\n{_listed(skipped)}")
        learnt = dict(sorted(Counter(labels).items()))
        newcomers = tuple(label for label in learnt if label not in before.labels)
        return LearnReport(learnt, newcomers, old.known + rest.known, skipped, embedded.computed)

    def _require_own_features(self, model: GDDSG, identity: str) -> None:
        """While photos were embedded another process may have put a model of another backbone in the file's place."""
        if model.backbone != identity:
            raise BackboneError(
                f"{self.path} is now a model of the backbone {model.backbone}, and the photos were embedded by "
                f"{identity}. Nothing was changed; start again."
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

        ``reject`` is the share of known inputs to keep, such as 0.99; photos less like any class are ``"unknown"``.
        """
        listing = unlabelled_photos(*paths)
        embedded = self._embedded(listing, strict, progress)
        if not embedded.photos:
            return [], embedded.skipped
        model = self.model
        table, novelty = model.predict_proba(embedded.features), model.novelty(embedded.features)
        labels = _labels(model, table, embedded.features, reject)
        best = np.argsort(-table, axis=1)[:, : max(top, 1)]
        predictions = [
            PhotoPrediction(
                name=photo.name,
                label=str(labels[i]),
                probability=float(table[i, best[i, 0]]),
                top=tuple((str(model.classes_[c]), float(table[i, c])) for c in best[i]),
                novelty=float(novelty[i]),
            )
            for i, photo in enumerate(embedded.photos)
        ]
        return predictions, embedded.skipped

    def evaluate(
        self,
        *paths: StrPath,
        reject: float | None = None,
        strict: bool = False,
        case_sensitive: bool = False,
        progress: Progress | None = None,
    ) -> PhotoEvaluation:
        """Accuracy on labelled photos: the ``test`` part of folders that have one, else all of them."""
        listing = _labelled(paths, "test", case_sensitive)
        embedded = self._embedded(listing, strict, progress)
        if not embedded.photos:
            raise DataError(f"None of the photos can be read:\n{_listed(embedded.skipped)}")
        return _evaluation(self.model, embedded, reject)

    def _embedded(self, listing: PhotoListing, strict: bool, progress: Progress | None) -> EmbeddedPhotos:
        identity = self._identity(_knowledge_of(self.model))
        embedded = self._embed(listing.photos, identity, progress)
        self._require_own_features(self.model, identity)
        skipped = (*listing.skipped, *embedded.skipped)
        if strict and skipped:
            raise DataError(f"{len(skipped)} files cannot be used:\n{_listed(skipped)}")
        return replace(embedded, skipped=skipped)

    def _embed(self, photos: Sequence[Photo], identity: str, progress: Progress | None) -> EmbeddedPhotos:
        fingerprint = identity.rpartition("@")[2]
        return recall_or_embed(photos, fingerprint, lambda: self.backbone, self.cache, progress)

    # ---------------------------------------------------------------- other changes

    def forget(self, *labels: str) -> None:
        """Delete classes, all or none of them."""
        with self._changed() as model:
            for label in labels:
                model.forget(label)
            if not model.__sklearn_is_fitted__():
                raise DataError("That would leave no class at all. Delete the file of the model instead.")

    def rename(self, old: str, new: str) -> None:
        """Give a class another name."""
        with self._changed() as model:
            model.rename(old, new)

    @contextmanager
    def _changed(self) -> Iterator[GDDSG]:
        _ = self.model  # where there is none, no lock is left behind either
        with self._locked():
            model = self.model
            self._loaded = None  # what is changed here must not be taken for the file's, should the change fail
            yield model
            self._save(model)

    # ---------------------------------------------------------------- parts

    @property
    def model(self) -> GDDSG:
        """The model as it is in the file now."""
        model = self._current()
        if model is None:
            raise ModelFileError(f"There is no model file {self.path}. Create it with learn: gddsg learn MODEL FOLDER.")
        return model

    @property
    def backbone(self) -> Backbone:
        """The backbone of the model, or the one wanted for a new model."""
        if self._backbone is None:
            self._backbone = self._suitable_backbone()
        return self._backbone

    def _suitable_backbone(self) -> Backbone:
        known = self._knowledge()
        if not known.labels:
            return load_backbone(self._wanted_backbone or DEFAULT_BACKBONE, self._device)
        name, _, fingerprint = self._identity(known).rpartition("@")
        backbone = load_backbone(name, self._device)
        if backbone.fingerprint != fingerprint:
            raise BackboneError(
                f"{self.path} was learnt with the backbone {name} of fingerprint {fingerprint}, but what is installed "
                f"under that name has {backbone.fingerprint}: other weights or preprocessing, so its features do not "
                "fit. Install the version the model was learnt with, or learn the photos into a new model file."
            )
        return backbone

    def _identity(self, known: Knowledge) -> str:
        """``name@fingerprint`` of the backbone to use: the model's, unless another was asked for or is loaded."""
        if not known.labels:
            return self.backbone.identity
        if known.backbone is None:
            raise BackboneError(
                f"{self.path} was learnt from features of an unknown backbone, so it cannot be used with photos. "
                "Learn photos into a new model file."
            )
        name, wanted = known.backbone.rpartition("@")[0], self._wanted_backbone
        if wanted is not None and PRESETS.get(wanted, wanted) != name:
            raise BackboneError(
                f"{self.path} was learnt with the backbone {name}, and {wanted} was asked for. "
                "Leave the backbone out, or learn into a new model file."
            )
        return known.backbone if self._backbone is None else self._backbone.identity

    def _current(self) -> GDDSG | None:
        """The model in the file, read again only when the file has changed; None where there is no file."""
        state = self._state()
        if state is None:
            return None
        if self._loaded is None or self._loaded[0] != state:
            self._loaded = (state, _learner().load(self.path))
        return self._loaded[1]

    def _knowledge(self) -> Knowledge:
        """What the file says about photos, without loading the model; nothing where there is no file."""
        state = self._state()
        if state is None:
            return Knowledge()
        if self._loaded is not None and self._loaded[0] == state:
            return _knowledge_of(self._loaded[1])
        if self._known is None or self._known[0] != state:
            self._known = (state, read_knowledge(self.path))
        return self._known[1]

    def _state(self) -> FileState | None:
        """What changes whenever the file does."""
        try:
            now = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ModelFileError(f"Cannot read {self.path} ({error.strerror}). Check the path.") from error
        return now.st_ino, now.st_mtime_ns, now.st_size

    def _save(self, model: GDDSG) -> None:
        """Write the model, which from then on is the one in the file. Only for who holds the lock."""
        model.save(self.path)
        state = self._state()
        self._loaded = None if state is None else (state, model)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time. The lock is a file beside the model, freed by the system even after a kill."""
        from filelock import FileLock, Timeout  # slow to import, see _learner

        if not self.path.parent.is_dir():
            raise ModelFileError(
                f"There is no folder {self.path.parent} to write {self.path.name} to. Create it first."
            )
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"))
        try:
            try:
                lock.acquire(timeout=0)
            except Timeout:
                if self._on_wait is not None:
                    self._on_wait()
                lock.acquire()
        except OSError as error:
            raise ModelFileError(
                f"Cannot write beside {self.path} ({error.strerror}). Choose an existing folder you may write to."
            ) from error
        try:
            yield
        finally:
            lock.release()


def merge_models(paths: Sequence[StrPath], into: StrPath) -> GDDSG:
    """All that several models have learnt, in one new file."""
    if Path(into).exists():
        raise DataError(f"{into} exists. Name a new file for the merged model.")
    merged = _learner().load(paths[0])
    for path in paths[1:]:
        merged.merge(_learner().load(path))
    merged.save(into)
    return merged


def _learner() -> type[GDDSG]:
    # torch and scikit-learn take seconds to import, and where no photo is new there is no need for them
    from gddsg.learners.gddsg import GDDSG

    return GDDSG


def _knowledge_of(model: GDDSG) -> Knowledge:
    labels = tuple(str(label) for label in getattr(model, "cards_", ()))
    return Knowledge(model.backbone, labels, {sample: str(label) for sample, label in model.sample_labels().items()})


def _labelled(paths: Sequence[StrPath], part: Part, case_sensitive: bool) -> PhotoListing:
    """The photos of folders and of lists together."""
    lists = [path for path in paths if Path(path).suffix.casefold() == ".csv"]
    folders = [path for path in paths if path not in lists]
    found = [listed_photos(path, part, case_sensitive=case_sensitive) for path in lists]
    if folders or not lists:
        read = read_photos if part == "train" else test_photos
        found.append(read(*folders, case_sensitive=case_sensitive))
    photos = tuple(photo for listing in found for photo in listing.photos)
    refuse_case_twins((photo.label for photo in photos), case_sensitive)
    return PhotoListing(photos, tuple(skipped for listing in found for skipped in listing.skipped))


def _labels(model: GDDSG, table: Any, features: Any, reject: float | None) -> Any:
    """What ``model.predict`` says, from probabilities that are there already."""
    labels = model.classes_[table.argmax(1)].astype(str)
    return (
        labels if reject is None else np.where(model.novelty(features) > model.novelty_limit(reject), UNKNOWN, labels)
    )


def _evaluation(model: GDDSG, embedded: EmbeddedPhotos, reject: float | None) -> PhotoEvaluation:
    from gddsg.evaluation.metrics import expected_calibration_error  # slow to import, see _learner

    names = model.classes_.astype(str)
    truth = np.array([photo.label for photo in embedded.photos])
    table = model.predict_proba(embedded.features)
    predicted = _labels(model, table, embedded.features, reject)
    labels, place = np.unique(truth, return_inverse=True)
    rejected = (predicted == UNKNOWN) & (UNKNOWN not in names)
    counts = [np.bincount(place, weights=rows) for rows in (np.ones(len(truth)), predicted == truth, rejected)]
    results = [ClassResult(str(label), *(int(count[i]) for count in counts)) for i, label in enumerate(labels)]
    wrong = Counter((str(t), str(p)) for t, p in zip(truth, predicted, strict=True) if t != p)
    confusions = sorted(((t, p, n) for (t, p), n in wrong.items()), key=lambda c: (-c[2], c[0], c[1]))
    learnt = np.isin(truth, names)
    error = expected_calibration_error(table[learnt], truth[learnt], names) if learnt.any() else float("nan")
    unlearnt = tuple(result.label for result in results if result.label not in names)
    return PhotoEvaluation(tuple(results), tuple(confusions), embedded.skipped, unlearnt, error)


def _skipped(strict: bool, *parts: Iterable[Skipped]) -> tuple[Skipped, ...]:
    """All that has to be left out, which is an error if ``strict``."""
    skipped = tuple(one for part in parts for one in part)
    if strict and skipped:
        raise DataError(f"Nothing was learnt, since {len(skipped)} files cannot be:\n{_listed(skipped)}")
    return skipped


def _counting_on(progress: Progress | None, found: Survey) -> Progress | None:
    """Progress among all photos, of which those learnt before are done."""
    done, total = len(found.old), len(found.old) + len(found.rest)
    return None if progress is None else lambda more, _: progress(done + more, total)


def _listed(skipped: Sequence[Skipped]) -> str:
    lines = [f"  {one.name}: {one.reason}" for one in skipped[:_LISTED]]
    rest = len(skipped) - len(lines)
    return "\n".join([*lines, *([f"  … and {rest} more"] if rest else [])])
