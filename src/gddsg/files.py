"""Files that are replaced in one step."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(target: Path, content: bytes) -> None:
    """Write ``content`` to ``target``; a reader, a second writer or a kill meets the old file or the new one, whole."""
    temporary = target.with_name(f".gddsg-{os.getpid()}-{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
