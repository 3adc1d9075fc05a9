"""What a worker does. It knows nothing of Ray: an object with methods, each of which returns a summary and a result."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gddsg.backbones.base import Backbone, available_cores, share_cores
from gddsg.core.class_card import SampleIds
from gddsg.core.feature_range import usable_features
from gddsg.core.model import Settings
from gddsg.core.once import Lazy
from gddsg.data.dataset import Skipped
from gddsg.data.photo import Photo
from gddsg.errors import BackboneError, DataError, InputError
from gddsg.photos.embedding import Embedder
from gddsg.photos.model_backbone import Loader
from gddsg.scale.partial import Merger, Partial
from gddsg.scale.settling import Rows, Surveyed
from gddsg.scale.sources.pieces import FeaturePiece, PhotoPiece


class _Everything(Container[int]):
    def __contains__(self, sample: object) -> bool:
        return True


@dataclass(frozen=True)
class Task:
    """What all workers of a run have in common.

    Attributes
    ----------
    settings : Settings
        Of the model.
    device : str or None
        Of the backbone.
    load : callable
        Gives it.
    """

    settings: Settings
    device: str | None
    load: Loader


@dataclass(frozen=True, eq=False)
class PhotoUnit:
    """Photos to be embedded.

    Attributes
    ----------
    piece : PhotoPiece
        Where they are.
    rows : ndarray or None
        Which of its photos; None for all.
    samples : ndarray
        ``(n,)`` uint64, what they were when they were surveyed.
    name : str
        For messages.
    """

    piece: PhotoPiece
    rows: Rows | None
    samples: SampleIds
    name: str

    def photos(self) -> Sequence[Photo]:
        """The photos themselves."""
        photos = self.piece.photos()
        return photos if self.rows is None else [photos[row] for row in self.rows.tolist()]


class Worker:
    """Surveys, embeds and merges.

    Parameters
    ----------
    task : Task
        What it works for.
    cores : int or None
        It may use; all of this machine unless given.
    """

    def __init__(self, task: Task, cores: int | None) -> None:
        import torch

        share_cores(cores or available_cores())
        torch.set_num_threads(available_cores())
        self._merger, self._task = Merger(task.settings), task
        self._backbone: Lazy[Backbone] = Lazy(self._load)

    def survey(self, piece: PhotoPiece) -> tuple[tuple[Surveyed, PhotoPiece | None, tuple[Skipped, ...]], None]:
        """Read and hash photos."""
        photos = piece.photos()
        found = Embedder("", Lazy(_never)).embed(photos, known=_Everything())
        place = {id(photo): row for row, photo in enumerate(photos)}
        labels = sorted({photo.label for photo, _ in found.known})
        code = {label: number for number, label in enumerate(labels)}
        surveyed = Surveyed(
            np.array([place[id(photo)] for photo, _ in found.known], dtype=np.intp),
            np.array([sample for _, sample in found.known], dtype=np.uint64),
            tuple(labels),
            np.array([code[photo.label] for photo, _ in found.known], dtype=np.intp),
        )
        listed = piece.listed(photos)
        return (surveyed, None if listed is piece else listed, found.skipped), None

    def embed(self, unit: PhotoUnit) -> tuple[int, Partial]:
        """Embed photos."""
        fingerprint = str(self._task.settings.backbone).rpartition("@")[2]
        photos = unit.photos()
        found = Embedder(fingerprint, self._backbone).embed(photos)
        expected = {id(photo): sample for photo, sample in zip(photos, unit.samples.tolist(), strict=True)}
        same = [row for row, one in enumerate(found.photos) if expected[id(one)] == found.samples[row]]
        kept = set(same)
        changed = [
            Skipped(one.name, "it has changed while it was being learnt")
            for row, one in enumerate(found.photos)
            if row not in kept
        ]
        features = usable_features(found.features[same]) if same else found.features[:0]
        labels, samples = [found.photos[row].label for row in same], [found.samples[row] for row in same]
        part = self._merger.partial(features, labels, np.array(samples, np.uint64), (*found.skipped, *changed))
        return found.computed, part

    def read(self, piece: FeaturePiece) -> tuple[int, Partial]:
        """Read features."""
        features, labels = piece.read()
        if not len(labels):
            return 0, Partial()
        try:
            features = usable_features(features)
        except InputError as error:
            raise DataError(f"{piece.name}: {_about_rows(error)}") from error
        return len(labels), self._merger.partial(features, labels, None)

    def merge(self, given: Sequence[Any], get: Callable[[Any], Any]) -> tuple[None, Any]:
        """Merge partials, stored or not, one after the other, and store the result."""
        parts = (self._part(get(one)) for one in given)
        return None, np.frombuffer(self._merger.encode(self._merger.merge_all(parts)), np.uint8)

    def finish(self, given: Sequence[Any], get: Callable[[Any], Any]) -> tuple[None, Any]:
        """Merge likewise, and give a card for every class."""
        part = self._merger.merge_all(self._part(get(one)) for one in given)
        return None, np.frombuffer(self._merger.encode(self._merger.finished(part)), np.uint8)

    def pid(self) -> tuple[int, None]:
        """Of its process."""
        return os.getpid(), None

    def _part(self, one: Any) -> Partial:
        return one if isinstance(one, Partial) else self._merger.decode(memoryview(one).tobytes())

    def _load(self) -> Backbone:
        name, _, fingerprint = str(self._task.settings.backbone).rpartition("@")
        backbone = self._task.load(name, self._task.device)
        if backbone.fingerprint != fingerprint:
            raise BackboneError(
                f"The backbone {name} has the fingerprint {backbone.fingerprint} on a worker, and {fingerprint} where "
                "the run was started. Install the same version of it on all machines."
            )
        return backbone


def _never() -> Backbone:
    raise AssertionError("a survey embeds nothing")


def _about_rows(error: InputError) -> str:
    return str(error).partition(" Look at the backbone")[0]
