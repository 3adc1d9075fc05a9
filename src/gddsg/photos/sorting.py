"""Which photos are new to a model, which it knows, and which contradict it or each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gddsg.core.label import Label
from gddsg.data.dataset import Skipped
from gddsg.photos.embedding import EmbeddedPhotos


@dataclass(frozen=True)
class SortedPhotos:
    """Photos sorted by what a model knows of them.

    Attributes
    ----------
    new : tuple of int
        Rows of the embedded photos that can be learnt, no photo twice.
    without_features : int
        Photos that could be learnt if they had features; they have none, since they were known when the others were
        embedded, and have been forgotten since.
    known : int
        How many the model has learnt under their label, or come twice.
    skipped : tuple of Skipped
        What could not be read before, and photos that were learnt under another label or are given under two.
    """

    new: tuple[int, ...]
    without_features: int
    known: int
    skipped: tuple[Skipped, ...]


def sort_photos(embedded: EmbeddedPhotos, label_of: Mapping[int, Label]) -> SortedPhotos:
    """Sort photos by what a model knows.

    Parameters
    ----------
    embedded : EmbeddedPhotos
        The photos, those without features too.
    label_of : mapping of int to Label
        Label by sample id, of all that the model has learnt.
    """
    photos = [*zip(embedded.photos, embedded.samples, strict=True), *embedded.known]
    given_as: dict[int, set[Label]] = {}
    for photo, sample in photos:
        given_as.setdefault(sample, set()).add(photo.label)
    place_of: dict[int, int] = {}  # of new samples
    known, contradictory = 0, []
    for place, (photo, sample) in enumerate(photos):
        learnt = sample in label_of
        others = sorted(map(repr, ({label_of[sample]} if learnt else given_as[sample]) - {photo.label}))
        if others:
            how = "already learnt" if learnt else "the same photo is also given"
            contradictory.append(Skipped(photo.name, f"{how} as {', '.join(others)}"))
        elif learnt or sample in place_of:
            known += 1
        else:
            place_of[sample] = place
    new = tuple(place for place in place_of.values() if place < len(embedded.photos))
    return SortedPhotos(new, len(place_of) - len(new), known, (*embedded.skipped, *contradictory))
