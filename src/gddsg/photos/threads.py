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

READ_AT_ONCE = 64
"""Photos a thread reads at a time: handing over fewer would take longer than reading them, if they are small."""

_PARTS_AHEAD = 16  # a million photos must not wait in memory


def in_parts(
    work: Callable[[Sequence[S]], list[T]], items: Sequence[S], size: int, threads: int
) -> Generator[T, None, None]:
    """Results of ``work`` on ``size`` items at a time; like ``pool.map``, but only some parts ahead."""
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


def tell_sometimes(progress: Progress | None, done: int, total: int) -> None:
    """Report progress for many photos at once: for those only read, each by itself would take longer than the work."""
    if progress is not None and (done % READ_AT_ONCE == 0 or done == total):
        progress(done, total)
