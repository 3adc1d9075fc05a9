"""Numbers for Prometheus."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gddsg.serve.studio import Studio

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """What the service counts.

    Parameters
    ----------
    studio : Studio
        Asked for its sizes whenever somebody looks.
    """

    def __init__(self, studio: Studio) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter("gddsg_requests", "Requests answered.", labels, registry=self.registry)
        self.seconds = Histogram(
            "gddsg_request_seconds",
            "Time to the answer.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.predictions = Counter("gddsg_predictions", "Inputs classified.", ("kind",), registry=self.registry)
        self.learnt = Counter("gddsg_photos_learnt", "Photos learnt.", registry=self.registry)
        sizes = {
            "gddsg_classes": ("Classes of the model.", lambda: len(studio.current().cards)),
            "gddsg_photos": ("Photos that the model was learnt from.", lambda: studio.current().photos),
            "gddsg_waiting_photo_requests": ("Requests that wait for a worker.", lambda: studio.photo_batches.waiting),
            "gddsg_waiting_feature_requests": ("The same, of features.", lambda: studio.feature_batches.waiting),
        }
        for name, (text, look) in sizes.items():
            Gauge(name, text, registry=self.registry).set_function(look)

    def text(self) -> bytes:
        """All numbers in the form that Prometheus reads."""
        return generate_latest(self.registry)


class Measured:
    """Counts and times the requests that an application answers.

    Parameters
    ----------
    app : ASGIApp
        The application.
    metrics : Metrics
        Where they are counted.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry out a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                # the template, not the path: names of classes are endless, and nobody else's business
                route = getattr(scope.get("route"), "path", "other")
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self._metrics.requests.labels(method, route, message["status"]).inc()
                self._metrics.seconds.labels(method, route).observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, counted)


_METHODS = frozenset({"GET", "POST", "PATCH", "DELETE"})
