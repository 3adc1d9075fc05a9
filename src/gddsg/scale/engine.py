"""Learning on Ray: sources in, one change of the model file out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gddsg.backbones import load_backbone
from gddsg.backbones.base import available_cores
from gddsg.core.class_card import ClassCard
from gddsg.core.label import Label
from gddsg.core.model import Model
from gddsg.core.once import Lazy
from gddsg.data.dataset import Skipped, refuse_case_twins
from gddsg.data.photo import Photo
from gddsg.errors import BackboneError, DataError, InputError
from gddsg.photos.first_model import FirstModel, empty_model, refuse_other_settings
from gddsg.photos.learning import check_labels
from gddsg.photos.model_backbone import Loader, ModelBackbone
from gddsg.photos.reports import LearnReport, list_skipped, refuse_skipped
from gddsg.photos.threads import Progress
from gddsg.ray_session import ray_session
from gddsg.scale.checkpoints import Checkpoints, content_name, own_folder
from gddsg.scale.partial import Merger, Partial
from gddsg.scale.plan import Plan, Unit
from gddsg.scale.pool import Job, Pool, default_workers
from gddsg.scale.settling import Settled, Surveyed, settle
from gddsg.scale.sizes import Sizes
from gddsg.scale.sources import Columns, Sources, open_sources
from gddsg.scale.sources.pieces import PhotoPiece
from gddsg.scale.worker import PhotoUnit, Task
from gddsg.store import SharedModel

StrPath = str | os.PathLike[str]

_NOTHING = "Nothing was learnt, since {} cannot be"


def learn(
    path: StrPath,
    *sources: StrPath,
    address: str | None = None,
    workers: int | None = None,
    checkpoints: StrPath | None = None,
    progress: Progress | None = None,
    backbone: str | None = None,
    quality: str | None = None,
    device: str | None = None,
    settings: Mapping[str, Any] | None = None,
    strict: bool = False,
    case_sensitive: bool = False,
    columns: Columns = Columns(),  # noqa: B008  # a frozen value
    sizes: Sizes = Sizes(),  # noqa: B008
    on_wait: Callable[[], None] | None = None,
    ask: Callable[[str], bool] | None = None,
    load: Loader = load_backbone,
) -> LearnReport:
    """Learn photos or features with several workers; the model is the same whatever their number.

    The model file is changed once, at the end. A call that was killed may be repeated: it goes on from what is stored.

    Parameters
    ----------
    path : str or path-like
        Of the model file.
    *sources : str or path-like
        Folders, lists, Parquet files, tar shards and feature files, here or at an address such as ``s3://``.
    address : str or None
        Of a Ray cluster; Ray is started on this machine alone unless given.
    workers : int or None
        How many; unless given, one for every GPU, or one for every machine, where it uses all cores.
    checkpoints : str, path-like or None
        Folder for what is finished, emptied in the end; one beside the model file unless given.
    progress : callable or None
        Told how many samples are done, and of how many.
    backbone, quality, device, settings, on_wait, ask : object
        As for :class:`gddsg.photos.PhotoClassifier`.
    strict, case_sensitive : bool
        As for :meth:`gddsg.photos.PhotoClassifier.learn`.
    columns : Columns
        Of Parquet files, where they have none of the usual names.
    sizes : Sizes
        How work is cut up.
    load : callable
        Gives workers their backbone; it has to be importable on all machines.

    Examples
    --------
    >>> from gddsg import scale
    >>> scale.learn("animals.gddsg", "s3://photos/animals/", address="auto")  # doctest: +SKIP
    """
    sizes.check()
    if workers is not None and (not isinstance(workers, int) or isinstance(workers, bool) or workers < 1):
        raise InputError(f"workers={workers!r} was given; expected a whole number from 1, or None.")
    file = SharedModel(path, on_wait)
    found = open_sources(sources, sizes, columns, case_sensitive)
    wanted = ModelBackbone(file.path, backbone, device, ask, quality, load)
    with ExitStack() as held:
        setup = _Setup(file, settings or {}, sizes, _folder(file.path, checkpoints), workers, address, held, on_wait)
        setup.progress = progress
        if found.photos:
            return _Photos(setup, wanted, FirstModel(file.path, wanted, settings or {}), found).learn(
                strict, case_sensitive, device, load
            )
        return _learn_features(setup, found, case_sensitive, load)


def _folder(path: Path, checkpoints: StrPath | None) -> Path:
    return path.with_name(f".{path.name}.checkpoints") if checkpoints is None else Path(checkpoints)


@dataclass(eq=False)
class _Setup:
    """What both ways of learning need, and what has to be ended after them."""

    file: SharedModel
    settings: Mapping[str, Any]
    sizes: Sizes
    folder: Path
    workers: int | None
    address: str | None
    held: ExitStack
    on_wait: Callable[[], None] | None
    progress: Progress | None = None
    ray: Any = field(init=False)
    pool: Pool = field(init=False)
    kept: Checkpoints = field(init=False)
    computed: int = 0

    def start(self, task: Task) -> None:
        """Start Ray and the workers."""
        if not self.file.path.parent.is_dir():  # now, and not after hours
            raise InputError(
                f"There is no folder {self.file.path.parent} for the model file. Make it, or name another."
            )
        self.held.enter_context(own_folder(self.folder, self.on_wait))
        self.ray = self.held.enter_context(ray_session(self.address, available_cores()))
        self.pool = Pool(self.ray, task, self.workers or default_workers(self.ray))
        self.held.callback(self.pool.close)
        self.kept = Checkpoints(self.folder, Merger(task.settings))

    def run(self, units: Iterator[Unit], model: Model, total: int) -> Partial:
        """What comes of units."""
        progress = self.progress
        tell = None if progress is None else lambda done: progress(min(done, total), total)
        plan = Plan(self.pool, self.kept, self.sizes.units, _identity(model), tell)
        try:
            return Merger(model.settings).decode(plan.run(units, self.ray))
        finally:
            self.computed += plan.computed


def _identity(model: Model) -> str:
    """What decides, beside its content, what a unit becomes."""
    settings = model.settings
    return content_name(
        "1", settings.backbone, settings.projection_dim, settings.rank, settings.feature_transform, settings.seed
    )


# ---------------------------------------------------------------- photos


class _Photos:
    """Photos to cards: surveyed once, settled for the model that there is, embedded."""

    def __init__(self, setup: _Setup, backbone: ModelBackbone, first: FirstModel, sources: Sources) -> None:
        self._setup, self._backbone, self._first, self._sources = setup, backbone, first, sources
        self._pieces: list[PhotoPiece] = []
        self._surveyed: list[Surveyed] = []
        self._unreadable: list[Skipped] = []

    def learn(self, strict: bool, case_sensitive: bool, device: str | None, load: Loader) -> LearnReport:
        """Survey, then settle, embed and commit, once more if the model has changed meanwhile."""
        setup, pieces = self._setup, iter(self._sources.photos)
        some = [piece for piece in [next(pieces, None)] if piece is not None]
        if not some:
            raise DataError(f"No photo was found.\n{list_skipped(self._sources.skipped)}")
        new = Lazy(lambda: self._first.new(some[0].photos()))
        model = self._begin(new)
        setup.start(Task(model.settings, device, load))
        self._survey(_chained(some, pieces))
        report = None
        while report is None:
            report = self._learn(model, new, strict, case_sensitive)
            model = self._begin(new)
        return report

    def _begin(self, new: Lazy[Model]) -> Model:
        found = self._setup.file.read()
        if found is not None:
            self._backbone.require_trust(found)
        return self._first.or_successor(found, new)

    def _survey(self, pieces: Iterator[PhotoPiece]) -> None:
        found: dict[int, tuple[Surveyed, PhotoPiece, tuple[Skipped, ...]]] = {}

        def jobs() -> Iterator[Job]:
            for number, piece in enumerate(pieces):
                yield Job("survey", piece, "The reading of photos", about=(number, piece))

        for done in self._setup.pool.run(jobs()):
            number, piece = done.job.about
            surveyed, listed, skipped = done.summary
            found[number] = surveyed, listed or piece, skipped
        for number in sorted(found):
            surveyed, piece, skipped = found[number]
            self._surveyed.append(surveyed)
            self._pieces.append(piece)
            self._unreadable += skipped

    def _learn(self, model: Model, new: Lazy[Model], strict: bool, case_sensitive: bool) -> LearnReport | None:
        """None if the model has learnt or forgotten samples meanwhile."""
        settled = settle(self._surveyed, _known(model))
        check_labels(self._examples(), model, case_sensitive)
        skipped = (*self._sources.skipped, *self._unreadable, *self._contradictory(settled))
        if strict:
            refuse_skipped(skipped, _NOTHING)
        total = sum(map(len, settled.wanted))
        part = self._setup.run(self._units(settled), model, total) if total else Partial()
        skipped += part.skipped
        if strict:
            refuse_skipped(skipped, _NOTHING)
        if not part.classes and not model.cards:
            raise DataError(f"No photo could be learnt:\n{list_skipped(skipped)}")
        after = self._commit(model, _cards(part), new, case_sensitive)
        if after is None:
            return None
        self._setup.kept.clear()
        return _report(model, after, part, settled.known, skipped, self._setup.computed)

    def _commit(
        self, model: Model, cards: dict[Label, ClassCard], new: Lazy[Model], case_sensitive: bool
    ) -> Model | None:
        if not cards:
            return model
        after: list[Model] = []

        def grow(now: Model | None) -> Model | None:
            after.clear()
            current = self._first.or_successor(now, new)
            self._backbone.require_same(current, model.settings.backbone)
            check_labels(self._examples(), current, case_sensitive)
            if not _same_samples(current, model):
                return None
            after.append(current.plus(cards))
            return after[0]

        self._setup.file.change(grow)
        return after[0] if after else None

    def _examples(self) -> list[Photo]:
        """A photo of every class."""
        found: dict[str, Photo] = {}
        for piece, surveyed in zip(self._pieces, self._surveyed, strict=True):
            for label in surveyed.labels:
                found.setdefault(label, Photo(f"A photo in {piece!r:.60}", label))
        return [found[label] for label in sorted(found)]

    def _contradictory(self, settled: Settled) -> Iterator[Skipped]:
        for number, entry, reason in settled.contradictory:
            row = int(self._surveyed[number].rows[entry])
            yield Skipped(self._pieces[number].photos()[row].name, reason)

    def _units(self, settled: Settled) -> Iterator[Unit]:
        size, number = self._setup.sizes.photos, 0
        for piece, surveyed, wanted in zip(self._pieces, self._surveyed, settled.wanted, strict=True):
            for start in range(0, len(wanted), size):
                yield _photo_unit(piece, surveyed, wanted[start : start + size], number)
                number += 1


def _photo_unit(piece: PhotoPiece, surveyed: Surveyed, entries: Any, number: int) -> Unit:
    rows, samples = surveyed.rows[entries], surveyed.samples[entries]
    labels = "\0".join(surveyed.labels[code] for code in surveyed.codes[entries].tolist())
    name = f"Unit {number} of the photos"
    some, chosen = piece.some(rows)
    return Unit(
        "embed",
        PhotoUnit(some, chosen, samples, name),
        content_name(samples.astype("<u8").tobytes(), labels),
        len(samples),
        name,
    )


def _known(model: Model) -> dict[Any, Any]:
    return {label: card.sample_ids for label, card in model.cards.items()}


def _same_samples(one: Model, other: Model) -> bool:
    """Whether two models have learnt the same samples as the same classes."""
    mine, others = _known(one), _known(other)
    return mine.keys() == others.keys() and all(np.array_equal(mine[label], others[label]) for label in mine)


def _chained(some: Sequence[PhotoPiece], rest: Iterator[PhotoPiece]) -> Iterator[PhotoPiece]:
    yield from some
    yield from rest


# ---------------------------------------------------------------- features


def _learn_features(setup: _Setup, sources: Sources, case_sensitive: bool, load: Loader) -> LearnReport:
    """Features have no ids, so that nobody can tell whether they were learnt before: they are learnt."""
    path = setup.file.path

    def begin(found: Model | None) -> Model:
        if found is None:
            return empty_model(setup.settings, None)
        refuse_other_settings(path, found, setup.settings)
        if found.backbone is not None:
            raise BackboneError(
                f"{path} was learnt from photos, with the backbone {found.backbone}, and nobody knows where these "
                "features are from. Learn them into a new model file."
            )
        return found

    model = begin(setup.file.read())
    setup.start(Task(model.settings, None, load))
    units = (Unit("read", piece, content_name(piece.key), piece.rows, piece.name) for piece in sources.features)
    part = setup.run(units, model, sources.rows)
    cards = _cards(part)
    _check_features(cards, model, path)
    before, after = model, model

    def grow(now: Model | None) -> Model:
        nonlocal before, after
        before = begin(now)
        _check_features(cards, before, path)
        refuse_case_twins(map(str, cards), case_sensitive, map(str, before.labels))
        after = before.plus(cards)
        return after

    setup.file.change(grow)
    setup.kept.clear()
    return _report(before, after, part, 0, (), setup.computed)


def _check_features(cards: Mapping[Label, ClassCard], model: Model, path: Path) -> None:
    if not cards:
        raise DataError("There is no row of features in the sources.")
    widths = {card.raw.dim for card in cards.values()} | ({model.feature_dim} if model.feature_dim else set())
    if len(widths) > 1:
        known = f"{path} knows features of {model.feature_dim} numbers; " if model.feature_dim else ""
        raise DataError(f"{known}the sources have features of {sorted(map(str, widths))}. Expected one width.")
    if any(not isinstance(label, str) for label in model.labels):
        raise InputError(f"The classes of {path} are numbers, those of sources are names. Learn into a new model file.")


def _cards(part: Partial) -> dict[Label, ClassCard]:
    return {label: card for label, card in part.classes.items() if isinstance(card, ClassCard)}


def _report(
    before: Model, after: Model, part: Partial, known: int, skipped: tuple[Skipped, ...], computed: int
) -> LearnReport:
    learnt = {str(label): card.count for label, card in _cards(part).items()}
    newcomers = tuple(label for label in learnt if label not in before.cards)
    copies = {label: after.cards[label].count - after.cards[label].distinct for label in learnt}
    return LearnReport(learnt, newcomers, known, skipped, computed, {label: n for label, n in copies.items() if n})
