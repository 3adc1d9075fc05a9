"""Work on many photos by several threads, with results in the order of the photos."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Called with the number of photos dealt with so far, and of all photos."""

_PARTS_AHEAD = 16  # a million photos must not wait in memory


def map_in_parts(
    work: Callable[[Sequence[S]], list[T]], items: Sequence[S], size: int, threads: int
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
    """
    waiting: deque[Future[list[T]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for start in range(0, len(items), size):
                waiting.append(pool.submit(work, items[start : start + size]))
                if len(waiting) >= _PARTS_AHEAD:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
