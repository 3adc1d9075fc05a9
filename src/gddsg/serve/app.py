"""The service as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from gddsg.errors import GddsgError
from gddsg.serve.faults import RequestError, fault_of
from gddsg.serve.jobs import Jobs
from gddsg.serve.limits import BodyLimit, Limits, Rate
from gddsg.serve.metrics import Measured, Metrics
from gddsg.serve.routes import classes, jobs, model, predictions
from gddsg.serve.routes.common import Service
from gddsg.serve.security import Guard
from gddsg.serve.studio import Studio
from gddsg.serve.tokens import Tokens

PAGE = Path(__file__).parent / "page"
"""Folder of the web page."""

_READERS = 16  # threads
_NO_PAGE = "<!doctype html><title>gddsg</title><p>The service runs; this installation has no page."
_ABOUT = (
    "Teach a classifier of photos class by class, and ask it. Every answer is of one model. A 2xx answer to a change "
    "means that the change survives a kill or a power cut. The one 5xx answer on purpose is 503: come back later."
)


def create_app(
    studio: Studio,
    *,
    hosts: Collection[str] = (),
    loopback: bool = True,
    limits: Limits | None = None,
) -> FastAPI:
    """The application around a studio, which is closed when the application ends.

    Parameters
    ----------
    studio : Studio
        That does the work.
    hosts : collection of str
        Names that the service has, besides those of this machine.
    loopback : bool
        Whether only this machine can reach it; else every request needs a token.
    limits : Limits or None
        What a client may want.
    """
    limits = limits or Limits()
    metrics = Metrics(studio)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = Service(studio, Jobs(), limits, metrics, CapacityLimiter(_READERS), CapacityLimiter(limits.writes))
        app.state.service = service
        yield
        service.jobs.close()
        studio.close()

    app = FastAPI(
        title="gddsg studio",
        version=version("gddsg"),
        description=_ABOUT,
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    for part in (classes, predictions, jobs, model):
        app.include_router(part.router)
    _add_page(app)
    _add_error_answers(app)
    app.add_middleware(BodyLimit, limits=limits)
    app.add_middleware(
        Guard, tokens=Tokens(studio.journal), hosts=hosts, loopback=loopback, rate=Rate(limits.rate, limits.burst)
    )
    app.add_middleware(Measured, metrics=metrics)
    return app


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def get_page() -> Response:
        page = PAGE / "index.html"
        return FileResponse(page, headers={"Cache-Control": "no-cache"}) if page.exists() else HTMLResponse(_NO_PAGE)

    if PAGE.is_dir():
        app.mount("/static", StaticFiles(directory=PAGE))


def _add_error_answers(app: FastAPI) -> None:
    """Whatever goes wrong, the answer has one form and no traceback."""

    @app.exception_handler(RequestError)
    async def answer_refusal(request: Request, error: RequestError) -> Response:
        return JSONResponse(error.body, error.status, error.headers)

    @app.exception_handler(GddsgError)
    async def answer_library(request: Request, error: GddsgError) -> Response:
        return await answer_refusal(request, fault_of(error))

    @app.exception_handler(RequestValidationError)
    async def answer_invalid(request: Request, error: RequestValidationError) -> Response:
        return await answer_refusal(request, _invalid(error))

    @app.exception_handler(HTTPException)
    async def answer_http(request: Request, error: HTTPException) -> Response:
        found = RequestError(error.status_code, _CODES.get(error.status_code, "refused"), str(error.detail), _SEE)
        return JSONResponse(found.body, found.status, error.headers)

    @app.exception_handler(Exception)
    async def answer_fault(request: Request, error: Exception) -> Response:
        found = RequestError(500, "internal", "The service failed.", "This is a bug; its log says more.")
        return JSONResponse(found.body, found.status)


_CODES = {404: "not_found", 405: "wrong_method"}
_SEE = "GET /openapi.json says what there is."


def _invalid(error: RequestValidationError) -> RequestError:
    first: dict[str, Any] = dict(error.errors()[0])
    place = " ".join(str(part) for part in first["loc"])
    return RequestError(422, "invalid", f"{place}: {first['msg']}.", _SEE)
