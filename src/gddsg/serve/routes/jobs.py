"""Long work: how far it is, and its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from gddsg.serve.faults import RequestError
from gddsg.serve.jobs import ENDED, Job
from gddsg.serve.routes.common import InService, Reader, errors
from gddsg.serve.schemas import JobDescription

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_OF_SILENCE = 15.0  # proxies close connections on which nothing happens


@router.get("/{number}", response_model=JobDescription, responses=errors(404))
async def get_job(number: str, service: InService, client: Reader) -> Any:
    """A job, and its result once it is done."""
    return service.jobs.find(number).describe()


@router.get(
    "/{number}/events",
    response_class=StreamingResponse,
    responses=errors(404) | {200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."}},
)
async def follow_job(number: str, service: InService, client: Reader) -> StreamingResponse:
    """Server-sent events: ``progress`` while it goes on, then ``done``, ``failed`` or ``cancelled``."""
    job = service.jobs.find(number)
    return StreamingResponse(_events(job), media_type="text/event-stream")


@router.delete("/{number}", response_model=JobDescription, responses=errors(404))
async def cancel_job(number: str, service: InService, client: Reader) -> Any:
    """Cancel a job; what it has changed before stays, and nothing is left half done."""
    job = service.jobs.find(number)
    if client.name != job.owner and client.rights != "teach":
        raise RequestError(
            403, "not_yours", "Somebody else began this job.", "Ask them, or use a token that may teach."
        )
    job.cancel()
    return job.describe()


async def _events(job: Job) -> AsyncIterator[bytes]:
    told: dict[str, Any] = {}
    silent = 0.0
    while True:
        now = job.describe()
        ended = now["state"] in ENDED
        if now != told:
            event = now["state"] if ended else "progress"
            yield f"event: {event}\ndata: {json.dumps(now)}\n\n".encode()
            told, silent = now, 0.0
        elif silent > _SECONDS_OF_SILENCE:
            yield b": still there\n\n"
            silent = 0.0
        if ended:
            return
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        silent += _SECONDS_BETWEEN_LOOKS
