"""What one model answers to several requests at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gddsg.core.explanation import Explanation, explain
from gddsg.core.feature_range import usable_features
from gddsg.core.predictor import Features
from gddsg.data.dataset import Skipped
from gddsg.data.photo import Photo
from gddsg.errors import InputError
from gddsg.photos.embedding import Embedder
from gddsg.photos.prediction import UNKNOWN, predict_photos
from gddsg.photos.reports import PhotoPrediction
from gddsg.serve.snapshot import Snapshot

MOST_TOP = 20
"""Classes that an answer names at most."""


@dataclass(frozen=True)
class Question:
    """What a request wants to know.

    Attributes
    ----------
    photos : tuple of Photo
        That it is about; or else
    features : ndarray or None
        ``(n, feature_dim)`` float32.
    top : int
        How many classes to name.
    reject : float or None
        Share of known inputs to keep; what is less like any class is unknown.
    why : bool
        Whether to say why.
    """

    photos: tuple[Photo, ...] = ()
    features: Features | None = None
    top: int = 5
    reject: float | None = None
    why: bool = False

    @property
    def rows(self) -> int:
        """Inputs that it is about."""
        return len(self.photos) if self.features is None else len(self.features)


@dataclass(frozen=True)
class Answer:
    """What a request is told.

    Attributes
    ----------
    revision : str
        Of the one model that answered.
    predictions : tuple of PhotoPrediction
        One an input that could be used.
    groups : tuple of int
        The group of the likeliest class of each.
    reasons : tuple of Explanation
        Of each, where they are wanted.
    skipped : tuple of Skipped
        Photos that could not be used, and why.
    """

    revision: str
    predictions: tuple[PhotoPrediction, ...]
    groups: tuple[int, ...]
    reasons: tuple[Explanation, ...]
    skipped: tuple[Skipped, ...]


def answer_photos(snapshot: Snapshot, embedder: Embedder, questions: Sequence[Question]) -> list[Answer]:
    """Answers to questions about photos; each photo that cannot be used is left out by itself.

    Parameters
    ----------
    snapshot : Snapshot
        With a model that can answer.
    embedder : Embedder
        Of its backbone.
    questions : sequence of Question
        At least one.
    """
    # names of photos need not differ, places do
    owners = [(place, photo) for place, question in enumerate(questions) for photo in question.photos]
    embedded = embedder.embed([replace(photo, name=str(i)) for i, (_, photo) in enumerate(owners)])
    features = usable_features(embedded.features) if embedded.photos else embedded.features
    rows = [int(photo.name) for photo in embedded.photos]
    skipped: list[list[Skipped]] = [[] for _ in questions]
    for one in embedded.skipped:
        place, photo = owners[int(one.name)]
        skipped[place].append(Skipped(photo.name, one.reason))
    whose = np.array([owners[row][0] for row in rows], dtype=np.intp)
    found = _predict(snapshot, [owners[row][1] for row in rows], features, questions)
    answers = []
    for place, question in enumerate(questions):
        own = np.flatnonzero(whose == place)
        answers.append(_answer(snapshot, question, [found[i] for i in own], features[own], skipped[place]))
    return answers


def answer_features(snapshot: Snapshot, questions: Sequence[Question]) -> list[Answer]:
    """Answers to questions about features, all asked in one go.

    Parameters
    ----------
    snapshot : Snapshot
        With a model that can answer.
    questions : sequence of Question
        At least one.
    """
    parts = [checked_features(question.features, snapshot) for question in questions]
    photos = [Photo(f"row {row + 1}") for part in parts for row in range(len(part))]
    found = iter(_predict(snapshot, photos, np.concatenate(parts), questions))
    return [
        _answer(snapshot, question, [next(found) for _ in part], part, [])
        for question, part in zip(questions, parts, strict=True)
    ]


def checked_features(features: Any, snapshot: Snapshot) -> Features:
    """Features that a model can use, or an :class:`InputError`.

    Parameters
    ----------
    features : ndarray
        ``(n, feature_dim)``.
    snapshot : Snapshot
        With the model.
    """
    wanted = None if snapshot.model is None else snapshot.model.feature_dim
    if features.ndim != 2 or not len(features) or features.shape[1] != wanted:
        raise InputError(f"Features of shape {features.shape} were given; expected (n, {wanted}), one row an input.")
    return usable_features(features)


def _predict(
    snapshot: Snapshot, photos: Sequence[Photo], features: Features, questions: Sequence[Question]
) -> list[PhotoPrediction]:
    """All rows by one call, with as many classes as any question wants."""
    if not photos or snapshot.model is None:
        return []
    return predict_photos(snapshot.model.predictor, photos, features, max(one.top for one in questions), None)


def _answer(
    snapshot: Snapshot,
    question: Question,
    found: list[PhotoPrediction],
    features: Features,
    skipped: list[Skipped],
) -> Answer:
    model = snapshot.model
    assert model is not None  # one that cannot answer is never asked
    limit = None if question.reject is None else model.predictor.novelty_limit(question.reject)
    groups = tuple(snapshot.group_of[one.top[0][0]] for one in found)
    own = tuple(
        replace(
            one, top=one.top[: question.top], label=UNKNOWN if limit is not None and one.novelty > limit else one.label
        )
        for one in found
    )
    reasons: tuple[Explanation, ...] = ()
    if question.why:
        reasons = tuple(
            explain(model.predictor, snapshot.graph, model.groups, features[i : i + 1]) for i in range(len(found))
        )
    return Answer(snapshot.revision, own, groups, reasons, tuple(skipped))
