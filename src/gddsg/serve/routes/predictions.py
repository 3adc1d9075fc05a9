"""Predictions and accuracy."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from gddsg.core.explanation import Explanation
from gddsg.data.dataset import clean_label
from gddsg.serve.answers import MOST_TOP, Answer, Question
from gddsg.serve.faults import RequestError
from gddsg.serve.feature_bodies import features_of_json, features_of_npy
from gddsg.serve.routes.common import PHOTOS_BODY, InService, Reader, Service, errors, read_photos
from gddsg.serve.schemas import Predictions, Started
from gddsg.serve.uploads import UploadedPhoto, uploaded

router = APIRouter(prefix="/v1", tags=["predictions"])

Reject = Annotated[
    float | None,
    Query(gt=0, le=1, description="Share of known inputs to keep; what is less like any class is unknown. E.g. 0.99."),
]

_FEATURES_BODY: dict[str, Any] = {
    "application/json": {
        "schema": {
            "type": "object",
            "required": ["features"],
            "additionalProperties": False,
            "properties": {"features": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}},
        },
        "example": {"features": [[0.0, 1.5, 0.2]]},
    },
    "application/x-npy": {"schema": {"type": "string", "format": "binary"}},
}


@router.post(
    "/predict",
    response_model=Predictions,
    responses=errors(409, 413, 415),
    openapi_extra={"requestBody": {"required": True, "content": PHOTOS_BODY["content"] | _FEATURES_BODY}},
)
async def predict(
    request: Request,
    service: InService,
    client: Reader,
    top: Annotated[int, Query(ge=1, le=MOST_TOP, description="Classes to name.")] = 5,
    reject: Reject = None,
    why: Annotated[bool, Query(description="Whether to say why.")] = False,
) -> Response:
    """What photos or rows of features are taken for. Photos that cannot be read are listed, the others answered."""
    question = await _read_question(request, service)
    asked = Question(question.photos, question.features, top, reject, why)
    found = await asyncio.wrap_future(service.studio.ask(asked))
    kind = "photo" if asked.features is None else "features"
    service.metrics.predictions.labels(kind).inc(len(found.predictions))
    return JSONResponse(_describe(found))  # its form is tested, and checking it each time would cost more than asking


async def _read_question(request: Request, service: Service) -> Question:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return Question(tuple(await read_photos(request, service.limits)))
    readers = {"application/json": features_of_json, "application/x-npy": features_of_npy}
    if kind not in readers:
        raise RequestError(
            415,
            "unknown_kind",
            f"The body is of the kind {kind[:60]!r}.",
            f"Send multipart/form-data with photos, or features as {' or '.join(readers)}.",
        )
    body = await request.body()
    read = readers[kind]
    features = read(body) if len(body) < _SMALL else await service.read(read, body)
    if not 0 < len(features) <= service.limits.rows:
        raise RequestError(
            422, "rows", f"{len(features)} rows were given.", f"Send 1 to {service.limits.rows} rows at a time."
        )
    return Question(features=features)


_SMALL = 100_000  # bytes that are read faster than a thread is asked to


def _describe(found: Answer) -> dict[str, Any]:
    predictions = []
    for place, one in enumerate(found.predictions):
        predictions.append(
            {
                "name": one.name,
                "label": one.label,
                "probability": one.probability,
                "unknown": one.rejected,
                "novelty": one.novelty,
                "group": found.groups[place],
                "top": [{"label": label, "probability": probability} for label, probability in one.top],
                "why": _why(found.reasons[place]) if found.reasons else None,
            }
        )
    skipped = [{"name": one.name, "reason": one.reason} for one in found.skipped]
    return {"revision": found.revision, "predictions": predictions, "skipped": skipped}


def _why(found: Explanation) -> dict[str, Any]:
    return {
        "group_probability": found.group_probabilities[found.group],
        "group_members": list(map(str, found.group_members)),
        "rivals": [
            {
                "label": str(one.label),
                "probability": one.probability,
                "group": one.group,
                "similar": one.similar,
                "distance": one.distance,
            }
            for one in found.rivals
        ],
        "novelty_limit": found.novelty_limit,
        "unlike_every_class": found.unlike_every_class,
        "text": str(found),
    }


@router.post(
    "/evaluate",
    status_code=202,
    response_model=Started,
    responses=errors(409, 413, 415),
    openapi_extra={"requestBody": PHOTOS_BODY},
)
async def evaluate(request: Request, service: InService, client: Reader, reject: Reject = None) -> Any:
    """Accuracy on photos that the model has not learnt; their file names are CLASS/FILE. It goes on as a job."""
    photos = [_labelled(photo) for photo in await read_photos(request, service.limits)]
    work = partial(service.studio.evaluate, photos, reject)
    return {"job": service.jobs.start("evaluate", client.name, work).id}


def _labelled(photo: UploadedPhoto) -> UploadedPhoto:
    """A photo with the class that its name says: the name of the folder it is in."""
    folders = photo.name.replace("\\", "/").split("/")
    label = clean_label(folders[-2]) if len(folders) > 1 else ""
    if not label:
        raise RequestError(
            422,
            "no_class",
            f"The file name {photo.name!r} names no class.",
            "Call the files CLASS/FILE, as in fox/1.jpg.",
        )
    return uploaded(photo.name, photo.content, label)
