"""How much a client may want: bytes, files, rows, and requests a second."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gddsg.serve.faults import RequestError, busy

_MEBIBYTE = 2**20
_CLIENTS_REMEMBERED = 10_000


@dataclass(frozen=True)
class Limits:
    """What a client may want.

    Attributes
    ----------
    body_bytes : int
        Of a request.
    held_bytes : int
        Of all requests that are being carried out.
    files, rows : int
        Photos or rows of features of a request.
    rate, burst : float
        Requests a second of a client, and how many at once.
    writes : int
        Changes that are prepared at the same time.
    """

    body_bytes: int = 256 * _MEBIBYTE
    held_bytes: int = 1024 * _MEBIBYTE
    files: int = 500
    rows: int = 10_000
    rate: float = 100.0
    burst: float = 200.0
    writes: int = 4


class Rate:
    """Requests that each client may still make: so many at once, and so many more each second.

    Parameters
    ----------
    rate, burst : float
        See :class:`Limits`.
    clock : callable
        Seconds.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests and when, latest client last

    def spend(self, client: str) -> None:
        """Count a request, or refuse it.

        Parameters
        ----------
        client : str
            Who makes it.
        """
        now = self._clock()
        with self._lock:
            left, then = self._left.pop(client, (self._burst, now))
            left = min(left + (now - then) * self._rate, self._burst)
            allowed = left >= 1
            self._left[client] = (left - allowed, now)
            while len(self._left) > _CLIENTS_REMEMBERED:
                self._left.popitem(last=False)
        if not allowed:
            wait = max(int((1 - left) / self._rate) + 1, 1)
            raise RequestError(
                429, "too_fast", f"More than {self._rate:g} requests a second were made.", "Wait a moment.", wait
            )


class BodyLimit:
    """Ends a request as soon as more comes than it may send, whatever it said it would.

    Parameters
    ----------
    app : ASGIApp
        What carries out requests; what is raised while it reads, it turns into an answer.
    limits : Limits
        How much may come.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._held = 0  # touched by the event loop alone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry out a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length) > self._limits.body_bytes:
            error = self._too_large()
            await JSONResponse(error.body, error.status, {"Connection": "close"})(scope, receive, send)
            return
        own = 0

        async def counted() -> Message:
            nonlocal own
            message = await receive()
            size = len(message.get("body", b""))
            own += size
            self._held += size
            if own > self._limits.body_bytes:
                raise self._too_large()
            if self._held > self._limits.held_bytes:
                raise busy("uploads", 5)
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            self._held -= own

    def _too_large(self) -> RequestError:
        return RequestError(
            413,
            "too_large",
            f"The request has more than {self._limits.body_bytes // _MEBIBYTE} MiB.",
            "Send fewer photos at a time, or smaller ones.",
        )
