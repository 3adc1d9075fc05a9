"""The one way to change a model file: find it, lock it, read it, make the next model, try that, replace the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from gddsg.errors import ModelFileError
from gddsg.files import locked
from gddsg.store.answers import Answers, read_answers
from gddsg.store.rows_file import FileState, file_state, unwritable

if TYPE_CHECKING:
    from gddsg.core.model import Model

Step: TypeAlias = "Callable[[Model | None], Model | None]"
"""From the model in the file, None where there is no file, to the one that is to be there; None to leave it alone."""


class SharedModel:
    """A model file that several threads and processes read and change, and the model that was last seen in it.

    Parameters
    ----------
    path : str or path-like
        Of the file, which need not exist; links are followed.
    on_wait : callable or None
        Called when another process has to be waited for.
    """

    def __init__(self, path: str | PathLike[str], on_wait: Callable[[], None] | None = None) -> None:
        self.path = Path(path)
        self._on_wait = on_wait
        # replaced as a whole: threads find the one or the other
        self._seen: tuple[FileState, Model] | None = None
        self._answers: tuple[FileState, Answers] | None = None

    def read(self) -> Model | None:
        """The model in the file, read again only when the file has changed; None where there is no file."""
        return self._read(self.path, file_state(self.path))

    def answering(self) -> Model | Answers | None:
        """What answers for the model in the file: the model itself if it has been read, else what the file keeps.

        The latter takes a fraction of the time and no torch. None where there is no file.
        """
        state, seen, kept = file_state(self.path), self._seen, self._answers
        if state is None:
            return None
        if seen is not None and seen[0] == state:
            return seen[1]
        if kept is None or kept[0] != state:
            found = read_answers(self.path)
            if found is None:
                return self.read()
            kept = self._answers = (state, found)
        return kept[1]

    def _read(self, path: Path, state: FileState | None) -> Model | None:
        from gddsg.store.model_file import read_model  # brings torch along, which answers need not wait for

        seen = self._seen
        if state is None:
            return None
        if seen is None or seen[0] != state:
            seen = self._seen = (state, read_model(path))
        return seen[1]

    def change(self, step: Step) -> Model | None:
        """Put the successor of the model in the file in its place; all that ``step`` gives is in the file on return.

        Other writers wait meanwhile. A program that knows nothing of our lock may still put another file in this place:
        then ``step`` is asked again, for the successor of that one. A successor that cannot predict is refused.

        Parameters
        ----------
        step : callable
            See :data:`Step`. It may be asked more than once.

        Returns
        -------
        Model or None
            The model that was in the file before.
        """
        from gddsg.store.model_file import replace_model

        with _lock(self.path, self._on_wait) as target:
            while True:
                state = file_state(target)
                before = self._read(target, state)
                after = step(before)
                if after is None or after is before:
                    return before
                _refuse_hard_links(target, state)
                if before is None or not _same_cards(before, after):
                    after.check_answers()  # the same cards under other names answer as they did
                try:
                    after = replace_model(target, after, last_look=partial(_refuse_another, target, state))
                except _AnotherFileError:
                    continue
                written = file_state(target)
                self._seen = None if written is None else (written, after)
                return before


def write_model(path: str | PathLike[str], model: Model) -> None:
    """Write a model to ``path``, replacing what was there in one step; writers of the same file take turns.

    Parameters
    ----------
    path : str or path-like
        Where to write; the folder must exist.
    model : Model
        What to write.
    """
    from gddsg.store.model_file import replace_model

    with _lock(path) as target:
        replace_model(target, model)


def _same_cards(one: Model, other: Model) -> bool:
    return len(one.cards) == len(other.cards) and Counter(one.cards.values()) == Counter(other.cards.values())


class _AnotherFileError(Exception):
    """Raised when the file is no longer the one that was read."""


def _refuse_another(target: Path, read: FileState | None) -> None:
    if file_state(target) != read:
        raise _AnotherFileError


def _refuse_hard_links(target: Path, state: FileState | None) -> None:
    if state is not None and state.names > 1:
        raise ModelFileError(
            f"{target} has {state.names} names (hard links), and a change would reach only this one. Nothing was "
            "changed. Make symbolic links of the others, or put a copy of the file in its place, then try again."
        )


@contextmanager
def _lock(path: str | PathLike[str], on_wait: Callable[[], None] | None = None) -> Iterator[Path]:
    """Our turn to change the file; trouble with the lock itself is a :class:`gddsg.errors.ModelFileError`."""
    with ExitStack() as stack:
        try:
            target = stack.enter_context(locked(Path(path), on_wait))
        except OSError as error:
            raise unwritable(path, error) from error
        yield target
