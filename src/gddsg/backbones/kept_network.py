"""Exported networks, kept in the cache folder: exporting takes seconds, loading what was exported milliseconds.

A network is one file, the SHA-256 of its name and content in front: no kill can part the two. Whatever is not exactly
what was written is exported anew, and so is what can be opened but does not pass the caller's test.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gddsg.backbones.private_folder import read_private, write_private
from gddsg.errors import BackboneError
from gddsg.onnx_runtime import open_session

_DIGEST_BYTES = 32
_SUFFIX = ".network"
_UNVERIFIED = re.compile(r"efficientnet-lite\d-[0-9a-f]{16}\.onnx")  # what version 0.1 kept


def kept_session(folder: Path, name: str, export: Callable[[], bytes], check: Callable[[Any], None]) -> Any:
    """A session of ONNX Runtime for the network of that name, exported where none is kept.

    Where the folder is no place for it, it is exported every time.

    Parameters
    ----------
    folder : Path
        Private to the user.
    name : str
        That says all the network depends on.
    export : callable
        Gives the network in ONNX format.
    check : callable
        Raises `BackboneError` where a session is not the right one.
    """
    kept = _read(folder, name)
    if kept is not None:
        # a whole file may still be wrong: another version of a library exported it, or somebody made it
        with contextlib.suppress(BackboneError):
            return _checked_session(kept, check)
    content = export()
    session = _checked_session(content, check)
    _keep(folder, name, content)
    return session


def _checked_session(content: bytes, check: Callable[[Any], None]) -> Any:
    try:
        session = open_session(content, threads=1)  # the caller's threads each embed an image of their own
    except ValueError as error:
        raise BackboneError(f"{error}. Install onnxruntime and torch again.") from error
    check(session)
    return session


def _read(folder: Path, name: str) -> bytes | None:
    """The network as it was written, or None."""
    try:
        kept = read_private(folder / (name + _SUFFIX))
    except OSError:
        return None
    content = kept[_DIGEST_BYTES:]
    return content if kept[:_DIGEST_BYTES] == _digest(name, content) else None


def _keep(folder: Path, name: str, content: bytes) -> None:
    # a network that cannot be kept still works; why the folder is of no use is said by the feature cache
    with contextlib.suppress(OSError):
        write_private(folder / (name + _SUFFIX), _digest(name, content) + content)
        for path in folder.iterdir():
            if _UNVERIFIED.fullmatch(path.name):
                path.unlink(missing_ok=True)


def _digest(name: str, content: bytes) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\0")
    digest.update(content)
    return digest.digest()
