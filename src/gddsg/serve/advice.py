"""Advice that comes from the cards: what would help, in plain sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gddsg.core.model import Model
from gddsg.serve.snapshot import Snapshot
from gddsg.wording import counted, joined

FEW_PHOTOS = 5
"""A class of fewer distinct photos is not known well."""

TOLD_OVERLAP = 0.05
"""Share of photos of two classes that may be taken for the wrong one, from which on somebody is told."""

_UNLIKELY = 0.05  # probability of its own class, below which a photo is unlike it
_LEAST_TO_COMPARE = 5  # photos of a new class among which one can stand out
_FAR = 2.0  # times the usual distance from the others
_COPIES_SHARE = 0.3
_MOST = 20  # sentences of a kind
_NAMED = 3


@dataclass(frozen=True)
class Advice:
    """A sentence, and the classes that it is about.

    Attributes
    ----------
    kind : {"overlap", "few", "unlike", "copies"}
        What it is about.
    classes : tuple of str
        Which ones.
    text : str
        For people.
    """

    kind: str
    classes: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Unlike:
    """A photo that looks unlike the class it was taught as.

    Attributes
    ----------
    name : str
        Of the photo.
    probability : float or None
        Of the class, by the model before; None where the class was new.
    """

    name: str
    probability: float | None


def give_advice(snapshot: Snapshot, unlike: Mapping[str, Sequence[str]]) -> list[Advice]:
    """What would help, the most pressing first.

    Parameters
    ----------
    snapshot : Snapshot
        The model.
    unlike : mapping of str to sequence of str
        Names of photos that looked unlike their class when they were taught, by class.
    """
    kinds = (_about_unlike(snapshot, unlike), _about_overlaps(snapshot), _about_few(snapshot), _about_copies(snapshot))
    return [one for kind in kinds for one in kind[:_MOST]]


def find_unlike(before: Model | None, name: str, names: Sequence[str], features: NDArray[np.float32]) -> list[Unlike]:
    """Photos that look unlike the class they are taught as.

    Photos of a class that the model knows are asked of the model before it learns them. Those of a new class are
    compared with each other: by the cosine to the mean of the others.

    Parameters
    ----------
    before : Model or None
        The model before it learnt them.
    name : str
        The class.
    names : sequence of str
        Of the photos.
    features : ndarray
        ``(n, feature_dim)``, of the photos.
    """
    if not len(features):
        return []
    if before is not None and name in before.cards and len(before.cards) > 1:
        column = before.labels.index(name)
        table = np.exp(before.predictor.predict_log_proba(features))
        own = table[:, column]
        far = (own < _UNLIKELY) & (table.argmax(1) != column)
        return [Unlike(names[i], float(own[i])) for i in np.flatnonzero(far).tolist()]
    if len(features) < _LEAST_TO_COMPARE:
        return []
    distances = _distances_to_others(features)
    return [Unlike(names[i], None) for i in np.flatnonzero(distances > _FAR * np.median(distances)).tolist()]


def _distances_to_others(features: NDArray[np.float32]) -> NDArray[np.float64]:
    """1 - cos of each row and the mean of all other rows, ``(n,)``."""
    rows = features.astype(np.float64)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(min=1e-12)
    others = rows.sum(0) - rows
    cosines: NDArray[np.float64] = (rows * others).sum(1) / np.linalg.norm(others, axis=1).clip(min=1e-12)
    return 1 - cosines


def _about_unlike(snapshot: Snapshot, unlike: Mapping[str, Sequence[str]]) -> list[Advice]:
    found = []
    for name, photos in unlike.items():
        if name in snapshot.cards and photos:
            look, it = ("looks", "it") if len(photos) == 1 else ("look", "they")
            listed = joined(list(photos[:_NAMED]), len(photos))
            text = f"{counted(len(photos), 'photo')} taught as {name} {look} unlike it: {listed}. Do {it} belong there?"
            found.append(Advice("unlike", (name,), text.replace("Do it belong", "Does it belong")))
    return found


def _about_overlaps(snapshot: Snapshot) -> list[Advice]:
    pairs = {
        tuple(sorted((name, one.name))): one.error
        for name in snapshot.cards
        for one in snapshot.overlaps(name)
        if one.error >= TOLD_OVERLAP
    }
    found = []
    for (a, b), error in sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0])):
        fewer = min((a, b), key=lambda name: (snapshot.cards[name].distinct, name))
        text = (
            f"{a} and {b} overlap: about 1 photo in {max(round(1 / error), 2)} may be taken for the other. "
            f"Five more photos would help, of {fewer} above all."
        )
        found.append(Advice("overlap", (a, b), text))
    return found


def _about_few(snapshot: Snapshot) -> list[Advice]:
    found = []
    for name, card in snapshot.cards.items():
        missing = FEW_PHOTOS - card.distinct
        if missing > 0:
            text = f"{name} was learnt from {counted(card.distinct, 'photo')}: {missing} more would help."
            found.append(Advice("few", (name,), text))
    return found


def _about_copies(snapshot: Snapshot) -> list[Advice]:
    found = []
    for name, card in snapshot.cards.items():
        copies = card.count - card.distinct
        if copies >= max(2, _COPIES_SHARE * card.count):
            text = (
                f"{copies} of the {card.count} photos of {name} are near copies of others and teach nothing new. "
                "Photos of other places or from other sides would help."
            )
            found.append(Advice("copies", (name,), text))
    return found
