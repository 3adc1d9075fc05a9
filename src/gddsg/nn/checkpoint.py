"""What has been trained so far, on disk: who is killed in the middle of a task goes on in the middle of it."""

from __future__ import annotations

import hashlib
import io
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gddsg.data.reading import read_plain
from gddsg.errors import InputError
from gddsg.files import replacing

__all__ = ["Checkpoint", "Kept"]

_BEGINNING = b"gddsg training 1\n"
_DIGEST = 32
_LARGEST = 2**40


@dataclass(frozen=True, eq=False)
class Kept:
    """A training after some epochs.

    Attributes
    ----------
    epochs : int
        How many.
    parameters : list of Tensor
        What is trained, on the CPU.
    optimiser, scaler : dict
        What torch says of them.
    """

    epochs: int
    parameters: list[Tensor]
    optimiser: dict[str, Any]
    scaler: dict[str, Any]


class Checkpoint:
    """A folder in which trainings under way are kept, a file each, called after all that makes up the training.

    Any number of trainings may share it. A file that is damaged, or of another training, is as good as none; it is
    read as tensors and never run as code. What trainings leave that nobody goes on with may be deleted.

    Parameters
    ----------
    folder : str or Path
        It need not exist.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def require_room(self) -> None:
        """Refuse a folder that nothing can be written to: before the training rather than after its first epoch."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder):
                pass
        except OSError as error:
            raise InputError(
                f"checkpoints={str(self._folder)!r} was given, where nothing can be written "
                f"({error.strerror or error}). Expected a folder; name another, or leave it out."
            ) from error

    def keep(self, key: bytes, kept: Kept) -> None:
        """Write a training down, in one step; where that fails there is a warning, and training can go on.

        Parameters
        ----------
        key : bytes
            Of the training, 32 of them.
        kept : Kept
            How far it has come.
        """
        content = io.BytesIO()
        torch.save({"key": key.hex(), **vars(kept)}, content)
        try:
            with replacing(self._file(key)) as temporary, temporary.open("wb") as file:
                file.write(_BEGINNING + hashlib.sha256(content.getbuffer()).digest())
                file.write(content.getbuffer())
        except OSError as error:
            warnings.warn(
                f"A training could not be kept in {self._folder} ({error.strerror or error}). It goes on, but after a "
                "kill it would begin further back; make room there.",
                stacklevel=2,
            )

    def find(self, key: bytes, parameters: Sequence[nn.Parameter]) -> Kept | None:
        """What was written down of a training; None for nothing of use.

        Parameters
        ----------
        key : bytes
            Of the training.
        parameters : sequence of Parameter
            What is trained.
        """
        try:
            found = _read(self._file(key), key)
            shapes = [tuple(one.shape) for one in parameters]
            if [tuple(one.shape) for one in found.parameters] != shapes or found.epochs < 1:
                return None
        except Exception:  # whatever is wrong with the file, training from the beginning is right
            return None
        return found

    def drop(self, key: bytes) -> None:
        """Remove the file of a training that is done; one that cannot be removed does no harm."""
        try:
            self._file(key).unlink(missing_ok=True)
        except OSError:
            return

    def _file(self, key: bytes) -> Path:
        return self._folder / f"{key.hex()[:24]}.checkpoint"


def _read(path: Path, key: bytes) -> Kept:
    content = memoryview(read_plain(path, _LARGEST))
    start = len(_BEGINNING) + _DIGEST
    if content[:start] != _BEGINNING + hashlib.sha256(content[start:]).digest():
        raise ValueError("not what was written")
    found = torch.load(io.BytesIO(content[start:]), map_location="cpu", weights_only=True)  # nothing in it is run
    if found.pop("key") != key.hex():
        raise ValueError("of another training")
    return Kept(**found)
