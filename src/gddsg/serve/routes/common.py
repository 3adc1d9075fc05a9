"""What all routes share: who asks, what came along, and where the work is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, Header, Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from gddsg.serve.faults import RequestError
from gddsg.serve.jobs import Jobs
from gddsg.serve.limits import Limits
from gddsg.serve.metrics import Metrics
from gddsg.serve.schemas import Error
from gddsg.serve.studio import Studio
from gddsg.serve.tokens import Client
from gddsg.serve.uploads import UploadedPhoto, uploaded

T = TypeVar("T")

_MOST_FIELDS = 16
_LONGEST_KEY = 200


@dataclass(frozen=True, eq=False)
class Service:
    """All that routes work with.

    Attributes
    ----------
    studio : Studio
        That does the work.
    jobs : Jobs
        Work that goes on after the answer.
    limits : Limits
        What a client may want.
    metrics : Metrics
        What is counted.
    reading, writing : CapacityLimiter
        Threads for either: who only looks never waits for those who teach.
    """

    studio: Studio
    jobs: Jobs
    limits: Limits
    metrics: Metrics
    reading: CapacityLimiter
    writing: CapacityLimiter

    async def read(self, work: Callable[..., T], *given: Any) -> T:
        """The result of work that changes nothing, done in a thread."""
        return await run_sync(work, *given, limiter=self.reading)

    async def write(self, work: Callable[[], T]) -> T:
        """The result of work that changes something, done in a thread."""
        return await run_sync(work, limiter=self.writing)


# FastAPI gives every plain function that a route depends on a thread of its own; these wait for nothing and need none.


async def service_of(request: Request) -> Service:
    """The service that a request is for."""
    found: Service = request.app.state.service
    return found


async def reader(request: Request) -> Client:
    """Who asks, if they may read."""
    client: Client | None = request.scope["client_of_studio"]
    assert client is not None  # those without are refused, but for what is open to everybody
    return client


async def teacher(client: Annotated[Client, Depends(reader)]) -> Client:
    """Who asks, if they may teach."""
    if client.rights != "teach":
        raise RequestError(
            403,
            "may_not_teach",
            f"The token {client.name!r} allows reading alone.",
            "Use a token that may teach: gddsg token add MODEL NAME --rights teach.",
        )
    return client


async def idempotency_key(
    client: Annotated[Client, Depends(reader)],
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="Chosen by the client. The same request with the same key is carried out once.",
        ),
    ] = None,
) -> str | None:
    """The key of a request, of each client by itself."""
    if key is None:
        return None
    if not (key.isascii() and key.isprintable() and 0 < len(key) <= _LONGEST_KEY):
        raise RequestError(
            422,
            "bad_key",
            f"The Idempotency-Key is not 1 to {_LONGEST_KEY} printable ASCII characters.",
            "Take a random UUID, for example.",
        )
    return f"{client.name}\0{key}"


InService = Annotated[Service, Depends(service_of)]
Reader = Annotated[Client, Depends(reader)]
Teacher = Annotated[Client, Depends(teacher)]
Key = Annotated[str | None, Depends(idempotency_key)]


class _InMemory(MultiPartParser):
    """Photos of a request are never written to a disk; how much comes is limited before it gets here."""

    spool_max_size = 2**62
    complete = False

    def on_end(self) -> None:
        """The last boundary was met; a body without it has lost photos on its way."""
        self.complete = True

    def close(self) -> None:
        """Let go of all parts, those that were cut off, too."""
        for file in self._files_to_close_on_error:
            file.close()


async def read_photos(request: Request, limits: Limits) -> list[UploadedPhoto]:
    """The photos of a request: all parts of a multipart body that are called ``files``.

    Parameters
    ----------
    request : Request
        With the body.
    limits : Limits
        How many there may be.
    """
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise RequestError(
            415, "not_multipart", "Expected photos as multipart/form-data.", 'Send each as a part called "files".'
        )
    parser = _InMemory(request.headers, request.stream(), max_files=limits.files, max_fields=_MOST_FIELDS)
    photos = []
    try:
        form = await parser.parse()
        if not parser.complete:
            raise MultiPartException("The multipart body ends before its last boundary.")
        for name, part in form.multi_items():
            if name == "files" and isinstance(part, UploadFile):
                photos.append(uploaded(part.filename or "", await part.read()))
    except (MultiPartException, LookupError, ValueError) as error:
        message = getattr(error, "message", "") or "The multipart body cannot be read."
        raise RequestError(
            422, "bad_multipart", message, f"Send at most {limits.files} files at a time, as a browser would."
        ) from error
    finally:
        parser.close()
    if not photos:
        raise RequestError(422, "no_files", "The request has no photos.", 'Send each as a part called "files".')
    return photos


PHOTOS_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["files"],
                "properties": {"files": {"type": "array", "items": {"type": "string", "format": "binary"}}},
            }
        }
    },
}
"""OpenAPI's description of a body with photos."""

ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": Error, "description": "No token, or an unknown one."},
    403: {"model": Error, "description": "The token does not allow it, or a page from elsewhere asks."},
    421: {"model": Error, "description": "The Host header names another service."},
    422: {"model": Error, "description": "The request cannot be carried out as it is."},
    429: {"model": Error, "description": "Too many requests; Retry-After says when to come back."},
    503: {"model": Error, "description": "Too much is waiting, or the disk fails; Retry-After says when to come back."},
}
"""Answers that any request may get."""


def errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Those, and some more.

    Parameters
    ----------
    codes : int
        Of the answers that this request may get besides.
    """
    more = {
        404: "There is no such thing.",
        409: "It does not go with what is there by now.",
        410: "It is too late.",
        413: "The body is too large.",
        415: "The body is of another kind.",
    }
    return ERRORS | {code: {"model": Error, "description": more[code]} for code in codes}
