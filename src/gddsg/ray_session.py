"""Ray, for the time of a run: started on this machine alone, or found at an address."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import socket
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from gddsg.errors import InputError, MissingExtraError
from gddsg.working_folder import working_folder

_OBJECT_STORE_BYTES = 500_000_000  # what comes on top is spilled to the disk
_LONGEST_FOLDER = 36  # letters: below it Ray makes sockets, whose names have 107 at most
_PATIENCE = 5.0  # seconds for a cluster to answer; Ray itself would wait for minutes, and then end this process
_QUIET = {
    "RAY_task_oom_retries": "3",  # else what needs too much memory is tried for ever
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # otherwise what Ray starts listens to the whole network, and runs what it is sent
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
# A secret of this process, so that no other user of the machine can send work to what it starts. Without one Ray would
# write one into the user's home folder, and leave it there.
_SECRET = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
_imported_with: dict[str, str] = {}


def require_ray() -> None:
    """An error that helps where Ray is not installed; it is not imported yet."""
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError(
            "The engine ray was asked for, and Ray is not installed. Install it with pip install 'gddsg[ray]', or "
            "leave --engine out."
        )


def _import_ray() -> Any:
    """Ray, which tells nobody that it is used."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    require_ray()
    with _quiet():
        return importlib.import_module("ray")


@contextlib.contextmanager
def ray_session(address: str | None, cores: int) -> Iterator[Any]:
    """Ray, running; what was started for the block is gone after it.

    What is started has no dashboard, reports to nobody, takes work from this process alone and, unless the program
    imported Ray before, listens on 127.0.0.1 only.

    Parameters
    ----------
    address : str or None
        Of a cluster: ``host:port``, ``ray://host:port`` or ``auto``. Without one, the Ray that this program runs
        already, or else one for this machine alone.
    cores : int
        That Ray may use where it is started.
    """
    if address is not None:
        ray = _import_ray()
        with _joined(ray, address):
            yield ray
    else:
        with _started(cores) as ray:
            yield ray


@contextlib.contextmanager
def _joined(ray: Any, address: str) -> Iterator[None]:
    if ray.is_initialized():  # by the program itself, which knows to which cluster
        yield
        return
    _require_answer(address)
    try:
        with _quiet():
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    except (Exception, SystemExit) as error:  # Ray raises whatever it likes here, and may try to end the process
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(_nobody(address, reason)) from error
    try:
        yield
    finally:
        with _quiet():
            ray.shutdown()


def _require_answer(address: str) -> None:
    """Ask whether anybody listens, before Ray does: it takes minutes to find out that nobody does."""
    if address == "auto":  # Ray looks for a cluster on this machine, which takes no time
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 2**16):
        raise InputError(
            f"The address {address!r} of a Ray cluster was given; expected host:port, ray://host:port or auto."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except OSError as error:
        raise InputError(_nobody(address, error.strerror or str(error))) from error


def _nobody(address: str, why: str) -> str:
    return (
        f"There is no Ray cluster at {address} ({why}). Start one with ray start --head and name the address that it "
        "prints, or leave --address out to have Ray started on this machine."
    )


@contextlib.contextmanager
def _started(cores: int) -> Iterator[Any]:
    wanted = _environment()
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        ray = _import_ray()
        if ray.is_initialized():
            yield ray
            return
        with working_folder() as folder:
            # Ray opens its folder to everybody, which ours must not be
            place = {"_temp_dir": str(folder / "ray")} if len(str(folder)) <= _LONGEST_FOLDER else {}
            with _quiet():
                ray.init(
                    address="local",
                    num_cpus=cores,
                    object_store_memory=_OBJECT_STORE_BYTES,
                    include_dashboard=False,
                    log_to_driver=False,
                    configure_logging=False,
                    logging_level="ERROR",
                    _node_ip_address="127.0.0.1",
                    **place,
                )
            try:
                yield ray
            finally:
                with _quiet():
                    ray.shutdown()
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _environment() -> dict[str, str]:
    """What Ray reads when it is imported. Where the program has done that already, it is too late."""
    if "ray" in sys.modules and not _imported_with:
        return {}
    if not _imported_with:
        given = any(name.startswith("RAY_AUTH_") for name in os.environ)  # somebody has decided for himself
        _imported_with.update(_QUIET, **({} if given else _SECRET))
    return dict(_imported_with)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Ray warns of what is deprecated in itself, which is nothing to our user."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
