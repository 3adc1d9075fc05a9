"""The service as a process."""

from __future__ import annotations

import gc
import signal
import socket
from collections.abc import Callable, Collection

import uvicorn
from threadpoolctl import threadpool_limits

from gddsg.errors import InputError
from gddsg.serve.app import create_app
from gddsg.serve.limits import Limits
from gddsg.serve.security import is_loopback
from gddsg.serve.studio import Studio

_BACKLOG = 512
_SECONDS_TO_END = 5


def serve(
    studio: Studio,
    host: str,
    port: int,
    *,
    allow_hosts: Collection[str] = (),
    limits: Limits | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Answer requests until the process is told to end.

    Parameters
    ----------
    studio : Studio
        That does the work; closed in the end.
    host, port : str and int
        Where to listen; port 0 takes one that is free.
    allow_hosts : collection of str
        Further names that the service has, such as that of a reverse proxy.
    limits : Limits or None
        What a client may want.
    ready : callable or None
        Told the address as soon as requests are answered.
    """
    loopback = is_loopback(host)
    if not loopback and not studio.journal.tokens():
        raise InputError(
            f"--host {host} would let other machines reach the service, and it has no token. Make one first: "
            f"gddsg token add {studio.path} NAME --rights teach; or leave --host out to serve this machine alone."
        )
    listening = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}"
    app = create_app(studio, hosts={host, *allow_hosts}, loopback=loopback, limits=limits)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # an address that a client makes up is nobody's
        timeout_graceful_shutdown=_SECONDS_TO_END,
        ws="none",
        lifespan="on",
    )
    server = _Server(config, lambda: ready(address) if ready is not None else None)
    gc.freeze()  # what is there by now stays: no collection need look at it again
    # uvicorn ends in order and then gives itself the signal once more: who called us has things to clear away, too
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # batches are spread over the cores, and threads of a single product would only wait for cores, busily
        with threadpool_limits(1, "blas"):
            server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


class _Server(uvicorn.Server):
    """Tells when it answers.

    Parameters
    ----------
    config : uvicorn.Config
        Of the server.
    ready : callable
        Called then.
    """

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InputError(
            f"The service cannot listen at {host}, port {port} ({error.strerror or error}). "
            "Name another port with --port; 0 takes one that is free."
        ) from error
