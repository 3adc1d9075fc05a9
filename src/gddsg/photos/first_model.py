"""The model that learning begins with: the one in the file, or an empty one with the settings that are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gddsg.core.model import Model, Settings
from gddsg.core.once import Lazy
from gddsg.data.photo import Photo
from gddsg.errors import InputError
from gddsg.photos.model_backbone import ModelBackbone


class FirstModel:
    """What photos are learnt on top of, whoever does it.

    Parameters
    ----------
    path : Path
        Of the model file, for messages.
    backbone : ModelBackbone
        Of the model in it.
    settings : mapping
        Of a new model, see :class:`gddsg.core.model.Settings`.
    """

    def __init__(self, path: Path, backbone: ModelBackbone, settings: Mapping[str, Any]) -> None:
        self._path, self._backbone, self._settings = path, backbone, settings

    def or_successor(self, model: Model | None, new: Lazy[Model]) -> Model:
        """The model in the file, or an empty one to begin with; either goes with the backbone.

        Parameters
        ----------
        model : Model or None
            The one in the file.
        new : Lazy of Model
            The one to begin with.
        """
        if model is None:
            return new()
        refuse_other_settings(self._path, model, self._settings)
        return model.of_backbone(self._backbone.identify(model))

    def new(self, photos: Sequence[Photo]) -> Model:
        """An empty model, whose backbone is loaded.

        Parameters
        ----------
        photos : sequence of Photo
            The first that it will learn.
        """
        return empty_model(self._settings, self._backbone.load_new(photos).identity)


def empty_model(settings: Mapping[str, Any], backbone: str | None) -> Model:
    """A model that has learnt nothing, if its settings make sense.

    Parameters
    ----------
    settings : mapping
        See :class:`gddsg.core.model.Settings`.
    backbone : str or None
        What makes the features.
    """
    checked = Settings(**settings, backbone=backbone)
    checked.check()
    return Model(checked)


def refuse_other_settings(path: Path, model: Model, settings: Mapping[str, Any]) -> None:
    """Settings are chosen for a new model; who asks for others later would not get them.

    Parameters
    ----------
    path : Path
        Of the model file.
    model : Model
        The model in it.
    settings : mapping
        What is asked for.
    """
    for name, wanted in settings.items():
        found = getattr(model.settings, name, None)
        if found != wanted:
            raise InputError(
                f"{path} was made with {name}={found!r}, and {name}={wanted!r} was asked for. That "
                "cannot be changed later: leave it out, or learn into a new model file."
            )
