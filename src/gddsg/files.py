"""Files that are replaced in one step."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(target: Path, content: bytes) -> None:
    """Write ``content`` to ``target``; a reader, a second writer or a kill meets the old file or the new one, whole."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes files that only their owner may read
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
