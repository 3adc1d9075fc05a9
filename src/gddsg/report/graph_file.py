"""Writing a drawn graph to a file."""

from __future__ import annotations

import os
from pathlib import Path

from gddsg.errors import DataError
from gddsg.files import replace_file

__all__ = ["write_graph"]


def write_graph(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        replace_file(Path(path), content)
    except (OSError, ValueError) as error:  # ValueError: no file name, or a null character in it
        reason = getattr(error, "strerror", None) or error
        message = f"{os.fspath(path)!r}: the graph cannot be written there ({reason}). Expected a file name in an "
        message += "existing folder you may write to, with room on the disk; create the folder or choose another."
        raise DataError(message) from error
