"""A classifier of photos that grows: a model file, the backbone it was learnt with, and the feature cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from gddsg.backbones import DEFAULT_BACKBONE, load_backbone
from gddsg.backbones.base import Backbone
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.data.dataset import PhotoListing, Skipped, refuse_case_twins
from gddsg.data.image_folder import read_photos, test_photos, unlabelled_photos
from gddsg.data.photo import Photo
from gddsg.data.photo_list import Part, listed_photos
from gddsg.errors import BackboneError, DataError, ModelFileError
from gddsg.evaluation import expected_calibration_error
from gddsg.learners.gddsg import GDDSG
from gddsg.photos.embedding import EmbeddedPhotos, Progress, embed_photos
from gddsg.photos.reports import ClassResult, LearnReport, PhotoEvaluation, PhotoPrediction

StrPath = str | PathLike[str]
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
        self._loaded: tuple[tuple[int, int, int], GDDSG] | None = None

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
        self._refuse_case_twins(listing.photos, case_sensitive)  # before the long work, and again when it is done
        # embedding takes long and needs no lock; what it finds is kept in the cache even if it is interrupted
        embedded = embed_photos(listing.photos, self.backbone, self.cache, progress)
        with self._locked():
            model = self._current()
            if model is None:
                model = GDDSG(backbone=self.backbone.identity, **self._settings)
            self._require_own_features(model)
            self._refuse_case_twins(listing.photos, case_sensitive)
            new, known, contradictory = _news(embedded, model)
            skipped = (*listing.skipped, *embedded.skipped, *contradictory)
            if strict and skipped:
                raise DataError(f"Nothing was learnt, since {len(skipped)} files cannot be:\n{_listed(skipped)}")
            before = set(getattr(model, "cards_", ()))
            labels = [embedded.photos[i].label for i in new]
            if new:
                self._loaded = None  # from here on the model is ahead of its file
                model.partial_fit(embedded.features[new], labels, sample_ids=[sample_id(embedded.keys[i]) for i in new])
                model.save(self.path)
            elif not self.path.exists():
                raise DataError(f"No photo could be learnt:\n{_listed(skipped)}")
        learnt = dict(sorted(Counter(labels).items()))
        newcomers = tuple(label for label in learnt if label not in before)
        return LearnReport(learnt, newcomers, known, skipped, embedded.computed)

    def _refuse_case_twins(self, photos: Iterable[Photo], case_sensitive: bool) -> None:
        known = [str(label) for label in getattr(self._current(), "cards_", ())]
        refuse_case_twins((photo.label for photo in photos), case_sensitive, known)

    def _require_own_features(self, model: GDDSG) -> None:
        """While photos were embedded another process may have put a model of another backbone in the file's place."""
        if model.backbone != self.backbone.identity:
            raise BackboneError(
                f"{self.path} is now a model of the backbone {model.backbone}, and the photos were embedded by "
                f"{self.backbone.identity}. Nothing was changed; start again."
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
        _ = self.model  # before the long work: is there one?
        embedded = embed_photos(listing.photos, self.backbone, self.cache, progress)
        self._require_own_features(self.model)
        skipped = (*listing.skipped, *embedded.skipped)
        if strict and skipped:
            raise DataError(f"{len(skipped)} files cannot be used:\n{_listed(skipped)}")
        return EmbeddedPhotos(embedded.photos, embedded.keys, embedded.features, skipped, embedded.computed)

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
            model.save(self.path)

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
        model = self._current()
        if model is None:
            return load_backbone(self._wanted_backbone or DEFAULT_BACKBONE, self._device)
        if model.backbone is None:
            raise BackboneError(
                f"{self.path} was learnt from features of an unknown backbone, so it cannot be used with photos. "
                "Learn photos into a new model file."
            )
        name, _, fingerprint = model.backbone.rpartition("@")
        if self._wanted_backbone not in (None, name):
            raise BackboneError(
                f"{self.path} was learnt with the backbone {name}, and {self._wanted_backbone} was asked for. "
                "Leave the backbone out, or learn into a new model file."
            )
        backbone = load_backbone(name, self._device)
        if backbone.fingerprint != fingerprint:
            raise BackboneError(
                f"{self.path} was learnt with the backbone {name} of fingerprint {fingerprint}, but what is installed "
                f"under that name has {backbone.fingerprint}: other weights or preprocessing, so its features do not "
                "fit. Install the version the model was learnt with, or learn the photos into a new model file."
            )
        return backbone

    def _current(self) -> GDDSG | None:
        """The model in the file, read again only when the file has changed; None where there is no file."""
        try:
            now = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ModelFileError(f"Cannot read {self.path} ({error.strerror}). Check the path.") from error
        state = (now.st_ino, now.st_mtime_ns, now.st_size)
        if self._loaded is None or self._loaded[0] != state:
            self._loaded = (state, GDDSG.load(self.path))
        return self._loaded[1]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time. The lock is a file beside the model, freed by the system even after a kill."""
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
    merged = GDDSG.load(paths[0])
    for path in paths[1:]:
        merged.merge(GDDSG.load(path))
    merged.save(into)
    return merged


def sample_id(key: bytes) -> int:
    """The first 64 bits of a photo's SHA-256: even of a billion photos hardly two would share them."""
    return int.from_bytes(key[:8], "big")


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


def _news(embedded: EmbeddedPhotos, model: GDDSG) -> tuple[list[int], int, list[Skipped]]:
    """Photos to learn, how many are known already, and those that contradict what is known or each other."""
    learnt_as = model.sample_labels()
    given_as: dict[int, set[str]] = {}
    ids = [sample_id(key) for key in embedded.keys]
    for sample, photo in zip(ids, embedded.photos, strict=True):
        given_as.setdefault(sample, set()).add(photo.label)
    new: dict[int, int] = {}
    known, contradictory = 0, []
    for i, (sample, photo) in enumerate(zip(ids, embedded.photos, strict=True)):
        others = sorted(({str(learnt_as[sample])} if sample in learnt_as else given_as[sample]) - {photo.label})
        if others:
            how = "already learnt" if sample in learnt_as else "the same photo is also given"
            contradictory.append(Skipped(photo.name, f"{how} as {', '.join(map(repr, others))}"))
        elif sample in learnt_as or sample in new:
            known += 1
        else:
            new[sample] = i
    return list(new.values()), known, contradictory


def _labels(model: GDDSG, table: Any, features: Any, reject: float | None) -> Any:
    """What ``model.predict`` says, from probabilities that are there already."""
    labels = model.classes_[table.argmax(1)].astype(str)
    return (
        labels if reject is None else np.where(model.novelty(features) > model.novelty_limit(reject), UNKNOWN, labels)
    )


def _evaluation(model: GDDSG, embedded: EmbeddedPhotos, reject: float | None) -> PhotoEvaluation:
    names = model.classes_.astype(str)
    truth = np.array([photo.label for photo in embedded.photos])
    table = model.predict_proba(embedded.features)
    predicted = _labels(model, table, embedded.features, reject)
    results = [
        ClassResult(
            label=str(label),
            photos=int((truth == label).sum()),
            correct=int((predicted[truth == label] == label).sum()),
            rejected=int((predicted[truth == label] == UNKNOWN).sum()) if UNKNOWN not in names else 0,
        )
        for label in np.unique(truth)
    ]
    wrong = Counter((str(t), str(p)) for t, p in zip(truth, predicted, strict=True) if t != p)
    confusions = sorted(((t, p, n) for (t, p), n in wrong.items()), key=lambda c: (-c[2], c[0], c[1]))
    learnt = np.isin(truth, names)
    error = expected_calibration_error(table[learnt], truth[learnt], names) if learnt.any() else float("nan")
    unlearnt = tuple(result.label for result in results if result.label not in names)
    return PhotoEvaluation(tuple(results), tuple(confusions), embedded.skipped, unlearnt, error)


def _listed(skipped: Sequence[Skipped]) -> str:
    lines = [f"  {one.name}: {one.reason}" for one in skipped[:_LISTED]]
    rest = len(skipped) - len(lines)
    return "\n".join([*lines, *([f"  … and {rest} more"] if rest else [])])
