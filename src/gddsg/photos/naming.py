"""Names that a class of photos cannot get. Models that have such a class from before keep it, and predict with it."""

from __future__ import annotations

from collections.abc import Container, Sequence

from gddsg.core.label import Label
from gddsg.data.dataset import clean_label
from gddsg.data.photo import Photo
from gddsg.errors import DataError
from gddsg.photos.prediction import UNKNOWN


def refuse_new_class(photos: Sequence[Photo], known: Container[Label]) -> None:
    """Refuse photos of a class that a model does not have and cannot get.

    Parameters
    ----------
    photos : sequence of Photo
        With their labels.
    known : container of Label
        The classes that the model has.
    """
    for photo in photos:
        fault = "" if photo.label in known else _fault(photo.label)
        if fault:
            raise DataError(
                f"{photo.name} is of a class with {fault}. Rename its folder, or its label in the list, or learn the "
                "folders of the other classes one by one."
            )


def refuse_new_name(old: str, new: str) -> None:
    """Refuse a new name that a class cannot get.

    Parameters
    ----------
    old, new : str
        The name that the class has, and the one that it would get.
    """
    fault = _fault(new)
    if fault:
        raise DataError(f"The class {old!r} cannot be given {fault}. Choose another name, such as {old + ' 2'!r}.")


def _fault(name: str) -> str:
    if not clean_label(name):
        return "an empty name"
    if name == UNKNOWN:
        return f"the name {UNKNOWN!r}, which is kept for photos that are like no class"
    return ""
