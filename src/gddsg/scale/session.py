"""Ray, for the time of a run: started on this machine alone, or found at an address."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from gddsg.backbones.base import available_cores
from gddsg.errors import InputError, MissingExtraError
from gddsg.working_folder import working_folder

_OBJECT_STORE_BYTES = 500_000_000  # what comes on top is spilled to the disk
_LONGEST_FOLDER = 40  # letters: below it Ray makes sockets, whose names have 107 at most
_QUIET = {
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
            "Learning on several workers needs Ray. Install it with: pip install 'gddsg[ray]'; or leave --engine out."
        )


def _import_ray() -> Any:
    """Ray, which tells nobody that it is used."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    require_ray()
    with _quiet():
        return importlib.import_module("ray")


@contextlib.contextmanager
def ray_session(address: str | None) -> Iterator[Any]:
    """Ray, running; what was started for the block is gone after it.

    Parameters
    ----------
    address : str or None
        Of a cluster. Without one, the Ray that this program runs already, or else one for this machine alone.
    """
    if address is not None:
        ray = _import_ray()
        with _joined(ray, address):
            yield ray
    else:
        with _started() as ray:
            yield ray


@contextlib.contextmanager
def _joined(ray: Any, address: str) -> Iterator[None]:
    if ray.is_initialized():  # by the program itself, which knows to which cluster
        yield
        return
    try:
        with _quiet():
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"There is no Ray cluster at {address!r} ({reason}). Start one with ray start --head, and give the address "
            "that it prints; or leave the address out to work on this machine."
        ) from error
    try:
        yield
    finally:
        with _quiet():
            ray.shutdown()


@contextlib.contextmanager
def _started() -> Iterator[Any]:
    wanted = _environment()
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        ray = _import_ray()
        if ray.is_initialized():
            yield ray
            return
        with working_folder() as folder:
            place = {"_temp_dir": str(folder)} if len(str(folder)) <= _LONGEST_FOLDER else {}
            with _quiet():
                ray.init(
                    address="local",
                    num_cpus=available_cores(),
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
