"""How right a model is about labelled photos."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gddsg.core.label import Label
from gddsg.core.near_copies import NO_SKETCHES, Sketches, has_copies, sketch_samples
from gddsg.core.predictor import Features, Floats, Predictor
from gddsg.evaluation.metrics import expected_calibration_error
from gddsg.photos.embedding import EmbeddedPhotos
from gddsg.photos.prediction import UNKNOWN, choose_labels
from gddsg.photos.reports import ClassResult, PhotoEvaluation, WrongPhoto


def evaluate_photos(
    predictor: Predictor, embedded: EmbeddedPhotos, reject: float | None, learnt: Container[int] = ()
) -> PhotoEvaluation:
    """Accuracy on labelled photos.

    Parameters
    ----------
    predictor : Predictor
        Of the model.
    embedded : EmbeddedPhotos
        At least one photo with features.
    reject : float or None
        Share of known inputs to keep; photos less like any class are unknown.
    learnt : container of int
        Sample ids of photos that the model has learnt.
    """
    logs, predicted = judge(predictor, embedded.features, reject)
    return summarise(predictor.labels.astype(str), embedded, logs, predicted, learnt)


def find_learnt(
    embedded: EmbeddedPhotos, samples: Container[int], sketches: Mapping[Label, Sketches]
) -> frozenset[int]:
    """Sample ids of the photos that a model has learnt, or near copies of which it has learnt.

    Parameters
    ----------
    embedded : EmbeddedPhotos
        The photos.
    samples : container of int
        Ids of those that were learnt.
    sketches : mapping of Label to ndarray
        Of the samples that were learnt, by class.
    """
    labels, own = np.array([photo.label for photo in embedded.photos]), sketch_samples(embedded.features)
    seen = np.array([sample in samples for sample in embedded.samples], dtype=bool)
    for label in np.unique(labels) if len(own) else ():
        rows = np.flatnonzero(labels == label)
        seen[rows] |= has_copies(own[rows], sketches.get(str(label), NO_SKETCHES))
    return frozenset(sample for sample, one in zip(embedded.samples, seen, strict=True) if one)


def judge(predictor: Predictor, features: Features, reject: float | None) -> tuple[Floats, NDArray[Any]]:
    """Log-probabilities ``(n, n_classes)`` and labels ``(n,)`` of features ``(n, feature_dim)``.

    Parameters
    ----------
    predictor : Predictor
        Of the model.
    features : ndarray
        At least one row.
    reject : float or None
        As in :func:`evaluate_photos`.
    """
    strange = None if reject is None else predictor.measure_novelty(features) > predictor.novelty_limit(reject)
    logs = predictor.predict_log_proba(features)
    return logs, choose_labels(predictor, logs, strange)


def summarise(
    names: NDArray[Any], embedded: EmbeddedPhotos, logs: Floats, predicted: NDArray[Any], learnt: Container[int] = ()
) -> PhotoEvaluation:
    """What comes of answers about labelled photos.

    Parameters
    ----------
    names : ndarray
        ``(n_classes,)``, the classes that could be answered.
    embedded : EmbeddedPhotos
        The photos.
    logs, predicted : ndarray
        As :func:`judge` gives them, a row for each photo.
    learnt : container of int
        Sample ids of photos that the model has learnt.
    """
    truth = np.array([photo.label for photo in embedded.photos])
    classes = _count_by_class(truth, predicted, (predicted == UNKNOWN) & (UNKNOWN not in names))
    right, seen = predicted == truth, np.array([sample in learnt for sample in embedded.samples])
    of_known = np.isin(truth, names)
    return PhotoEvaluation(
        classes=classes,
        confusions=_count_confusions(truth, predicted),
        skipped=embedded.skipped,
        unlearnt=tuple(result.label for result in classes if result.label not in names),
        calibration_error=(
            expected_calibration_error(np.exp(logs[of_known]), truth[of_known], names)
            if of_known.any()
            else float("nan")
        ),
        learnt_photos=int(seen.sum()),
        learnt_correct=int((seen & right).sum()),
        wrong=_list_wrong(embedded, predicted, np.exp(logs.max(1)), seen),
    )


def _list_wrong(
    embedded: EmbeddedPhotos, predicted: NDArray[Any], probabilities: Floats, seen: NDArray[np.bool_]
) -> tuple[WrongPhoto, ...]:
    """The photos that were taken for something else, the surest first."""
    wrong = [
        WrongPhoto(photo.name, photo.label, str(taken_for), float(probability), bool(learnt))
        for photo, taken_for, probability, learnt in zip(embedded.photos, predicted, probabilities, seen, strict=True)
        if photo.label != taken_for
    ]
    return tuple(sorted(wrong, key=lambda one: (-one.probability, one.name)))


def _count_by_class(
    truth: NDArray[Any], predicted: NDArray[Any], rejected: NDArray[np.bool_]
) -> tuple[ClassResult, ...]:
    labels, place = np.unique(truth, return_inverse=True)
    counts = [np.bincount(place, weights=rows) for rows in (np.ones(len(truth)), predicted == truth, rejected)]
    return tuple(ClassResult(str(label), *(int(count[i]) for count in counts)) for i, label in enumerate(labels))


def _count_confusions(truth: NDArray[Any], predicted: NDArray[Any]) -> tuple[tuple[str, str, int], ...]:
    wrong = Counter((str(t), str(p)) for t, p in zip(truth, predicted, strict=True) if t != p)
    return tuple(sorted(((t, p, n) for (t, p), n in wrong.items()), key=lambda c: (-c[2], c[0], c[1])))
