"""Requests that come at the same time are answered together: whatever has come while the workers were busy is a batch.

So nobody waits for a batch to fill: one request alone is answered at once, and the more there are, the larger batches
become.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import pairwise
from typing import Generic, TypeVar

from gddsg.serve.faults import busy

Q = TypeVar("Q")
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    """Answers questions by a call for several of them, in threads of its own.

    Parameters
    ----------
    answer : callable
        Gives one answer for each of the questions it is given.
    weigh : callable
        How much of a batch a question takes.
    size : int
        Of a batch; a question that is larger is a batch by itself.
    workers : int
        Batches that are answered at the same time.
    most_waiting : int
        Questions that wait; more are refused.
    what : str
        What is said to be waiting then.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Q]], Sequence[A]],
        weigh: Callable[[Q], int],
        *,
        size: int,
        workers: int,
        most_waiting: int = 256,
        what: str = "predictions",
    ) -> None:
        self._answer, self._weigh, self._size, self._workers = answer, weigh, size, workers
        self._most_waiting, self._what = most_waiting, what
        self._waiting: deque[tuple[Q, Future[A]]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"gddsg-batch-{number}", daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Questions that nobody works on yet."""
        return len(self._waiting)

    def ask(self, question: Q) -> Future[A]:
        """The answer to come.

        Parameters
        ----------
        question : Q
            Answered together with others that wait.
        """
        future: Future[A] = Future()
        with self._changed:
            if self._closed or len(self._waiting) >= self._most_waiting:
                raise busy(self._what)
            self._waiting.append((question, future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Answer what waits, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            self._answer_all(batch)

    def _next(self) -> list[tuple[Q, Future[A]]] | None:
        """The next batch, empty where all of its clients have gone; None when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return None
            weights = [self._weigh(question) for question, _ in self._waiting]
            room = min(self._size, -(-sum(weights) // self._workers))  # few are shared out among all workers
            taken = [self._waiting.popleft()]
            for weight, following in pairwise(weights):
                room -= weight
                if following > room:
                    break
                taken.append(self._waiting.popleft())
        return [(question, future) for question, future in taken if future.set_running_or_notify_cancel()]

    def _answer_all(self, batch: Sequence[tuple[Q, Future[A]]]) -> None:
        if not batch:
            return
        try:
            answers = self._answer([question for question, _ in batch])
        except Exception as error:
            if len(batch) == 1:
                batch[0][1].set_exception(error)
                return
            for one in batch:  # one that cannot be answered is no reason to leave the others without an answer
                self._answer_all([one])
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            future.set_result(answer)
