"""What a model takes photos for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gddsg.core.predictor import Features, Floats, Predictor
from gddsg.data.photo import Photo
from gddsg.photos.reports import PhotoPrediction

UNKNOWN = "unknown"


def predict_photos(
    predictor: Predictor, photos: Sequence[Photo], features: Features, top: int, reject: float | None
) -> list[PhotoPrediction]:
    """What a model takes each photo for.

    Parameters
    ----------
    predictor : Predictor
        Of the model.
    photos : sequence of Photo
        At least one.
    features : ndarray
        ``(n_photos, feature_dim)``.
    top : int
        How many classes to name; one at least.
    reject : float or None
        Share of known inputs to keep; photos less like any class are unknown.
    """
    logs, novelty = predictor.predict_log_proba(features), predictor.measure_novelty(features)
    labels = choose_labels(predictor, logs, None if reject is None else novelty > predictor.novelty_limit(reject))
    table, ranks = np.exp(logs), logs.copy()
    ranks[np.arange(len(logs)), predictor.best_columns(logs)] = np.inf  # of twins, the one that the label names
    best = np.argsort(-ranks, axis=1, kind="stable")[:, : max(top, 1)]
    return [
        PhotoPrediction(
            name=photo.name,
            label=str(labels[i]),
            probability=float(table[i, best[i, 0]]),
            top=tuple((str(predictor.labels[c]), float(table[i, c])) for c in best[i]),
            novelty=float(novelty[i]),
        )
        for i, photo in enumerate(photos)
    ]


def choose_labels(predictor: Predictor, logs: Floats, strange: NDArray[np.bool_] | None) -> NDArray[Any]:
    """The likeliest class of each row, as text.

    Parameters
    ----------
    predictor : Predictor
        Of the model.
    logs : ndarray
        ``(n, n_classes)``, its log-probabilities.
    strange : ndarray or None
        ``(n,)``, rows that are like no class and get the word for unknown.
    """
    labels = predictor.labels[predictor.best_columns(logs)].astype(str)
    return labels if strange is None else np.where(strange, UNKNOWN, labels)
