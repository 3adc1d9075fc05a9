"""Photos to features: read, decode, embed, on all cores at once, and no photo twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from gddsg.backbones.base import Array, Backbone, available_cores
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.data.dataset import FeatureDataset, ImageDataset, Skipped
from gddsg.data.photo import Photo, content_key
from gddsg.errors import PhotoError
from gddsg.photos.recognition import trouble_with
from gddsg.photos.threads import READ_AT_ONCE, Progress, in_parts, tell_sometimes

T = TypeVar("T")

_EMBEDDED_AT_ONCE = 8  # photos a thread takes
_KEPT_AT_ONCE = 128  # vectors a transaction of the cache: so much work at most is lost by a kill


@dataclass(frozen=True)
class EmbeddedPhotos:
    """Features of photos, in the order of the photos.

    Attributes
    ----------
    photos : those that could be read.
    keys : SHA-256 of their contents.
    features : ``(n_photos, feature_dim)`` float32.
    skipped : those that could not be read, and why.
    computed : how many were embedded now; the others were in the cache.
    """

    photos: tuple[Photo, ...]
    keys: tuple[bytes, ...]
    features: Array
    skipped: tuple[Skipped, ...]
    computed: int


@dataclass
class _Outcome:
    photo: Photo
    key: bytes = b""
    image: Array | None = None
    vector: Array | None = None
    trouble: str = ""
    new: bool = False


def embed_photos(
    photos: Sequence[Photo], backbone: Backbone, cache: FeatureCache | None = None, progress: Progress | None = None
) -> EmbeddedPhotos:
    """Embed photos; those that cannot be decoded are left out and listed. An interruption keeps what is done."""
    return recall_or_embed(photos, backbone.fingerprint, lambda: backbone, cache, progress)


def recall_or_embed(
    photos: Sequence[Photo],
    fingerprint: str,
    load: Callable[[], Backbone],
    cache: FeatureCache | None = None,
    progress: Progress | None = None,
) -> EmbeddedPhotos:
    """Like :func:`embed_photos`, but the backbone, of that fingerprint, is loaded only if the cache lacks a photo."""
    done = [] if cache is None else _recalled(photos, fingerprint, cache, progress)
    if photos and len(done) == len(photos):
        return _collected(done, 0)
    backbone = load()
    _embed_rest(done, photos, backbone, cache, progress)
    return _collected(done, backbone.feature_dim)


def embed_dataset(
    dataset: ImageDataset, backbone: Backbone, cache: FeatureCache | None = None, progress: Progress | None = None
) -> FeatureDataset:
    """The features of an image data set; ``progress`` counts training and test photos together."""
    offset, total = len(dataset.train), len(dataset.train) + len(dataset.test)
    train = embed_photos(dataset.train, backbone, cache, progress and (lambda done, _: progress(done, total)))
    test = embed_photos(dataset.test, backbone, cache, progress and (lambda done, _: progress(offset + done, total)))
    labels = [np.array([photo.label for photo in part.photos]) for part in (train, test)]
    return FeatureDataset(dataset.name, train.features, labels[0], test.features, labels[1], dataset.classes)


def _recalled(
    photos: Sequence[Photo], fingerprint: str, cache: FeatureCache, progress: Progress | None
) -> list[_Outcome]:
    """The photos at the beginning that the cache knows, up to the first it does not know."""
    done: list[_Outcome] = []
    look_up = partial(_looked_up, fingerprint=fingerprint, cache=cache)
    with closing(in_parts(look_up, photos, READ_AT_ONCE, available_cores())) as outcomes:
        for outcome in outcomes:
            if outcome.vector is None:
                break
            done.append(outcome)
            tell_sometimes(progress, len(done), len(photos))
    return done


def _embed_rest(
    done: list[_Outcome],
    photos: Sequence[Photo],
    backbone: Backbone,
    cache: FeatureCache | None,
    progress: Progress | None,
) -> None:
    """Append the outcomes of the photos that are not done yet."""
    fresh: list[tuple[bytes, Array]] = []
    try:
        for outcome in _outcomes(photos[len(done) :], backbone, cache):
            done.append(outcome)
            if outcome.new and outcome.vector is not None:
                fresh.append((outcome.key, outcome.vector))
            if len(fresh) >= _KEPT_AT_ONCE:
                _keep(cache, fresh, backbone)
            if progress is not None:
                progress(len(done), len(photos))
    finally:
        _keep(cache, fresh, backbone)


def _keep(cache: FeatureCache | None, fresh: list[tuple[bytes, Array]], backbone: Backbone) -> None:
    if cache is not None and fresh:
        cache.put(fresh, backbone.fingerprint)
    fresh.clear()


def _outcomes(photos: Sequence[Photo], backbone: Backbone, cache: FeatureCache | None) -> Iterator[_Outcome]:
    """Outcomes in the order of the photos. Threads do it all, or prepare batches where the backbone wants these."""
    threads = max(backbone.workers, available_cores())
    prepared = in_parts(lambda part: _prepared(part, backbone, cache), photos, _EMBEDDED_AT_ONCE, threads)
    if backbone.batch_size == 1:
        yield from prepared
        return
    waiting: list[_Outcome] = []
    for outcome in prepared:
        waiting.append(outcome)
        if sum(one.image is not None for one in waiting) == backbone.batch_size:
            yield from _embedded(waiting, backbone)
            waiting = []
    yield from _embedded(waiting, backbone)


def _looked_up(photos: Sequence[Photo], fingerprint: str, cache: FeatureCache) -> list[_Outcome]:
    outcomes = [_Outcome(photo) for photo in photos]
    for outcome in outcomes:
        _read(outcome)  # the content is not kept: so many large photos might fill the memory
    _look_up(outcomes, fingerprint, cache)
    return outcomes


def _prepared(photos: Sequence[Photo], backbone: Backbone, cache: FeatureCache | None) -> list[_Outcome]:
    outcomes = [_Outcome(photo) for photo in photos]
    contents = [_read(outcome) for outcome in outcomes]
    if cache is not None:
        _look_up(outcomes, backbone.fingerprint, cache)
    for outcome, content in zip(outcomes, contents, strict=True):
        if content is not None and outcome.vector is None:
            _tried(outcome, partial(_prepare, content=content, backbone=backbone))
    return outcomes


def _read(outcome: _Outcome) -> bytes | None:
    content = _tried(outcome, lambda one: one.photo.read())
    outcome.key = b"" if content is None else content_key(content)
    return content


def _look_up(outcomes: list[_Outcome], fingerprint: str, cache: FeatureCache) -> None:
    """Some photos at once, since asking the cache for each by itself would take longer than all the rest."""
    known = cache.get_many([one.key for one in outcomes if one.key], fingerprint)
    for outcome in outcomes:
        outcome.vector = known.get(outcome.key)


def _prepare(outcome: _Outcome, content: bytes, backbone: Backbone) -> None:
    outcome.image = backbone.preprocess(outcome.photo.image(content, backbone.preprocess.useful_side))
    outcome.new = True
    if backbone.batch_size == 1:
        _embedded([outcome], backbone)


def _tried(outcome: _Outcome, step: Callable[[_Outcome], T]) -> T | None:
    """What the step gives, or None where the photo is at fault, which is noted."""
    try:
        return step(outcome)
    except PhotoError as error:
        outcome.trouble = trouble_with(outcome.photo, error)
        return None


def _embedded(outcomes: list[_Outcome], backbone: Backbone) -> list[_Outcome]:
    images = [one.image for one in outcomes if one.image is not None]
    vectors = iter(backbone.embed(np.stack(images))) if images else iter(())
    for one in outcomes:
        if one.image is not None:
            one.vector, one.image = next(vectors), None
    return outcomes


def _collected(done: list[_Outcome], feature_dim: int) -> EmbeddedPhotos:
    good = [one for one in done if one.vector is not None]
    vectors = [one.vector for one in good if one.vector is not None]
    return EmbeddedPhotos(
        photos=tuple(one.photo for one in good),
        keys=tuple(one.key for one in good),
        features=np.stack(vectors) if vectors else np.empty((0, feature_dim), dtype=np.float32),
        skipped=tuple(Skipped(one.photo.name, one.trouble) for one in done if one.vector is None),
        computed=sum(one.new for one in good),
    )
