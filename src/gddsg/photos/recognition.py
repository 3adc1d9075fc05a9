"""Which photos a model has learnt before: told by their content, without a network.

Nothing here needs torch, which takes seconds to import: a second call with the same photos is over before that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike

from gddsg.backbones.base import available_cores
from gddsg.core.card_format import MALFORMED, packed_sample_ids
from gddsg.data.dataset import Skipped
from gddsg.data.photo import Photo, content_key
from gddsg.errors import ModelFileError, PhotoError
from gddsg.photos.threads import READ_AT_ONCE, Progress, in_parts, tell_sometimes
from gddsg.store.model_file import read_model


@dataclass(frozen=True)
class Knowledge:
    """What a model says about photos.

    Attributes
    ----------
    backbone : ``name@fingerprint``, or None where the model was learnt from features of unknown origin.
    labels : of its classes.
    learnt_as : label by sample id.
    """

    backbone: str | None = None
    labels: tuple[str, ...] = ()
    learnt_as: Mapping[int, str] = field(default_factory=dict)


def read_knowledge(path: str | PathLike[str]) -> Knowledge:
    """The knowledge in a model file."""
    header, cards = read_model(path)
    try:
        if header["model"] != "GDDSG":
            raise ValueError(f"it holds a {header['model']} model")
        label_of = {name: name.partition(":")[2] for name in cards}
        learnt_as = {sample: label_of[name] for name, body in cards.items() for sample in packed_sample_ids(body)}
        return Knowledge(header["parameters"]["backbone"], tuple(label_of.values()), learnt_as)
    except MALFORMED as error:
        raise ModelFileError(f"{path} is not a GDDSG model this version can read: {error}.") from error


@dataclass(frozen=True)
class Reading:
    """A photo and its sample id, or why it cannot be read."""

    photo: Photo
    sample: int = 0
    trouble: str = ""


def sample_id(key: bytes) -> int:
    """The first 64 bits of a photo's SHA-256: even of a billion photos hardly two would share them."""
    return int.from_bytes(key[:8], "big")


def trouble_with(photo: Photo, error: PhotoError) -> str:
    """What is wrong with a photo, without its name."""
    return str(error).removeprefix(f"{photo.name}: ")


def undecodable(photo: Photo) -> str:
    """Why a photo cannot be decoded; empty if it can."""
    try:
        photo.image(photo.read(), at_least=1)  # as small as it comes: what the picture shows does not matter here
    except PhotoError as error:
        return trouble_with(photo, error)
    return ""


@dataclass(frozen=True)
class Survey:
    """Photos that a model has learnt, under whatever label, and the rest."""

    old: list[Reading]
    rest: list[Reading]


def survey(photos: Sequence[Photo], learnt_as: Mapping[int, str], progress: Progress | None = None) -> Survey:
    """Read photos and find those that were learnt before; ``progress`` counts these."""
    if not learnt_as:  # then there is no need to read them now
        return Survey([], [Reading(photo) for photo in photos])
    old: list[Reading] = []
    rest: list[Reading] = []
    for reading in in_parts(_read_all, photos, READ_AT_ONCE, available_cores()):
        if reading.trouble or reading.sample not in learnt_as:
            rest.append(reading)
        else:
            old.append(reading)
            tell_sometimes(progress, len(old), len(photos))
    return Survey(old, rest)


def _read_all(photos: Sequence[Photo]) -> list[Reading]:
    return [_read(photo) for photo in photos]


def _read(photo: Photo) -> Reading:
    try:
        return Reading(photo, sample_id(content_key(photo.read())))
    except PhotoError as error:
        return Reading(photo, trouble=trouble_with(photo, error))


@dataclass(frozen=True)
class News:
    """Photos parted by what is known of them.

    Attributes
    ----------
    new : places of those to learn.
    known : how many have been learnt before, or come twice.
    contradictory : those that were learnt under another label, or are given under two.
    """

    new: list[int]
    known: int
    contradictory: list[Skipped]


def given(readings: Sequence[Reading]) -> list[tuple[Photo, int]]:
    """The photos that could be read, with their sample ids."""
    return [(one.photo, one.sample) for one in readings if not one.trouble]


def news(photos: Sequence[tuple[Photo, int]], learnt_as: Mapping[int, str]) -> News:
    """Part photos, given with their sample ids, by what a model has learnt."""
    given_as: dict[int, set[str]] = {}
    for photo, sample in photos:
        given_as.setdefault(sample, set()).add(photo.label)
    new: dict[int, int] = {}
    known, contradictory = 0, []
    for place, (photo, sample) in enumerate(photos):
        others = sorted(({learnt_as[sample]} if sample in learnt_as else given_as[sample]) - {photo.label})
        if others:
            how = "already learnt" if sample in learnt_as else "the same photo is also given"
            contradictory.append(Skipped(photo.name, f"{how} as {', '.join(map(repr, others))}"))
        elif sample in learnt_as or sample in new:
            known += 1
        else:
            new[sample] = place
    return News(list(new.values()), known, contradictory)


def if_nothing_is_new(rest: Sequence[Reading], learnt_as: Mapping[int, str]) -> tuple[list[Skipped], News] | None:
    """What has to be said of photos never learnt if none of them can be: unreadable ones, and the news of the others.

    None as soon as a photo is found that can be learnt.
    """
    candidates = given(rest)
    if any(not undecodable(candidates[place][0]) for place in news(candidates, learnt_as).new):
        return None
    troubles = [one.trouble or undecodable(one.photo) for one in rest]
    sound = [(one.photo, one.sample) for one, trouble in zip(rest, troubles, strict=True) if not trouble]
    unreadable = [Skipped(one.photo.name, trouble) for one, trouble in zip(rest, troubles, strict=True) if trouble]
    found = news(sound, learnt_as)
    return None if found.new else (unreadable, found)
