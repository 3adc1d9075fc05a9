"""The model as a whole: what it is, advice, pictures, export, audit, health and numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any, BinaryIO
from urllib.parse import quote

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST

from gddsg.serve.routes.common import InService, Reader, Teacher, errors
from gddsg.serve.schemas import AdviceList, Audit, Health, ModelDescription

router = APIRouter(tags=["model"])

_PIECE = 1 << 18
_BINARY: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}


@router.get("/healthz", response_model=Health)
async def get_health(service: InService) -> Any:
    """Whether the service can answer; open to everybody."""
    snapshot = await service.read(service.studio.current)
    return {"status": "ok", "classes": len(snapshot.cards)}


@router.get("/metrics", response_class=Response, responses=errors() | {200: {"content": {"text/plain": {}}}})
async def get_metrics(service: InService, client: Reader) -> Response:
    """Numbers for Prometheus."""
    return Response(await service.read(service.metrics.text), media_type=CONTENT_TYPE_LATEST)


@router.get("/v1/model", response_model=ModelDescription, responses=errors())
async def get_model(service: InService, client: Reader) -> Any:
    """The model: groups, graph of classes that look alike, size, versions."""
    found = await service.read(service.studio.describe)
    limits = {"files": service.limits.files, "bytes": service.limits.body_bytes}
    return found | {"rights": client.rights, "limits": limits}


@router.get("/v1/advice", response_model=AdviceList, responses=errors())
async def get_advice(service: InService, client: Reader) -> Any:
    """What would help, in plain sentences; it comes from the cards."""
    return {"advice": [asdict(one) for one in await service.read(service.studio.advice)]}


@router.get(
    "/v1/thumbnails/{number}",
    response_class=Response,
    responses=errors(404) | {200: {"content": {"image/jpeg": {}}, "description": "A small picture."}},
)
async def get_thumbnail(
    number: Annotated[str, Path(pattern="^[0-9a-f]{16}$")], service: InService, client: Reader
) -> Response:
    """A small picture of a photo, where the service may keep them."""
    content = await service.read(service.studio.thumbnail, number)
    return Response(content, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=86400"})


@router.get("/v1/export/model", response_class=StreamingResponse, responses=errors(409) | _BINARY)
async def export_model(service: InService, client: Reader) -> StreamingResponse:
    """The model file, for gddsg on another machine."""
    file = await service.read(service.studio.open_model)
    headers = _download(service.studio.path.name) | {"Content-Length": str(os.fstat(file.fileno()).st_size)}
    return StreamingResponse(_pieces(file), media_type="application/octet-stream", headers=headers)


@router.get("/v1/export/onnx", response_class=Response, responses=errors(409) | _BINARY)
async def export_onnx(service: InService, client: Reader) -> Response:
    """The model as an ONNX network that runs without this library."""
    content = await service.write(service.studio.export_onnx)
    headers = _download(f"{service.studio.path.stem}.onnx")
    return Response(content, media_type="application/octet-stream", headers=headers)


@router.get("/v1/audit", response_model=Audit, responses=errors())
async def get_audit(
    service: InService, client: Teacher, most: Annotated[int, Query(ge=1, le=1000, description="Entries.")] = 100
) -> Any:
    """Who taught, forgot or renamed what, newest first."""
    found = await service.read(service.studio.journal.changes, most)
    return {"entries": [asdict(one) for one in found]}


def _download(name: str) -> dict[str, str]:
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece
