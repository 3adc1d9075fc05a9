"""Classes: what there is, teach, forget, bring back, rename."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse

from gddsg.photos.threads import Progress
from gddsg.serve.journal import Wish
from gddsg.serve.names import checked_name
from gddsg.serve.routes.common import PHOTOS_BODY, InService, Key, Reader, Service, Teacher, errors, read_photos
from gddsg.serve.schemas import ClassDescription, Classes, Forgotten, NewName, Restored, Started, Taught
from gddsg.serve.tokens import Client
from gddsg.serve.uploads import UploadedPhoto, digest_request, digest_uploads

router = APIRouter(prefix="/v1", tags=["classes"])


@router.get("/classes", response_model=Classes, responses=errors())
async def list_classes(service: InService, client: Reader) -> Any:
    """All classes, by name."""
    return await service.read(service.studio.classes)


@router.get("/classes/{name:path}", response_model=ClassDescription, responses=errors(404))
async def get_class(name: str, service: InService, client: Reader) -> Any:
    """One class."""
    return await service.read(service.studio.describe_class, name)


@router.post(
    "/classes/{name:path}/images",
    response_model=Taught,
    responses=errors(409, 413, 415) | {202: {"model": Started, "description": "It goes on as a job."}},
    openapi_extra={"requestBody": PHOTOS_BODY},
)
async def teach(
    name: str,
    request: Request,
    service: InService,
    client: Teacher,
    key: Key,
    prefer: Annotated[str, Header(description="respond-async: answer at once, with a job.")] = "",
) -> Any:
    """Learn photos of a class, new or known. What the class has learnt before is left out, so this may be repeated."""
    label = checked_name(name)
    photos = await read_photos(request, service.limits)
    work = partial(_teach, service, client, key, label, photos)
    if "respond-async" in prefer.lower():
        return _start(service, client, key, work)
    return await service.write(partial(work, None))


def _teach(
    service: Service,
    client: Client,
    key: str | None,
    label: str,
    photos: list[UploadedPhoto],
    progress: Progress | None,
) -> dict[str, Any]:
    def carry_out(again: bool) -> Mapping[str, Any]:
        found = service.studio.teach(label, photos, progress)
        service.metrics.learnt.inc(found["learnt"])
        return found

    wish = Wish(client.name, "teach", label, key, digest_uploads(f"POST /v1/classes/{label}/images", photos))
    return dict(service.studio.changes.carry_out(wish, carry_out))


def _start(service: Service, client: Client, key: str | None, work: Any) -> Response:
    """Begin a job; the one that runs, where the key is that of one."""
    job = service.jobs.start("teach", client.name, work, key)
    return JSONResponse({"job": job.id}, 202)


@router.delete("/classes/{name:path}", response_model=Forgotten, responses=errors(404))
async def forget(name: str, service: InService, client: Teacher, key: Key) -> Any:
    """Forget a class, as if it had never been learnt. For a minute that can be undone."""
    wish = Wish(client.name, "forget", name, key, digest_request("DELETE", name))
    return await service.write(partial(service.studio.changes.carry_out, wish, partial(service.studio.forget, name)))


@router.patch("/classes/{name:path}", response_model=ClassDescription, responses=errors(404))
async def rename(name: str, new: NewName, service: InService, client: Teacher, key: Key) -> Any:
    """Give a class another name; nothing else changes."""
    wish = Wish(client.name, f"rename to {new.name[:200]}", name, key, digest_request("PATCH", name, new.name))
    work = partial(service.studio.rename, name, new.name)
    return await service.write(partial(service.studio.changes.carry_out, wish, work))


@router.post("/undo/{number}", response_model=Restored, responses=errors(409, 410))
async def undo(number: str, service: InService, client: Teacher, key: Key) -> Any:
    """Bring back a class that was forgotten less than a minute ago."""
    wish = Wish(client.name, "undo", number[:64], key, digest_request("UNDO", number))
    return await service.write(
        partial(service.studio.changes.carry_out, wish, lambda again: service.studio.undo(number))
    )
