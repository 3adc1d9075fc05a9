"""A photo that was learnt under the wrong class moves to another.

A card is sums and low-rank factors, from which no sample can be taken out. So the class that the photo was in is learnt
again from its other photos, whose features have to be found: in the cache, or by the photos themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from gddsg.backbones.base import Array
from gddsg.core.label import Label
from gddsg.core.model import Model
from gddsg.errors import DataError


@dataclass(frozen=True)
class AllBut:
    """A container of every sample but some."""

    samples: Collection[int]

    def __contains__(self, sample: object) -> bool:
        return sample not in self.samples


def find_class(model: Model, sample: int, name: str) -> Label:
    """The class that a photo was learnt under.

    Parameters
    ----------
    model : Model
        That has learnt it.
    sample : int
        Sample id of the photo.
    name : str
        What messages call it.
    """
    for label, card in model.cards.items():
        if sample in card.sample_ids:
            return label
    raise DataError(
        f"The model has not learnt {name!r}, so there is nothing to correct. To teach it this photo, put it into a "
        "folder named after its class and call learn; if it was learnt in another version (resized, saved again), name "
        "that file."
    )


def list_samples(model: Model, label: Label) -> frozenset[int]:
    """Ids of all samples of a class.

    Parameters
    ----------
    model : Model
        That knows the class.
    label : Label
        The class.
    """
    card = model.cards[label]
    if card.count != len(card.sample_ids):
        raise DataError(
            f"Of the {card.count} samples of {str(label)!r}, {card.count - len(card.sample_ids)} were learnt from bare "
            "features, without photos that could be looked up, so the class cannot be learnt again. Nothing was "
            "changed. Forget the class and learn it anew."
        )
    return frozenset(card.sample_ids.tolist())


def refuse_missing(samples: Collection[int], features: Mapping[int, Array], label: Label, folders: int) -> None:
    """Raise a :class:`DataError` that says how many photos are missing, if any.

    Parameters
    ----------
    samples : collection of int
        All that are needed.
    features : mapping of int to ndarray
        Those that were found, by sample id.
    label : Label
        Of their class.
    folders : int
        In how many folders photos were looked for.
    """
    missing = len(set(samples) - features.keys())
    if missing:
        looked = f"the feature cache and {folders} folder{'s' * (folders > 1)}" if folders else "the feature cache"
        raise DataError(
            f"To take a photo out of {str(label)!r}, the class has to be learnt again from its other photos "
            f"({len(samples) - 1}), and {missing} cannot be found in {looked}. Nothing was changed. Name the folders "
            f"where the photos of {str(label)!r} are: --photos FOLDER, or in Python photos=[...]."
        )


def correct_model(model: Model, sample: int, old: Label, new: Label, features: Mapping[int, Array]) -> Model:
    """The model in which a photo belongs to another class.

    Parameters
    ----------
    model : Model
        The one before.
    sample : int
        Sample id of the photo.
    old, new : Label
        The class it is in, and the one it belongs to.
    features : mapping of int to ndarray
        Features ``(feature_dim,)`` of all samples of the old class, by sample id.
    """
    blank = Model(model.settings)
    others = sorted(features.keys() - {sample})
    if others:
        rows = torch.from_numpy(np.stack([features[one] for one in others]))
        made = blank.make_cards(rows, [old] * len(others), np.array(others, dtype=np.uint64))
        model = model.relearnt(old, made[old])
    moved = blank.make_cards(torch.from_numpy(features[sample][None]), [new], np.array([sample], dtype=np.uint64))
    grown = model.plus(moved)
    return grown if others else grown.without(old)
