"""What answers, straight from a model file: no card is decoded, nothing derived, and torch is not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from typing import Any

import numpy as np

from gddsg.core.card_format import MALFORMED, Array, unpack
from gddsg.core.coded_rows import CodedRows
from gddsg.core.kept_predictor import unpack_predictor
from gddsg.core.label import Label
from gddsg.core.near_copies import NO_SKETCHES, Sketches, count_distinct
from gddsg.core.predictor import Predictor
from gddsg.core.transform import View
from gddsg.errors import InputError, ModelFileError
from gddsg.store.row_names import PREDICTOR, card_label
from gddsg.store.rows_file import LARGE_VERSION, file_version, read_rows

_NO_IDS = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Answers:
    """All of a model that predictions take.

    Attributes
    ----------
    backbone : str or None
        What made the features, see :class:`gddsg.core.model.Settings`.
    feature_dim : int
        Width of the features.
    predictor : Predictor
        What answers.
    cards : tuple of bytes
        Of the classes, in the order of the predictor's labels.
    """

    backbone: str | None
    feature_dim: int
    predictor: Predictor
    cards: tuple[bytes, ...]

    def label_samples(self) -> dict[int, Label]:
        """Label by sample id, of all samples that were learnt with one."""
        labels = self.predictor.labels.tolist()
        ids = [_unpacked(card)[1].get("sample_ids", _NO_IDS) for card in self.cards]
        return {sample: label for label, own in zip(labels, ids, strict=True) for sample in own.tolist()}

    def label_sketches(self) -> dict[Label, Sketches]:
        """Sketches of the samples that were learnt with an id, by label; see :mod:`gddsg.core.near_copies`."""
        own = [_sketches(*_unpacked(card)) for card in self.cards]
        return dict(zip(self.predictor.labels.tolist(), own, strict=True))


def read_answers(path: str | PathLike[str]) -> Answers | None:
    """What answers, as the file keeps it; None where it has to be derived from the cards.

    Every bit of the file is compared with its digest, those of the cards too, as when the model is read.

    Parameters
    ----------
    path : str or path-like
        Of a model file.

    Raises
    ------
    ModelFileError
        If there is no such file, it is not a model file, it is damaged, or a newer gddsg wrote it.
    """
    if file_version(path) == LARGE_VERSION:  # its cards stay in the file, and the model answers
        return None
    header, bodies = read_rows(path)
    kept = bodies.pop(PREDICTOR, None)
    if kept is None or header.get("model") != "GDDSG":  # what is wrong with it, reading the model tells
        return None
    try:
        return _answers(header, bodies, kept)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{fspath(path)} is not a GDDSG model this version can read: {error}") from error


def _answers(header: Mapping[str, Any], bodies: Mapping[str, bytes], kept: bytes) -> Answers | None:
    rows, settings = {card_label(name): body for name, body in bodies.items()}, header["parameters"]
    labels, backbone = sorted(rows), settings["backbone"]
    cards = tuple(rows[label] for label in labels)
    predictor = unpack_predictor(
        kept, np.array(labels), partial(_factor, cards), settings["projection_dim"], settings["seed"]
    )
    if predictor is None:
        return None
    if not isinstance(backbone, str | None):
        raise InputError("its backbone is no name.")
    return Answers(backbone, predictor.feature_dim, predictor, cards)


def _factor(cards: Sequence[bytes], view: View, place: int) -> CodedRows:
    """Of the class in that place, in the view of the predictor."""
    scalars, arrays = _unpacked(cards[place])
    try:
        rows, count = CodedRows(arrays[f"{view}.codes"], arrays[f"{view}.scales"]), scalars["raw.count"]
        return rows.thinned(count, count_distinct(count, _sketches(scalars, arrays)))
    except KeyError as error:
        raise ModelFileError(f"A card of this model lacks its {error}. Do not use the file.") from error


def _sketches(scalars: Mapping[str, Any], arrays: Mapping[str, Array]) -> Sketches:
    """Those of a card, if they can be."""
    found, count = arrays.get("sketches", NO_SKETCHES), scalars.get("raw.count")
    right = found.dtype == np.uint64 and found.shape == (len(found), 2)
    if not right or type(count) is not int or not max(len(found), 1) <= count:
        raise ModelFileError("A card of this model is damaged (its sketches are none). Do not use the file.")
    return found


def _unpacked(card: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        return unpack(card)
    except MALFORMED as error:  # of a forged card: damage would have shown in its digest
        raise ModelFileError(f"A card of this model is damaged ({error}). Do not use the file.") from error
