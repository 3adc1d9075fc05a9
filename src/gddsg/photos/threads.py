"""Work on many photos by several threads, with results in the order of the photos and within a budget of memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Condition
from typing import TypeVar

from gddsg.errors import PhotoError

S = TypeVar("S")
T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Called with the number of photos dealt with so far, and of all photos."""

_PARTS_AHEAD = 16  # a million photos must not wait in memory
_BYTES_AHEAD = 100_000_000  # of results that wait for their turn, unless the threads need more to be busy at all


class Room:
    """Bytes that threads may use at the same time. Who wants more than is free waits, first come, first served.

    Who holds room never waits for more of the same: two that did would wait for each other.

    Parameters
    ----------
    total : int
        Bytes in all.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = total
        self._queue: deque[object] = deque()
        self._changed = Condition()

    @contextmanager
    def taken(self, wanted: int) -> Iterator[None]:
        """Wait for room, and give it back in the end, whatever happens in between.

        Parameters
        ----------
        wanted : int
            Bytes.
        """
        self.take(wanted)
        try:
            yield
        finally:
            self.give_back(wanted)

    def take(self, wanted: int, *, wait: bool = True) -> bool:
        """Whether there is room, which is then taken; without ``wait`` the answer may be no.

        Parameters
        ----------
        wanted : int
            Bytes; more than there are in all is a :class:`PhotoError`, since waiting would be in vain.
        wait : bool
            Until those who hold room, and those who came before, have given it back.
        """
        if wanted > self.total:
            raise PhotoError(f"it takes {wanted:,} bytes of memory, and at most {self.total:,} are used")
        turn = object()
        with self._changed:
            self._queue.append(turn)
            try:
                if wait:
                    self._changed.wait_for(lambda: self._fits(turn, wanted))
                fits = self._fits(turn, wanted)
                self._free -= wanted if fits else 0
                return fits
            finally:
                self._queue.remove(turn)
                self._changed.notify_all()

    def give_back(self, amount: int) -> None:
        """Let others use what was taken.

        Parameters
        ----------
        amount : int
            Bytes.
        """
        with self._changed:
            self._free += amount
            self._changed.notify_all()

    def _fits(self, turn: object, wanted: int) -> bool:
        return self._queue[0] is turn and wanted <= self._free


def map_in_parts(
    work: Callable[[Sequence[S]], list[T]],
    items: Sequence[S],
    size: int,
    threads: int,
    weigh: Callable[[T], int] = lambda _: 0,
) -> Generator[T, None, None]:
    """Results of ``work`` on all items, one by one and in order; like ``pool.map``, but only some parts ahead.

    Parameters
    ----------
    work : callable
        Gives a list of results, one for each of the items it is given.
    items : sequence
        What to work on.
    size : int
        Items that ``work`` is given at a time.
    threads : int
        How many work at the same time.
    weigh : callable
        Bytes that a result takes while it waits.
    """
    waiting: deque[Future[list[T]]] = deque()
    heaviest, ahead = 1, threads
    with ThreadPoolExecutor(threads) as pool:
        try:
            for start in range(0, len(items), size):
                waiting.append(pool.submit(work, items[start : start + size]))
                if len(waiting) < ahead:
                    continue
                results = waiting.popleft().result()
                heaviest = max(heaviest, sum(map(weigh, results)))
                ahead = max(min(_PARTS_AHEAD, _BYTES_AHEAD // heaviest), threads)
                yield from results
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
