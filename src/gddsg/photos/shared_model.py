"""The model in a file that several threads and processes read and change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from gddsg.core.model import Model
from gddsg.errors import ModelFileError
from gddsg.store.model_file import read_model, write_model

FileState = tuple[int, int, int]


class SharedModel:
    """A model file, and the model that was last seen in it.

    Parameters
    ----------
    path : Path
        Of the file, which need not exist.
    on_wait : callable or None
        Called when another process has to be waited for.
    """

    def __init__(self, path: Path, on_wait: Callable[[], None] | None = None) -> None:
        self.path = path
        self._on_wait = on_wait
        self._seen: tuple[FileState, Model] | None = None  # replaced as a whole: threads find the one or the other

    def read(self) -> Model | None:
        """The model in the file, read again only when the file has changed; None where there is no file."""
        state, seen = self._state(), self._seen
        if state is None:
            return None
        if seen is None or seen[0] != state:
            seen = self._seen = (state, read_model(self.path))
        return seen[1]

    def write(self, model: Model) -> None:
        """Write a model, which from then on is the one in the file. Only for who holds the lock.

        Parameters
        ----------
        model : Model
            The successor of the one in the file.
        """
        write_model(self.path, model)
        state = self._state()
        self._seen = None if state is None else (state, model)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One writer at a time. The lock is a file beside the model, freed by the system even after a kill."""
        if not self.path.parent.is_dir():
            raise ModelFileError(
                f"There is no folder {self.path.parent} to write {self.path.name} to. Create it first."
            )
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"))
        try:
            try:
                lock.acquire(timeout=0)
            except Timeout:
                if self._on_wait is not None:
                    self._on_wait()
                lock.acquire()
        except OSError as error:
            raise ModelFileError(
                f"Cannot write beside {self.path} ({error.strerror}). Choose an existing folder you may write to."
            ) from error
        try:
            yield
        finally:
            lock.release()

    def _state(self) -> FileState | None:
        """What changes whenever the file does; None where there is no file."""
        try:
            now = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ModelFileError(f"Cannot read {self.path} ({error.strerror}). Check the path.") from error
        return now.st_ino, now.st_mtime_ns, now.st_size
