"""Models in files: the one place that knows how settings, labels and cards become rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from os import PathLike, fspath
from typing import Any

from gddsg.core.class_card import ClassCard
from gddsg.core.grouping import ClassGroups
from gddsg.core.label import Label
from gddsg.core.model import Model, Settings
from gddsg.errors import InputError, ModelFileError
from gddsg.store.rows_file import read_rows, write_rows


def replace_model(path: str | PathLike[str], model: Model, last_look: Callable[[], None] | None = None) -> None:
    """Write a model to ``path``, replacing what was there in one step, whoever else writes; see :func:`write_rows`."""
    header = {
        "model": "GDDSG",
        "parameters": asdict(model.settings),
        "n_features": model.feature_dim,
        "arrival_groups": [list(group) for group in model.arrival_groups],
    }
    write_rows(path, header, {_name(label): card.to_bytes() for label, card in model.cards.items()}, last_look)


def read_model(path: str | PathLike[str]) -> Model:
    """The model that :func:`gddsg.store.write_model` wrote to ``path``. Nothing in the file is ever run.

    Raises
    ------
    ModelFileError
        If there is no such file, it is not a model file, it is damaged, or a newer gddsg wrote it.
    """
    header, bodies = read_rows(path)
    try:
        return _model(header, bodies)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError | AttributeError) else str(error)
        raise ModelFileError(f"{fspath(path)} is not a GDDSG model this version can read: {reason}") from error


def _model(header: Mapping[str, Any], bodies: Mapping[str, bytes]) -> Model:
    if header["model"] != "GDDSG":
        raise InputError(f"it holds a {header['model']} model.")
    settings = Settings(**header["parameters"])
    settings.check()
    cards = {_label(name): ClassCard.from_bytes(body, settings.rank) for name, body in bodies.items()}
    sizes = {(card.raw.dim, card.projected.dim) for card in cards.values()}
    if not sizes <= {(header["n_features"], settings.projection_dim)} or len({type(label) for label in cards}) > 1:
        raise InputError("its cards do not go together.")
    return Model(settings, cards, _arrival_groups(header["arrival_groups"], settings, cards))


def _arrival_groups(groups: Any, settings: Settings, labels: Collection[Label]) -> ClassGroups:
    """Groups that hold every class once, where they depend on the order of arrival; else none."""
    if not isinstance(groups, list) or not all(isinstance(group, list) and group for group in groups):
        raise InputError("its groups are not lists of classes.")
    members = [label for group in groups for label in group]
    expected = set(labels) if settings.grouping in ("arrival", "task") else set()
    if len(members) != len(expected) or set(members) != expected:
        raise InputError("its groups are not those of its classes.")
    return tuple(tuple(group) for group in groups)


def _name(label: Label) -> str:
    return f"{type(label).__name__}:{label}"


def _label(name: str) -> Label:
    kind, _, label = name.partition(":")
    return int(label) if kind == "int" else label
