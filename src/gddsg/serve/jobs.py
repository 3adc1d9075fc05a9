"""Long work: it goes on after the answer, tells how far it is, and can be cancelled."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gddsg.errors import GddsgError
from gddsg.photos.threads import Progress
from gddsg.serve.faults import RequestError, busy, fault_of

Work = Callable[[Progress], dict[str, Any]]
"""Does the work, tells its progress, and gives the result. What is told of its progress may end it."""

ENDED = frozenset({"done", "failed", "cancelled"})
"""States in which nothing more happens."""

_log = logging.getLogger(__name__)


class Cancelled(Exception):  # noqa: N818  # is no error
    """Raised inside work that somebody has cancelled."""


class Job:
    """One piece of long work.

    Parameters
    ----------
    kind : str
        What it does.
    owner : str
        Who wanted it.
    key : str or None
        By which they may ask for it again.
    """

    def __init__(self, kind: str, owner: str, key: str | None = None) -> None:
        self.id = secrets.token_hex(16)
        self.kind, self.owner, self.key = kind, owner, key
        self._changed = threading.Condition()
        self._state, self._done, self._total = "waiting", 0, 0
        self._result: dict[str, Any] | None = None
        self._error: dict[str, str] | None = None
        self._cancelled = False

    @property
    def state(self) -> str:
        """Waiting, running, done, failed or cancelled."""
        return self._state

    def describe(self) -> dict[str, Any]:
        """All there is to know of it."""
        with self._changed:
            return {
                "job": self.id,
                "kind": self.kind,
                "state": self._state,
                "done": self._done,
                "total": self._total,
                "result": self._result,
                "error": self._error,
            }

    def cancel(self) -> None:
        """End it as soon as it tells its progress; where it has ended, nothing happens."""
        with self._changed:
            self._cancelled = True
            if self._state == "waiting":
                self._state = "cancelled"
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it has ended, after so many seconds at most."""
        with self._changed:
            return self._changed.wait_for(lambda: self._state in ENDED, timeout)

    def run(self, work: Work) -> None:
        """Do the work, in the thread of the caller.

        Parameters
        ----------
        work : callable
            See :data:`Work`.
        """
        with self._changed:
            if self._state in ENDED:
                return
            self._state = "running"
        try:
            self._end("done", work(self._tell))
        except Cancelled:
            self._end("cancelled")
        except RequestError as error:
            self._end("failed", error=error.body["error"])
        except GddsgError as error:
            self._end("failed", error=fault_of(error).body["error"])
        except Exception:
            _log.exception("A job failed.")
            message = {
                "code": "internal",
                "message": "The job failed by a fault of the service.",
                "hint": "See its log.",
            }
            self._end("failed", error=message)

    def _tell(self, done: int, total: int) -> None:
        with self._changed:
            if self._cancelled:
                raise Cancelled
            self._done, self._total = done, total

    def _end(self, state: str, result: dict[str, Any] | None = None, error: dict[str, str] | None = None) -> None:
        with self._changed:
            self._state, self._result, self._error = state, result, error
            self._changed.notify_all()


class Jobs:
    """The jobs of a service; the last ones are remembered.

    Parameters
    ----------
    workers : int
        That run at the same time.
    most_waiting : int
        More are refused.
    most_kept : int
        Jobs that have ended and can be asked about.
    """

    def __init__(self, workers: int = 2, most_waiting: int = 16, most_kept: int = 100) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="gddsg-job")
        self._most_waiting, self._most_kept = most_waiting + workers, most_kept
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def start(self, kind: str, owner: str, work: Work, key: str | None = None) -> Job:
        """Begin a job, or find the one that was begun by the same key and goes on.

        Parameters
        ----------
        kind, owner : str
            See :class:`Job`.
        work : callable
            See :data:`Work`.
        key : str or None
            By which a client may ask for the same work again.
        """
        job = Job(kind, owner, key)
        with self._lock:
            for other in self._jobs.values():
                if key is not None and other.key == key and other.state not in ENDED:
                    return other
            ended = [one.id for one in self._jobs.values() if one.state in ENDED]
            if len(self._jobs) - len(ended) >= self._most_waiting:
                raise busy("jobs", 5)
            for number in ended[: max(len(self._jobs) - self._most_kept, 0)]:
                del self._jobs[number]
            self._jobs[job.id] = job
        self._pool.submit(job.run, work)
        return job

    def find(self, number: str) -> Job:
        """The job of that number; one that there is not is a :class:`RequestError`."""
        job = self._jobs.get(number)
        if job is None:
            raise RequestError(404, "unknown_job", "There is no such job, or it ended long ago.", "Begin it once more.")
        return job

    def close(self) -> None:
        """Cancel what waits and runs, and end."""
        for job in list(self._jobs.values()):
            job.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)
