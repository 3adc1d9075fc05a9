"""A model under differential privacy, of the features of one place."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np

from gddsg.core.model import Model, Settings
from gddsg.core.privacy import private_cards
from gddsg.core.privacy_spending import noise_multiplier
from gddsg.data import feature_file
from gddsg.errors import DataError
from gddsg.store import SharedModel


@dataclass(frozen=True)
class PrivateReport:
    """What was released.

    Attributes
    ----------
    samples, classes : int
        How many.
    epsilon, delta : float
        What was spent of the privacy of each sample.
    noise_multiplier : float
        Of the release, to add up several by :func:`gddsg.core.privacy_spending.spent_epsilon`.
    clipped : float
        Share of the samples that were shortened; told to whoever has the samples, and written nowhere.
    """

    samples: int
    classes: int
    epsilon: float
    delta: float
    noise_multiplier: float
    clipped: float


def learn_privately(
    features: str | PathLike[str],
    into: str | PathLike[str],
    *,
    epsilon: float,
    delta: float,
    clip: float,
    backbone: str | None = None,
    generator: np.random.Generator | None = None,
) -> PrivateReport:
    """A new model file of noisy cards of the training samples of a feature file.

    Parameters
    ----------
    features : str or path-like
        Feature file.
    into : str or path-like
        Of the new model.
    epsilon, delta : float
        What to spend.
    clip : float
        See :func:`gddsg.core.privacy.private_cards`.
    backbone : str or None
        ``name@fingerprint`` of what made the features, so that the model can look at photos.
    generator : numpy.random.Generator or None
        Draws the noise; its seed has to stay secret.

    Returns
    -------
    PrivateReport
        What was spent.
    """
    data, multiplier = feature_file(features), noise_multiplier(epsilon, delta)
    labels = [data.classes[label] for label in data.train_labels.tolist()]
    rows = data.train_features
    cards = private_cards(rows, labels, clip=clip, noise_multiplier=multiplier, generator=generator)
    model = Model(Settings(projection_dim=0, feature_transform="none", backbone=backbone)).plus(cards)

    def put(before: Model | None) -> Model:
        if before is not None:
            raise DataError(f"{into} exists. Name a new file: noisy cards would be added to what it holds.")
        return model

    SharedModel(into).change(put)
    share = float((np.linalg.norm(rows, axis=1) > clip).mean())
    return PrivateReport(len(rows), len(cards), epsilon, delta, multiplier, share)
