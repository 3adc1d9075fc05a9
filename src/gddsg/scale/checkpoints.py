"""Finished parts of a run in a folder, by the content that they came from: a run that was killed goes on from them."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gddsg.errors import DataError
from gddsg.files import locked, replace_file
from gddsg.scale.partial import Merger

_OURS = re.compile(r"[0-9a-f]{64}\.part|\.[0-9a-f]{64}\.part\.\d+-[0-9a-f]+\.tmp")  # and what killed writers have left


def content_name(*parts: object) -> str:
    """A name for what follows from these parts and from nothing else.

    Parameters
    ----------
    *parts : object
        Strings, bytes and whole numbers.
    """
    digest = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()


class Checkpoints:
    """Parts by name. A name says what a part was made from, so parts of other sources are never found.

    Parameters
    ----------
    folder : Path
        Where they are; made when the first is stored.
    merger : Merger
        That reads them.
    """

    def __init__(self, folder: Path, merger: Merger) -> None:
        self.folder, self._merger = folder, merger

    def has(self, name: str) -> bool:
        """Whether there is a part of that name that is whole; a damaged one is removed."""
        try:
            self._merger.decode(self.read(name))
        except FileNotFoundError:
            return False
        except DataError:
            self._path(name).unlink(missing_ok=True)
            return False
        return True

    def read(self, name: str) -> bytes:
        """The content of a part."""
        return self._path(name).read_bytes()

    def store(self, name: str, content: bytes) -> None:
        """Keep a part; a kill leaves it whole or not there."""
        try:
            replace_file(self._path(name), content)
        except OSError as error:
            raise DataError(
                f"A part of the run cannot be stored in {self.folder} ({error.strerror or error}). Make room there, or "
                "name another folder for checkpoints."
            ) from error

    def clear(self) -> None:
        """Remove all parts, and the folder if nothing else is in it."""
        for path in list(self.folder.iterdir()) if self.folder.is_dir() else ():
            if _OURS.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.part"


@contextlib.contextmanager
def own_folder(folder: Path, on_wait: Callable[[], None] | None) -> Iterator[None]:
    """The folder is made, and ours alone until the block ends; an empty one is removed then.

    Parameters
    ----------
    folder : Path
        Of checkpoints.
    on_wait : callable or None
        Called when another run has to be waited for.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / "run", on_wait):
            yield
    except FileNotFoundError as error:  # removed by the run that we waited for
        if folder.is_dir():
            raise
        raise DataError(f"The folder {folder} was removed meanwhile. Start again.") from error
    except FileExistsError as error:
        raise DataError(f"{folder} is a file; expected a folder for checkpoints. Name another one.") from error
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def joined_name(names: Iterable[str]) -> str:
    """The name of what parts of these names, in this order, are merged to."""
    return content_name("merged", *names)
