"""Models in files: the one place that knows how settings, labels and cards become rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from gddsg.core.class_card import ClassCard
from gddsg.core.coded_rows import CodedRows
from gddsg.core.discriminant import READY_CLASSES
from gddsg.core.grouping import ClassGroups
from gddsg.core.kept_predictor import pack_predictor, unpack_predictor
from gddsg.core.label import Label, checked_label
from gddsg.core.memory_limit import check_memory
from gddsg.core.model import Model, Settings
from gddsg.core.transform import View
from gddsg.errors import InputError, ModelFileError
from gddsg.files import locate
from gddsg.store.large_file import LargeFile, LargeRows, amend, give_way, open_large
from gddsg.store.row_names import PREDICTOR, card_label, card_name
from gddsg.store.rows_file import read_rows, write_rows


def replace_model(path: str | PathLike[str], model: Model, last_look: Callable[[], None] | None = None) -> Model:
    """Write a model to ``path``, replacing what was there in one step, whoever else writes; see :func:`write_rows`.

    Returns
    -------
    Model
        The same; the cards of a large one are in the file now.
    """
    if model.feature_dim is not None:
        check_memory(model.feature_dim, model.settings.projection_dim)
    for label in model.labels:
        checked_label(label)
    header = {
        "model": "GDDSG",
        "parameters": asdict(model.settings),
        "n_features": model.feature_dim,
        "arrival_groups": [list(group) for group in model.arrival_groups],
    }
    if model.derived.large:
        return _replace_large(Path(path), header, model, last_look)
    rows = {card_name(label): card.to_bytes() for label, card in model.cards.items()}
    give_way(locate(path))
    write_rows(path, header, rows | _kept_predictor(model), last_look)
    return model


def _replace_large(path: Path, header: Mapping[str, Any], model: Model, last_look: Callable[[], None] | None) -> Model:
    rows = LargeRows(model)
    if amend(path, header, rows, last_look):
        return model
    write_rows(path, header, rows, last_look, rows.index)
    file = LargeFile(path)
    cards = file.cards(model.settings.rank)
    return Model(model.settings, {k: cards[card_name(k)] for k in model.labels}, (), model.derived, file)


def _kept_predictor(model: Model) -> dict[str, bytes]:
    """The row of what answers, so that nobody has to derive it again; none where that would be too much to keep."""
    if not 0 < len(model.cards) <= READY_CLASSES or model.settings.identification != "evidence":
        return {}
    try:
        kept = pack_predictor(model.predictor)
        unpack_predictor(kept, np.array(model.labels), _no_factor, model.settings.projection_dim, model.settings.seed)
    except (ArithmeticError, RuntimeError, ValueError):  # what would be refused is not written: the cards count
        return {}
    return {PREDICTOR: kept}


def _no_factor(view: View, place: int) -> CodedRows:
    raise NotImplementedError("Nothing is asked of it.")


def read_model(path: str | PathLike[str]) -> Model:
    """The model that :func:`gddsg.store.write_model` wrote to ``path``. Nothing in the file is ever run.

    Raises
    ------
    ModelFileError
        If there is no such file, it is not a model file, it is damaged, or a newer gddsg wrote it.
    """
    large = open_large(path)
    header, bodies = (large.header, {}) if large is not None else read_rows(path)
    bodies.pop(PREDICTOR, None)  # derived from the cards, and derived again when it is needed
    try:
        return _model(header, bodies) if large is None else _large_model(large)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError | AttributeError) else str(error)
        raise ModelFileError(f"{fspath(path)} is not a GDDSG model this version can read: {reason}") from error


def _large_model(file: LargeFile) -> Model:
    settings = _settings(file.header)
    rows = file.cards(settings.rank)
    cards = {label: rows[name] for label, name in _labels(rows).items()}
    if any(card.glance.sampled for card in cards.values()):
        _check_samples(cards.values())
    some = next(iter(cards.values())).whole()
    _check_together([some], file.header["n_features"], settings)
    return Model(settings, cards, (), None, file)


def _settings(header: Mapping[str, Any]) -> Settings:
    if header["model"] != "GDDSG":
        raise InputError(f"it holds a {header['model']} model.")
    settings = Settings(**header["parameters"])
    settings.check()
    return settings


def _labels(names: Iterable[str]) -> dict[Label, str]:
    """Names of the rows of cards, by label."""
    labels = {card_label(name): name for name in names}
    if len({type(label) for label in labels}) > 1:
        raise InputError("its classes are called by numbers and by words.")
    return labels


def _model(header: Mapping[str, Any], bodies: Mapping[str, bytes]) -> Model:
    settings, labels = _settings(header), _labels(bodies)
    cards = {label: ClassCard.from_bytes(bodies[name], settings.rank) for label, name in labels.items()}
    _check_together(cards.values(), header["n_features"], settings)
    return Model(settings, cards, _arrival_groups(header["arrival_groups"], settings, cards))


def _check_together(cards: Collection[ClassCard], n_features: Any, settings: Settings) -> None:
    """Refuse cards that do not go with each other, with the header, or into the memory of the machine."""
    sizes = {(card.raw.dim, card.projected.dim) for card in cards}
    expected = {(n_features, settings.projection_dim)} if cards else set()
    rooted = settings.plain and any(card.root is not None for card in cards)
    if sizes != expected or rooted or (not cards and n_features is not None):
        raise InputError("its cards do not go together.")
    _check_samples(cards)
    for dim, width in sizes:
        check_memory(dim, width)


def _check_samples(cards: Iterable[ClassCard]) -> None:
    """Refuse cards of which two have learnt the same sample."""
    samples = np.concatenate([np.empty(0, dtype=np.uint64), *(card.sample_ids for card in cards)])
    if len(np.unique(samples)) != len(samples):
        raise InputError("a sample is in two of its classes.")


def _arrival_groups(groups: Any, settings: Settings, labels: Collection[Label]) -> ClassGroups:
    """Groups that hold every class once, where they depend on the order of arrival; else none."""
    if not isinstance(groups, list) or not all(isinstance(group, list) and group for group in groups):
        raise InputError("its groups are not lists of classes.")
    members = [label for group in groups for label in group]
    if not all(type(label) in (int, str) for label in members):
        raise InputError("its groups are not lists of classes.")
    expected = set(labels) if settings.grouping in ("arrival", "task") else set()
    if len(members) != len(expected) or set(members) != expected:
        raise InputError("its groups are not those of its classes.")
    return tuple(tuple(group) for group in groups)
