"""Which commit of this project the code is from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_PLACE = Path("src", "gddsg")


def code_revision(package: Path = _PACKAGE) -> str:
    """The commit this code is from.

    Parameters
    ----------
    package : Path
        Folder of the package, with links followed.

    Returns
    -------
    str
        With a mark where any file of the package was changed since; empty outside a checkout of this project. An
        environment inside the repository of another project is no such checkout.
    """
    top = _git(package, "rev-parse", "--show-toplevel")
    if not top or Path(top) / _PLACE != package:
        return ""
    head = _git(package, "rev-parse", "--short=12", "HEAD")
    known = _git(package, "ls-files", "--", "__init__.py")
    if not head or not known:
        return ""
    return head + ("+changes" if _git(package, "status", "--porcelain", "--", ".") else "")


def _git(folder: Path, *arguments: str) -> str:
    """What git says; empty where it fails or is not installed."""
    # Variables such as GIT_DIR, which git sets for its hooks, would have it look at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", "core.fsmonitor=false", *arguments]
    try:
        found = subprocess.run(command, cwd=folder, env=environment, capture_output=True)
    except OSError:
        return ""
    return "" if found.returncode else os.fsdecode(found.stdout).strip()
