"""What a student of the stem's network learns from: maps of photos, and what the whole network makes of them.

Both are computed once, in half precision, and are in files that grow, so that who is killed goes on where he was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gddsg.backbones.base import Array, available_cores, fingerprint
from gddsg.backbones.efficientnet_lite_network import CLASSES
from gddsg.backbones.efficientnet_lite_shape import FEATURE_DIM
from gddsg.backbones.stem import MAP_CHANNELS, MAP_SIDE, Stem
from gddsg.data.dataset import Skipped
from gddsg.data.photo import Photo
from gddsg.errors import PhotoError
from gddsg.files import replace_file
from gddsg.nn.training_data import Batch

__all__ = ["TARGETS", "Lessons", "MapSamples"]

TARGETS = (CLASSES, FEATURE_DIM, 1)
"""How many columns of the targets are logits, square-root features and labels."""

_MAP = (MAP_CHANNELS, MAP_SIDE, MAP_SIDE)
_TAUGHT = CLASSES + FEATURE_DIM
_HALF = np.dtype("<f2")
_AT_ONCE = 64


class Lessons:
    """Maps and targets of photos in a folder.

    Parameters
    ----------
    folder : Path
        Where; what it has of these very photos is used.
    photos : sequence of Photo
        A row each; a photo that cannot be read has a row of NaN.
    stem : Stem
        What gives the maps, and the network behind it.
    """

    def __init__(self, folder: Path, photos: Sequence[Photo], stem: Stem) -> None:
        self._folder, self._photos, self._stem = folder, photos, stem
        self.key = _key(photos, stem)

    def fill(self, tell: Callable[[int, int], None] | None = None) -> None:
        """Compute what is not there yet.

        Parameters
        ----------
        tell : callable or None
            Called with the number of photos that are done, and that of all.
        """
        done = self._begin()
        with (
            ThreadPoolExecutor(available_cores()) as threads,
            self._maps.open("ab") as maps,
            self._taught.open("ab") as taught,
        ):
            for start in range(done, len(self._photos), _AT_ONCE):
                inputs = list(threads.map(self._input, self._photos[start : start + _AT_ONCE]))
                for file, rows in zip((maps, taught), self._rows(inputs), strict=True):
                    file.write(rows.astype(_HALF).tobytes())
                    file.flush()
                if tell is not None:
                    tell(start + len(inputs), len(self._photos))

    def skipped(self) -> list[Skipped]:
        """Photos that could not be read, and why."""
        found = []
        for row in np.flatnonzero(np.isnan(self._open(self._taught, _TAUGHT)[:, 0])).tolist():
            photo = self._photos[row]
            try:
                self._prepared(photo)
                reason = "it could not be read, though it can now"
            except PhotoError as error:
                reason = str(error)
            found.append(Skipped(photo.name, reason))
        return found

    def samples(self, device: str) -> MapSamples:
        """What there is to learn from, of the photos that could be read."""
        maps, taught = self._open(self._maps, *_MAP), self._open(self._taught, _TAUGHT)
        rows = np.flatnonzero(~np.isnan(taught[:, 0]))
        names = [self._photos[row].label for row in rows.tolist()]
        classes = sorted(set(names))
        labels = np.searchsorted(classes, names)
        return MapSamples(maps, taught, rows, labels, len(classes), device, self.key)

    @property
    def _maps(self) -> Path:
        return self._folder / "maps.f2"

    @property
    def _taught(self) -> Path:
        return self._folder / "targets.f2"

    def _begin(self) -> int:
        """How many rows there are; whatever else is in the files is cut off."""
        known = self._folder / "photos.sha256"
        sizes = {self._maps: int(np.prod(_MAP)) * _HALF.itemsize, self._taught: _TAUGHT * _HALF.itemsize}
        if not known.is_file() or known.read_bytes() != self.key:
            for path in (known, *sizes):
                path.unlink(missing_ok=True)
            replace_file(known, self.key)
        for path in sizes:
            path.touch()
        done = min(path.stat().st_size // size for path, size in sizes.items())
        for path, size in sizes.items():
            with path.open("r+b") as file:
                file.truncate(done * size)
        return done

    def _input(self, photo: Photo) -> Array | None:
        try:
            return self._prepared(photo)
        except PhotoError:
            return None

    def _prepared(self, photo: Photo) -> Array:
        preprocess = self._stem.preprocess
        content = b"" if photo.pixels is not None else photo.read()
        return preprocess(photo.image(content, preprocess.useful_side))

    def _rows(self, inputs: Sequence[Array | None]) -> tuple[Array, Array]:
        maps = np.zeros((len(inputs), *_MAP), dtype=np.float32)
        taught = np.full((len(inputs), _TAUGHT), np.nan, dtype=np.float32)
        read = [row for row, one in enumerate(inputs) if one is not None]
        if read:
            found = self._stem(torch.from_numpy(np.stack([one for one in inputs if one is not None])))
            with torch.inference_mode():
                features = self._stem.network.pooled(found)
                logits = self._stem.network.logits(features)
            maps[read] = found.numpy()
            taught[read] = torch.cat([logits, features.sqrt()], dim=1).numpy()
        return maps, taught

    def _open(self, path: Path, *shape: int) -> NDArray[np.float16]:
        return np.memmap(path, dtype=_HALF, mode="r", shape=(len(self._photos), *shape))


class MapSamples:
    """Maps, mirrored at random, and their targets: logits, square-root features, label; see :data:`TARGETS`.

    Parameters
    ----------
    maps, taught : ndarray
        ``(n_photos, 320, 7, 7)`` and ``(n_photos, 2280)`` float16.
    rows : ndarray
        Which of them are used, ``(n,)``.
    labels : ndarray
        Whole numbers, ``(n,)``.
    classes : int
        How many classes there are.
    device : str
        Where batches go.
    key : bytes
        By which the same photos are known again.
    """

    def __init__(
        self,
        maps: NDArray[np.float16],
        taught: NDArray[np.float16],
        rows: NDArray[np.intp],
        labels: NDArray[np.intp],
        classes: int,
        device: str,
        key: bytes,
    ) -> None:
        self._maps, self._taught, self._rows, self._labels, self._key = maps, taught, rows, labels, key
        self.classes = classes
        self.device = torch.device(device)

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, rows: NDArray[np.intp], random: np.random.Generator, mine: slice = slice(None)) -> Batch:
        """The samples in those of the places that are ``mine``, half of them mirrored."""
        mirrored = torch.from_numpy(random.random(len(rows)) < 0.5)[mine, None, None, None]
        rows = rows[mine]
        maps = self.maps(rows)
        taught = self._taught[self._rows[rows]].astype(np.float32)
        targets = np.concatenate([taught, self._labels[rows, None].astype(np.float32)], axis=1)
        inputs = torch.where(mirrored, maps.flip(3), maps)
        return Batch(inputs.to(self.device), torch.from_numpy(targets).to(self.device), rows)

    def maps(self, rows: NDArray[np.intp]) -> Tensor:
        """Maps of the samples in those places, as they are."""
        return torch.from_numpy(self._maps[self._rows[rows]].astype(np.float32))

    def predicted(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The classes of ImageNet that the network takes the samples in those places for."""
        found: NDArray[np.intp] = np.argmax(self._taught[self._rows[rows], :CLASSES], axis=1)
        return found

    def digest(self) -> bytes:
        """By which the same samples are known again."""
        return hashlib.sha256(self._key + self._labels.astype("<i8").tobytes()).digest()


def _key(photos: Sequence[Photo], stem: Stem) -> bytes:
    """By which the same files, and the same stem, are known again; files are not read for it."""
    digest = hashlib.sha256(fingerprint(stem.preprocess, [stem.weights]).encode())
    for photo in photos:
        digest.update(json.dumps([photo.name, photo.label, *_state(photo)]).encode())
    return digest.digest()


def _state(photo: Photo) -> tuple[int, ...] | tuple[str]:
    if photo.pixels is not None:
        return (hashlib.sha256(photo.pixels.tobytes()).hexdigest(),)
    try:
        found = Path(photo.name if photo.path is None else photo.path).stat()
    except OSError:
        return (-1,)
    return found.st_size, found.st_mtime_ns
