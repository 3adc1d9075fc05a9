"""What every request has to pass before anything is done for it, and what every answer carries."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from anyio.to_thread import run_sync
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gddsg.serve.faults import RequestError
from gddsg.serve.limits import Rate
from gddsg.serve.tokens import Client, Tokens

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts that always mean this machine."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "media-src 'self' blob:; font-src 'self'; manifest-src 'self'; worker-src 'self'; form-action 'none'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
}
"""Of every answer: a page may load nothing from elsewhere, and no other page may show or read this one."""

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN = ("/healthz", "/static/", "/openapi.json")  # for everybody; besides the page itself


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a service that listens there.

    Parameters
    ----------
    host : str
        A name or an address.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The name in a Host header, without the port, in lower case; empty where there is none.

    Examples
    --------
    >>> host_of("Studio.example:8000"), host_of("[::1]:80")
    ('studio.example', '::1')
    """
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def refuse_foreign_host(header: str, allowed: Collection[str]) -> None:
    """Refuse a request for another host: a page elsewhere may have made its name lead here (DNS rebinding).

    Parameters
    ----------
    header : str
        The Host header.
    allowed : collection of str
        Names that this service has, in lower case.
    """
    if host_of(header) not in allowed:
        raise RequestError(
            421,
            "foreign_host",
            f"This service is not {header[:100]!r}.",
            "Ask for it by the name it was started for, or start it with --allow-host NAME.",
        )


def refuse_foreign_page(method: str, headers: Mapping[str, str]) -> None:
    """Refuse a change that a page from elsewhere asks a browser for; programs send no such headers.

    Parameters
    ----------
    method : str
        Of the request.
    headers : mapping of str to str
        Of the request, by names in lower case.
    """
    if method in _SAFE:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    foreign = site not in (None, "same-origin", "none")
    if site is None and origin is not None:
        foreign = urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
    if foreign:
        raise RequestError(
            403, "foreign_page", "A page from elsewhere asked for a change.", "Use the page of this service itself."
        )


class Guard:
    """Lets pass who may, and says who it is in ``scope["client_of_studio"]``.

    Parameters
    ----------
    app : ASGIApp
        What carries out requests.
    tokens : Tokens
        Who may do what.
    hosts : collection of str
        Names that this service has.
    loopback : bool
        Whether only this machine can reach it: then, without any token, everybody may do everything.
    rate : Rate
        Of requests.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, hosts: Collection[str], loopback: bool, rate: Rate) -> None:
        self._app, self._tokens, self._loopback, self._rate = app, tokens, loopback, rate
        self._hosts = frozenset(host.lower() for host in hosts) | LOOPBACK_NAMES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry out a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        if self._tokens.stale:
            await run_sync(self._tokens.refresh)
        try:
            scope["client_of_studio"] = self._admit(scope, Headers(scope=scope))
        except RequestError as error:
            headers = error.headers | ({"WWW-Authenticate": "Bearer"} if error.status == 401 else {})
            await JSONResponse(error.body, error.status, headers)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)

    def _admit(self, scope: Scope, headers: Headers) -> Client | None:
        """Who makes a request, None where that does not matter; or an error."""
        refuse_foreign_host(headers.get("host", ""), self._hosts)
        refuse_foreign_page(scope["method"], headers)
        address = scope["client"][0] if scope.get("client") else "unknown"
        if self._loopback and not self._tokens.any():
            return Client(f"anybody at {address}", "teach")
        client = self._of_token(headers.get("authorization", ""))
        self._rate.spend(address if client is None else f"token {client.name}")
        if client is None and not _is_open(scope["path"]):
            raise RequestError(
                401,
                "no_token",
                "No token was given, or one that this service does not know.",
                "Send the header Authorization: Bearer TOKEN; gddsg token add MODEL NAME makes one.",
            )
        return client

    def _of_token(self, header: str) -> Client | None:
        kind, _, token = header.partition(" ")
        return self._tokens.find(token.strip()) if kind.lower() == "bearer" and token.strip() else None


def _is_open(path: str) -> bool:
    return path == "/" or path.startswith(_OPEN)
