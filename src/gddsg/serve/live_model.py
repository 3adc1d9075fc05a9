"""The model that the service answers by, and the one way in which it changes.

All changes wait in one queue, and those that wait together are written together: one thread applies them to the model
in the file, by :class:`gddsg.store.SharedModel`, so that other processes take turns with it. What a caller is told has
survived: it is in the model file, or, where that is large and takes long to write, in the journal, as a *lesson*. The
file follows at once; after a kill the lessons are applied when the service starts again.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from gddsg.core.class_card import ClassCard
from gddsg.core.label import Label
from gddsg.core.model import Model
from gddsg.errors import GddsgError
from gddsg.serve.faults import busy
from gddsg.serve.journal import Journal
from gddsg.serve.snapshot import Snapshot
from gddsg.store import SharedModel

LARGE_FILE = 16_000_000
"""Bytes of a model file from which on a lesson is answered before the file is written."""

MOST_WAITING = 64
"""Changes that wait for their turn."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Step:
    """What a change makes of a model.

    Attributes
    ----------
    model : Model or None
        The next one; the same where there is nothing to change.
    value : object
        For the caller.
    lesson : mapping of Label to ClassCard or None
        What was learnt, where the change is no more than that.
    """

    model: Model | None
    value: Any = None
    lesson: Mapping[Label, ClassCard] | None = None


Maker = Callable[[Model | None], Step]
"""From the model as it is, None where there is none, to the step; asked again if the file was exchanged meanwhile."""


@dataclass(frozen=True, eq=False)
class _Wanted:
    make: Maker
    told: Future[Any]


class LiveModel:
    """The model of the moment.

    Parameters
    ----------
    file : SharedModel
        The model file, which need not exist.
    journal : Journal
        Of the service.
    large_file : int
        See :data:`LARGE_FILE`.
    """

    def __init__(self, file: SharedModel, journal: Journal, large_file: int = LARGE_FILE) -> None:
        self._file, self._journal, self._large_file = file, journal, large_file
        self._turn = threading.Lock()  # of who looks at the file or changes it
        self._waiting: queue.Queue[_Wanted | None] = queue.Queue(MOST_WAITING)
        self._lessons = {
            number: (name, ClassCard.from_bytes(card, _rank(file.read()))) for number, name, card in journal.lessons()
        }
        self._base: Model | None = None
        self._now = Snapshot(None)
        self._writer = threading.Thread(target=self._write, name="gddsg-writer", daemon=True)
        self._writer.start()
        if self._lessons:
            self.change(Step)  # what was learnt before a kill
        self._look()

    def current(self) -> Snapshot:
        """The model of the moment; what other processes have put into the file is noticed here."""
        if self._turn.acquire(blocking=False):  # else somebody is about to publish the next one
            try:
                self._look()
            finally:
                self._turn.release()
        return self._now

    def change(self, make: Maker) -> Any:
        """Carry out a change; the value of its step, once it would survive a kill.

        Parameters
        ----------
        make : callable
            See :data:`Maker`. What it raises is raised here, and nothing is changed.
        """
        wanted = _Wanted(make, Future())
        try:
            self._waiting.put_nowait(wanted)
        except queue.Full:
            raise busy("changes", 2) from None
        return wanted.told.result()

    def settle(self) -> None:
        """Wait until the file has all that was learnt."""
        self.change(Step)

    def close(self) -> None:
        """Finish what was begun, and end."""
        self._waiting.put(None)
        self._writer.join()

    # ---------------------------------------------------------------- the file

    def _look(self) -> None:
        found = self._file.read()
        if found is not self._base:
            self._base, self._now = found, Snapshot(self._with_lessons(found))

    def _with_lessons(self, model: Model | None) -> Model | None:
        """The model that has learnt all lessons, too, but for those of photos that it has learnt otherwise."""
        for name, card in self._lessons.values():
            if model is not None and not model.label_samples().keys() & set(card.sample_ids.tolist()):
                model = model.plus({name: card})
        return model

    def _write(self) -> None:
        """Carry out what waits, all that waits together in one writing of the file, until there is the end."""
        while (first := self._waiting.get()) is not None:
            batch: list[_Wanted | None] = [first]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            self._carry_out([wanted for wanted in batch if wanted is not None])
            if None in batch:
                return

    def _carry_out(self, batch: list[_Wanted]) -> None:
        values: dict[_Wanted, Any] = {}

        def step(now: Model | None) -> Model | None:
            values.clear()
            model = self._with_lessons(now)
            for wanted in batch:
                if not wanted.told.done():  # else it is a lesson by now, or was refused
                    model = self._apply(wanted, model, values)
            return now if model is now else model

        with self._turn:
            try:
                self._file.change(step)
                self._base = self._file.read()
                self._now = Snapshot(self._base) if self._base is not self._now.model else self._now
            except Exception as error:
                _log.exception("The model file cannot be written; %d lessons are in the journal.", len(self._lessons))
                _fail(batch, error)
                self._base, self._now = self._file.read(), Snapshot(self._with_lessons(self._file.read()))
                return
            self._drop_lessons()
        for wanted, value in values.items():
            wanted.told.set_result(value)

    def _apply(self, wanted: _Wanted, model: Model | None, values: dict[_Wanted, Any]) -> Model | None:
        try:
            step = wanted.make(model)
            if step.model is not None and step.model is not model:
                step.model.check_answers()  # now, so that it fails alone, and no lesson is noted that no file may have
            # a lesson may rest on nothing that a kill undoes
            if step.lesson and not values and step.model is not None and self._is_large():
                self._note(step.lesson)
                self._now = Snapshot(step.model)
                wanted.told.set_result(step.value)
            else:
                values[wanted] = step.value
        except Exception as error:
            if not isinstance(error, GddsgError):
                _log.exception("A change failed.")
            wanted.told.set_exception(error)
            return model
        return step.model

    def _is_large(self) -> bool:
        try:
            return self._file.path.stat().st_size > self._large_file
        except OSError:
            return False

    def _note(self, lesson: Mapping[Label, ClassCard]) -> None:
        for label, card in lesson.items():
            self._lessons[self._journal.add_lesson(str(label), card.to_bytes())] = (str(label), card)

    def _drop_lessons(self) -> None:
        """The file has them; where the journal cannot be told so now, they are found to be known later."""
        done, self._lessons = list(self._lessons), {}
        try:
            self._journal.drop_lessons(done)
        except GddsgError:
            _log.exception("Lessons that are in the model file stay in the journal.")


def _fail(batch: list[_Wanted], error: Exception) -> None:
    for wanted in batch:
        if not wanted.told.done():
            wanted.told.set_exception(error)


def _rank(model: Model | None) -> int:
    return 64 if model is None else model.settings.rank
