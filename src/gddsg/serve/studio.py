"""All that the service does, without a word of HTTP."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

from gddsg.backbones.base import Backbone, available_cores
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.core.class_card import ClassCard
from gddsg.core.model import Model
from gddsg.core.once import Lazy
from gddsg.data.dataset import PhotoListing, refuse_case_twins
from gddsg.data.photo import Photo
from gddsg.errors import BackboneError, DataError, GddsgError, UnknownClassError
from gddsg.files import locked, remove_dead_replacements
from gddsg.photos.embedding import Embedder
from gddsg.photos.evaluation import evaluate_photos, find_learnt
from gddsg.photos.model_backbone import ModelBackbone
from gddsg.photos.reports import PhotoEvaluation, list_skipped
from gddsg.photos.threads import Progress
from gddsg.serve.advice import Advice, give_advice
from gddsg.serve.answers import Answer, Question, answer_features, answer_photos
from gddsg.serve.batching import Batcher
from gddsg.serve.changes import Changes
from gddsg.serve.faults import RequestError
from gddsg.serve.journal import UNDO_SECONDS, Forgotten, Journal, journal_path
from gddsg.serve.lessons import Teaching
from gddsg.serve.live_model import LARGE_FILE, LiveModel, Step
from gddsg.serve.names import checked_name
from gddsg.serve.snapshot import Snapshot
from gddsg.serve.uploads import thumbnail
from gddsg.store import SharedModel
from gddsg.store.rows_file import FORMAT_VERSION, unwritable

THUMBNAILS_SHOWN = 12
"""Of a class."""

THUMBNAILS_KEPT = 48
"""Of a class."""

_PHOTOS_AT_ONCE = 8
_ROWS_AT_ONCE = 512
_SECONDS_BETWEEN_PURGES = 5.0
_MOST_UNLIKE = 20
_log = logging.getLogger(__name__)


class Studio:
    """A classifier that people and programs teach and ask, all at the same time.

    Parameters
    ----------
    file : Path or SharedModel
        The model file, which need not exist.
    backbone, quality, device : str or None
        As of :class:`gddsg.photos.PhotoClassifier`.
    cache : FeatureCache or None
        Of features of photos that are taught; the user's, unless given.
    settings : mapping or None
        Of a new model, see :class:`gddsg.core.model.Settings`.
    keep_photos : bool
        Whether small pictures of taught photos are kept and shown.
    large_file : int
        See :data:`gddsg.serve.live_model.LARGE_FILE`.
    clock : callable
        Seconds since the epoch.
    """

    def __init__(
        self,
        file: Path | SharedModel,
        *,
        backbone: str | None = None,
        quality: str | None = None,
        device: str | None = None,
        cache: FeatureCache | None = None,
        settings: Mapping[str, Any] | None = None,
        keep_photos: bool = False,
        large_file: int = LARGE_FILE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        file = file if isinstance(file, SharedModel) else SharedModel(file)
        self.path, self.keep_photos = file.path, keep_photos
        self._clock, self._cache = clock, FeatureCache() if cache is None else cache
        self._backbone = ModelBackbone(self.path, backbone, device, None, quality)
        file.read()  # a file that cannot be used is refused before anything is made beside it
        _clear_away(self.path)
        self.journal = Journal(journal_path(self.path), clock)
        self.changes = Changes(self.journal)
        self._live = LiveModel(file, self.journal, large_file)
        self._teaching = Teaching(self._live, self._backbone, self._cache, dict(settings or {}))
        self._taught_now: set[int] = set()
        self._unlike: dict[str, list[str]] = {}
        self.purge()
        cores = available_cores()
        self.photo_batches: Batcher[Question, Answer] = Batcher(
            self._answer_photos, lambda question: question.rows, size=_PHOTOS_AT_ONCE, workers=cores
        )
        self.feature_batches: Batcher[Question, Answer] = Batcher(
            self._answer_features, lambda question: question.rows, size=_ROWS_AT_ONCE, workers=1
        )
        self._closing = threading.Event()
        self._housekeeper = threading.Thread(target=self._keep_house, name="gddsg-housekeeper", daemon=True)
        self._housekeeper.start()

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._closing.is_set()

    def close(self) -> None:
        """Finish what was begun, and close all files; once more does no harm."""
        if self.closed:
            return
        self._closing.set()
        self._housekeeper.join()
        self.photo_batches.close()
        self.feature_batches.close()
        self._live.close()
        self.journal.close()
        self._cache.close()

    # ---------------------------------------------------------------- what there is

    def current(self) -> Snapshot:
        """The model of the moment."""
        return self._live.current()

    def warm_up(self) -> None:
        """Load and compute what the first prediction would have to wait for."""
        snapshot = self.current()
        model = snapshot.answering
        if model is not None and model.backbone is not None:
            self._backbone.load(model)
            model.check_answers()

    def describe(self) -> dict[str, Any]:
        """The model as a whole."""
        snapshot = self.current()
        backbone = self._loaded(snapshot)
        identity = None if snapshot.model is None else snapshot.model.backbone
        return {
            "revision": snapshot.revision,
            "file": self.path.name,
            "classes": len(snapshot.cards),
            "photos": snapshot.photos,
            "groups": snapshot.groups,
            "edges": snapshot.edges(),
            "backbone": (identity or "").rpartition("@")[0] or None,
            "image_size": None if backbone is None else min(backbone.preprocess.shape[-2:]),
            "feature_dim": None if snapshot.model is None else snapshot.model.feature_dim,
            "bytes": self.path.stat().st_size if self.path.exists() else 0,
            "format": FORMAT_VERSION,
            "version": version("gddsg"),
            "keeps_photos": self.keep_photos,
        }

    def classes(self) -> dict[str, Any]:
        """All classes of one model, by name."""
        snapshot, shown = self.current(), self._thumbnails
        found = [self._describe_class(snapshot, name, shown) for name in snapshot.cards]
        return {"revision": snapshot.revision, "classes": found}

    def describe_class(self, name: str) -> dict[str, Any]:
        """One class.

        Parameters
        ----------
        name : str
            Of the class.
        """
        snapshot = self.current()
        return self._describe_class(snapshot, str(snapshot.label(name)), self._thumbnails)

    def _describe_class(self, snapshot: Snapshot, name: str, shown: frozenset[int]) -> dict[str, Any]:
        card = snapshot.cards[name]
        samples = [sample for sample in card.sample_ids.tolist() if sample in shown] if shown else []
        return {
            "name": name,
            "photos": card.count,
            "distinct": card.distinct,
            "group": snapshot.group_of[name],
            "thumbnails": [f"{sample:016x}" for sample in samples[:THUMBNAILS_SHOWN]],
            "overlaps": [asdict(one) for one in snapshot.overlaps(name)],
        }

    def thumbnail(self, number: str) -> bytes:
        """The small picture of that number, a JPEG.

        Parameters
        ----------
        number : str
            As :meth:`classes` gives it.
        """
        sample = int(number, 16)
        found = self.journal.thumbnail(sample) if sample in self._thumbnails else None
        if found is None:
            raise RequestError(
                404, "no_thumbnail", "There is no such picture.", "GET /v1/classes says which there are."
            )
        return found

    def advice(self) -> list[Advice]:
        """What would help."""
        return give_advice(self.current(), self._unlike)

    # ---------------------------------------------------------------- predictions

    def ask(self, question: Question) -> Future[Answer]:
        """The answer to come; questions that wait at the same time are answered together.

        Parameters
        ----------
        question : Question
            About photos or features.
        """
        return (self.photo_batches if question.features is None else self.feature_batches).ask(question)

    def _answer_photos(self, questions: Sequence[Question]) -> list[Answer]:
        snapshot = self._answering()
        assert snapshot.model is not None
        backbone = self._backbone.load(snapshot.model)
        loaded = Lazy(lambda: backbone)
        loaded()
        # without the cache: what people only ask about leaves no trace on the disk
        return answer_photos(snapshot, Embedder(backbone.fingerprint, loaded), questions)

    def _answer_features(self, questions: Sequence[Question]) -> list[Answer]:
        return answer_features(self._answering(), questions)

    def _answering(self) -> Snapshot:
        snapshot = self.current()
        if snapshot.answering is None:
            raise RequestError(
                409, "no_classes", "The model has no class yet.", "Teach one: POST /v1/classes/NAME/images."
            )
        return snapshot

    def evaluate(self, photos: Sequence[Photo], reject: float | None, progress: Progress | None) -> dict[str, Any]:
        """Accuracy on labelled photos.

        Parameters
        ----------
        photos : sequence of Photo
            With their labels.
        reject : float or None
            Share of known inputs to keep; photos less like any class are unknown.
        progress : callable or None
            Told how far the work is.
        """
        model = self._answering().model
        assert model is not None
        embedded = self._backbone.embed(PhotoListing(tuple(photos)), model, self._cache, progress)
        if not embedded.photos:
            raise DataError(f"None of the photos can be read:\n{list_skipped(embedded.skipped)}")
        learnt = find_learnt(embedded, model.label_samples(), model.label_sketches())
        return _evaluation(evaluate_photos(model.predictor, embedded, reject, learnt))

    # ---------------------------------------------------------------- changes

    def teach(self, name: str, photos: Sequence[Photo], progress: Progress | None = None) -> dict[str, Any]:
        """Learn photos of a class, which may be new; those that are known are left out.

        Parameters
        ----------
        name : str
            Of the class.
        photos : sequence of Photo
            Whatever their labels are.
        progress : callable or None
            Told how far the work is.
        """
        label = checked_name(name)
        with self._with_thumbnails() as keep:
            taught = self._teaching.teach(label, photos, progress, keep)
        self._unlike[label] = [one.name for one in taught.unlike][:_MOST_UNLIKE] or self._unlike.get(label, [])
        snapshot = self.current()
        return {
            "class": label,
            "learnt": taught.learnt,
            "known": taught.known,
            "skipped": [asdict(one) for one in taught.skipped],
            "unlike": [asdict(one) for one in taught.unlike],
            "photos": taught.photos,
            "revision": snapshot.revision,
            "created": taught.created,
        }

    def forget(self, name: str, again: bool = False) -> dict[str, Any]:
        """Forget a class; for a minute that can be undone.

        Parameters
        ----------
        name : str
            Of the class.
        again : bool
            Whether this may have been done before: then a class that is not there has been forgotten.
        """
        number = secrets.token_hex(16)

        def step(model: Model | None) -> Step:
            try:
                label = Snapshot(model).label(name)
            except UnknownClassError:
                if not again:
                    raise
                kept = [one.id for one in self.journal.forgotten(self._clock()) if one.name == name]
                return Step(model, kept[0] if kept else None)
            assert model is not None  # one that has the class
            card = model.cards[label].to_bytes()
            self.journal.keep_forgotten(Forgotten(number, name, card, self._clock()))
            return Step(model.without(label), number)

        undo = self._live.change(step)
        self._unlike.pop(name, None)
        return {"forgotten": name, "undo": undo, "undo_seconds": UNDO_SECONDS}

    def undo(self, number: str) -> dict[str, Any]:
        """Bring back a class that was forgotten less than a minute ago; one that is back already is left alone.

        Parameters
        ----------
        number : str
            As :meth:`forget` gave it.
        """
        found = [one for one in self.journal.forgotten(self._clock()) if one.id == number]
        if not found:
            raise RequestError(
                410,
                "too_late",
                "What was forgotten is gone.",
                f"Undo works for {UNDO_SECONDS} seconds; teach it again.",
            )

        def step(model: Model | None) -> Step:
            return Step(_restored(model, found[0]))

        self._live.change(step)
        return {"restored": found[0].name}

    def rename(self, old: str, new: str, again: bool = False) -> dict[str, Any]:
        """Give a class another name.

        Parameters
        ----------
        old, new : str
            The name it has, and the one it gets.
        again : bool
            Whether this may have been done before: then a class that has the new name has got it.
        """
        name = checked_name(new)

        def step(model: Model | None) -> Step:
            snapshot = Snapshot(model)
            if again and old not in snapshot.cards and name in snapshot.cards:
                return Step(model)
            label = snapshot.label(old)
            assert model is not None  # one that has the class
            refuse_case_twins([name], False, [one for one in snapshot.cards if one != old])
            return Step(model if old == name else model.renamed(label, name))

        self._live.change(step)
        if old in self._unlike:
            self._unlike[name] = self._unlike.pop(old)
        return self.describe_class(name)

    # ---------------------------------------------------------------- handing out

    def open_model(self) -> BinaryIO:
        """The model file, with all that was learnt before, open for reading: a change makes another file."""
        self._live.settle()
        if not self.path.exists():
            raise RequestError(409, "no_classes", "There is no model yet.", "Teach a class first.")
        return self.path.open("rb")

    def export_onnx(self) -> bytes:
        """The model as an ONNX network: from photos, or from features where the backbone cannot be part of it."""
        from gddsg.export import check_photo_export, export_onnx, export_photo_onnx
        from gddsg.working_folder import working_folder

        model = self._answering().model
        assert model is not None
        with working_folder() as folder:
            path = folder / "model.onnx"
            try:
                check_photo_export((model.backbone or "").rpartition("@")[0])
            except ValueError:
                export_onnx(model, path)
            else:
                export_photo_onnx(model, self._backbone.load(model), path)
            return path.read_bytes()

    # ---------------------------------------------------------------- housekeeping

    def purge(self) -> None:
        """Delete what has had its time, and pictures of photos that no class has."""
        being_taught = set(self._taught_now)  # before the model is looked at: what is not here any more is there
        kept: set[int] | None = None
        if self.keep_photos:
            model = self.current().model
            kept = being_taught | (set() if model is None else model.label_samples().keys())
            for one in self.journal.forgotten(self._clock()):
                kept |= set(ClassCard.from_bytes(one.card, 2**31 - 1).sample_ids.tolist())
        self.journal.purge(kept)
        self._thumbnails = self.journal.thumbnail_samples() if self.keep_photos else frozenset()

    def _keep_house(self) -> None:
        while not self._closing.wait(_SECONDS_BETWEEN_PURGES):
            try:
                self.purge()
            except GddsgError:  # the disk may have room again the next time
                _log.exception("What has had its time could not be deleted.")

    @contextmanager
    def _with_thumbnails(self) -> Iterator[Callable[[Mapping[int, Photo]], None] | None]:
        """What keeps small pictures of photos that are about to be learnt; None where none may be kept."""
        if not self.keep_photos:
            yield None
            return
        mine: set[int] = set()

        def keep(photos: Mapping[int, Photo]) -> None:
            some = dict(list(photos.items())[:THUMBNAILS_KEPT])
            mine.update(some)
            self._taught_now |= mine
            self.journal.add_thumbnails({sample: thumbnail(photo) for sample, photo in some.items()})

        try:
            yield keep
        finally:
            self._taught_now -= mine
            self._thumbnails = self.journal.thumbnail_samples()

    def _loaded(self, snapshot: Snapshot) -> Backbone | None:
        """The backbone of the model, where that can be had."""
        try:
            return None if snapshot.model is None else self._backbone.load(snapshot.model)
        except BackboneError:
            return None


def _clear_away(path: Path) -> None:
    """Remove what a killed process has left beside a model file: its lock goes with our own."""
    try:
        with locked(path):
            remove_dead_replacements(path)
    except OSError as error:
        raise unwritable(path, error) from error


def _restored(model: Model | None, lost: Forgotten) -> Model:
    """The model with a class that was forgotten."""
    conflict = RequestError(
        409,
        "taught_again",
        f"{lost.name!r} cannot be brought back: the class or its photos were taught again meanwhile.",
        "Forget or rename the new class first.",
    )
    if model is None:
        raise conflict
    card = ClassCard.from_bytes(lost.card, model.settings.rank)
    samples, here = set(card.sample_ids.tolist()), model.cards.get(lost.name)
    if here is not None and here.to_bytes() == lost.card:
        return model
    if here is not None or samples & model.label_samples().keys():
        raise conflict
    refuse_case_twins([lost.name], False, map(str, model.labels))
    return model.plus({lost.name: card})


def _evaluation(found: PhotoEvaluation) -> dict[str, Any]:
    return {
        "photos": found.photos,
        "accuracy": found.accuracy,
        "average_accuracy": found.average_accuracy,
        "calibration_error": _number(found.calibration_error),
        "learnt_photos": found.learnt_photos,
        "unseen_accuracy": _number(found.unseen_accuracy),
        "classes": [{**asdict(one), "accuracy": one.accuracy} for one in found.classes],
        "confusions": [{"label": a, "taken_for": b, "photos": n} for a, b, n in found.confusions],
        "unlearnt": list(found.unlearnt),
        "wrong": [asdict(one) for one in found.wrong[:1000]],
        "skipped": [asdict(one) for one in found.skipped],
    }


def _number(value: float) -> float | None:
    """JSON knows no NaN."""
    return None if value != value else value
