"""Photos to features: each photo read once, on all cores at once, and none embedded that need not be."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gddsg.backbones.base import Array, Backbone, available_cores
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.core.once import Lazy
from gddsg.data.dataset import FeatureDataset, ImageDataset, Skipped
from gddsg.data.decoding import MAX_DECODED_BYTES
from gddsg.data.photo import MAX_FILE_BYTES, Photo, content_key, identify_sample
from gddsg.errors import PhotoError
from gddsg.photos.threads import Progress, Room, map_in_parts

_READ_AT_ONCE = 8  # photos whose contents a thread holds, fewer where there is no room for them
_KEPT_AT_ONCE = 128  # vectors a transaction of the cache: so much work at most is lost by a kill
_TOLD_AT_ONCE = 64  # of photos only read, for which telling each by itself would take longer than the work

# For all threads of the process together, and so large that every photo fits that is not refused for its size alone.
_CONTENTS, _IMAGES = Room(MAX_FILE_BYTES), Room(MAX_DECODED_BYTES)


@dataclass(frozen=True)
class EmbeddedPhotos:
    """Features of photos, in the order of the photos.

    Attributes
    ----------
    photos : tuple of Photo
        Those that have features.
    samples : tuple of int
        Their sample ids, see :func:`gddsg.data.photo.identify_sample`.
    features : ndarray
        ``(n_photos, feature_dim)`` float32.
    known : tuple of pair of Photo and int
        Photos that needed no features, since their samples are known, and their sample ids.
    skipped : tuple of Skipped
        Photos that cannot be read or decoded, and why.
    computed : int
        How many were embedded now; the features of the others were in the cache.
    """

    photos: tuple[Photo, ...]
    samples: tuple[int, ...]
    features: Array
    known: tuple[tuple[Photo, int], ...]
    skipped: tuple[Skipped, ...]
    computed: int


@dataclass(frozen=True)
class _Outcome:
    """What came of a photo: a vector, an image that still has to be embedded, trouble; or nothing where it is known."""

    photo: Photo
    key: bytes = b""
    image: Array | None = None
    vector: Array | None = None
    trouble: str = ""
    computed: bool = False

    @property
    def sample(self) -> int:
        return identify_sample(self.key)

    def nbytes(self) -> int:
        return 0 if self.image is None else self.image.nbytes


@dataclass(frozen=True)
class Embedder:
    """Gives photos their features: from the cache, or else by the backbone.

    Attributes
    ----------
    fingerprint : str
        Of the backbone.
    backbone : Lazy of Backbone
        Loaded for the first photo that can be decoded and is not in the cache, hence perhaps never.
    cache : FeatureCache or None
        Where features are looked up and kept.
    feature_dim : int or None
        Length that features from the cache must have, where it is known.
    """

    fingerprint: str
    backbone: Lazy[Backbone]
    cache: FeatureCache | None = None
    feature_dim: int | None = None

    def embed(
        self, photos: Sequence[Photo], known: Container[int] = (), progress: Progress | None = None
    ) -> EmbeddedPhotos:
        """Embed photos; those that cannot be decoded are left out and listed. An interruption keeps what is done.

        Parameters
        ----------
        photos : sequence of Photo
            Each is read once.
        known : container of int
            Sample ids of photos that need no features.
        progress : callable or None
            Told how far the work is.
        """
        done: list[_Outcome] = []
        fresh: list[_Outcome] = []
        work = partial(self._process, known=known)
        try:
            with closing(map_in_parts(work, photos, _READ_AT_ONCE, available_cores(), _Outcome.nbytes)) as processed:
                for outcome in self._embed_batches(processed):
                    done.append(outcome)
                    if outcome.computed:
                        fresh.append(outcome)
                    if len(fresh) >= _KEPT_AT_ONCE:
                        self._keep(fresh)
                    _tell(progress, outcome, len(done), len(photos))
        finally:
            self._keep(fresh)
        return _collect(done, self.backbone.peek())

    def _process(self, photos: Sequence[Photo], known: Container[int]) -> list[_Outcome]:
        """Read some photos, and find or make the features of those that are not known."""
        waiting, outcomes = deque(photos), []
        while waiting:
            with ExitStack() as held:
                outcomes += self._embed_contents(_read_some(waiting, held), known)
        return outcomes

    def _embed_contents(self, read: list[tuple[_Outcome, bytes]], known: Container[int]) -> list[_Outcome]:
        vectors = self._look_up([one.key for one, _ in read if one.key and one.sample not in known])
        outcomes = []
        for one, content in read:
            if one.trouble or one.sample in known:
                outcomes.append(one)
            elif one.key in vectors:
                outcomes.append(replace(one, vector=vectors[one.key]))
            else:
                outcomes.append(self._embed_content(one, content))
        return outcomes

    def _look_up(self, keys: list[bytes]) -> dict[bytes, Array]:
        """Some photos at once, since asking the cache for each by itself would take longer than all the rest."""
        return {} if self.cache is None or not keys else self.cache.get_many(keys, self.fingerprint, self.feature_dim)

    def _embed_content(self, one: _Outcome, content: bytes) -> _Outcome:
        """Decode a photo and embed it, or leave that to the batch it will be in."""
        try:
            if self.backbone.peek() is None:
                with _IMAGES.taken(one.photo.decoded_bytes(content, at_least=1)):
                    one.photo.image(content, at_least=1)  # a damaged photo is no reason to load a network
            backbone = self.backbone()
            useful = backbone.preprocess.useful_side
            with _IMAGES.taken(one.photo.decoded_bytes(content, useful)):
                image = backbone.preprocess(one.photo.image(content, useful))
        except PhotoError as error:
            return replace(one, trouble=_describe(one.photo, error))
        except MemoryError:
            return replace(one, trouble="there is not enough memory for it; make a smaller copy of it")
        waiting = replace(one, image=image)
        return waiting if backbone.batch_size > 1 else _embed_images([waiting], backbone)[0]

    def _embed_batches(self, outcomes: Iterator[_Outcome]) -> Iterator[_Outcome]:
        """The outcomes in their order, images embedded in batches of the size that the backbone wants."""
        waiting: list[_Outcome] = []
        images = 0
        for outcome in outcomes:
            waiting.append(outcome)
            images += outcome.image is not None
            if images == 0 or images == self.backbone().batch_size:
                yield from _embed_images(waiting, self.backbone()) if images else waiting
                waiting, images = [], 0
        yield from _embed_images(waiting, self.backbone()) if images else waiting

    def _keep(self, fresh: list[_Outcome]) -> None:
        if self.cache is not None and fresh:
            self.cache.put([(one.key, one.vector) for one in fresh if one.vector is not None], self.fingerprint)
        fresh.clear()


def embed_photos(
    photos: Sequence[Photo], backbone: Backbone, cache: FeatureCache | None = None, progress: Progress | None = None
) -> EmbeddedPhotos:
    """Embed photos by a backbone that is loaded already; see :meth:`Embedder.embed`.

    Parameters
    ----------
    photos : sequence of Photo
        Each is read once.
    backbone : Backbone
        For those that are not in the cache.
    cache : FeatureCache or None
        Where features are looked up and kept.
    progress : callable or None
        Told how far the work is.
    """
    loaded = Lazy(lambda: backbone)
    loaded()
    return Embedder(backbone.fingerprint, loaded, cache, backbone.feature_dim).embed(photos, progress=progress)


def embed_dataset(
    dataset: ImageDataset, backbone: Backbone, cache: FeatureCache | None = None, progress: Progress | None = None
) -> FeatureDataset:
    """The features of an image data set.

    Parameters
    ----------
    dataset : ImageDataset
        Training and test photos.
    backbone : Backbone
        For those that are not in the cache.
    cache : FeatureCache or None
        Where features are looked up and kept.
    progress : callable or None
        Told how far the work is, training and test photos counted together.
    """
    offset, total = len(dataset.train), len(dataset.train) + len(dataset.test)
    train = embed_photos(dataset.train, backbone, cache, progress and (lambda done, _: progress(done, total)))
    test = embed_photos(dataset.test, backbone, cache, progress and (lambda done, _: progress(offset + done, total)))
    labels = [np.array([photo.label for photo in part.photos]) for part in (train, test)]
    return FeatureDataset(dataset.name, train.features, labels[0], test.features, labels[1], dataset.classes)


def _read_some(waiting: deque[Photo], held: ExitStack) -> list[tuple[_Outcome, bytes]]:
    """Read the next photo as soon as there is room for its content, and those after it while there is room at once."""
    read: list[tuple[_Outcome, bytes]] = []
    while waiting:
        try:
            size = waiting[0].size()
            if not _CONTENTS.take(size, wait=not read):
                break
            held.callback(_CONTENTS.give_back, size)
            content = waiting[0].read(at_most=size)
            read.append((_Outcome(waiting[0], content_key(content)), content))
        except PhotoError as error:
            read.append((_Outcome(waiting[0], trouble=_describe(waiting[0], error)), b""))
        waiting.popleft()
    return read


def _describe(photo: Photo, error: PhotoError) -> str:
    """What is wrong with a photo, without its name."""
    return str(error).removeprefix(f"{photo.name}: ")


def _embed_images(outcomes: list[_Outcome], backbone: Backbone) -> list[_Outcome]:
    vectors = iter(backbone.embed(np.stack([one.image for one in outcomes if one.image is not None])))
    return [
        one if one.image is None else replace(one, image=None, vector=next(vectors), computed=True) for one in outcomes
    ]


def _tell(progress: Progress | None, outcome: _Outcome, done: int, total: int) -> None:
    if progress is not None and (outcome.computed or done % _TOLD_AT_ONCE == 0 or done == total):
        progress(done, total)


def _collect(done: list[_Outcome], backbone: Backbone | None) -> EmbeddedPhotos:
    embedded = [one for one in done if one.vector is not None]
    vectors = [one.vector for one in embedded if one.vector is not None]
    width = 0 if backbone is None else backbone.feature_dim
    return EmbeddedPhotos(
        photos=tuple(one.photo for one in embedded),
        samples=tuple(one.sample for one in embedded),
        features=np.stack(vectors) if vectors else np.empty((0, width), dtype=np.float32),
        known=tuple((one.photo, one.sample) for one in done if one.vector is None and not one.trouble),
        skipped=tuple(Skipped(one.photo.name, one.trouble) for one in done if one.trouble),
        computed=sum(one.computed for one in embedded),
    )
