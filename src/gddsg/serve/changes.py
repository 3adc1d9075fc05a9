"""Changes that clients may ask for twice and that are carried out once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gddsg.serve.faults import RequestError
from gddsg.serve.journal import Journal, Wish

Work = Callable[[bool], Mapping[str, Any]]
"""Carries out a change and gives the answer. Told True, it may have been carried out before, by a process that ended
before it could say so: what is done already then counts as done."""


class Changes:
    """Carries out changes, and writes down who wanted them and what came of it.

    Parameters
    ----------
    journal : Journal
        Where they are written down.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._under_way: set[str] = set()

    def carry_out(self, wish: Wish, work: Work) -> Mapping[str, Any]:
        """The answer to a change: of the work, or the one that was given before to the same wish.

        Parameters
        ----------
        wish : Wish
            What is wanted, by whom.
        work : callable
            See :data:`Work`.
        """
        with self._alone(wish.key):
            noted = self._journal.begin(wish)
            if not noted.same:
                raise RequestError(
                    422,
                    "key_reused",
                    "The Idempotency-Key was used for another request before.",
                    "Take a new key for every new request; repeat the very same request to get its answer again.",
                )
            if noted.answer is not None:
                return noted.answer
            try:
                answer = work(noted.again)
            except Exception as error:
                self._journal.fail(noted.number, str(error) or type(error).__name__)
                raise
            self._journal.finish(noted.number, answer)
            return answer

    @contextmanager
    def _alone(self, key: str | None) -> Iterator[None]:
        """Two requests of one key at the same time would be carried out twice."""
        with self._lock:
            if key in self._under_way:
                raise RequestError(
                    409,
                    "under_way",
                    "A request with this Idempotency-Key is being carried out.",
                    "Ask again in a moment to get its answer.",
                    retry_after=1,
                )
            if key is not None:
                self._under_way.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._under_way.discard(key or "")
