"""Empty environments, and what is installed into them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Environment:
    """A virtual environment that has nothing of the one it was made from.

    Parameters
    ----------
    folder : Path
        Where it is made.
    base : Environment or None
        Whose packages it sees besides its own, so that torch is not installed for every extra anew.
    """

    def __init__(self, folder: Path, base: Environment | None = None) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.programs = folder / ("Scripts" if os.name == "nt" else "bin")
        self.python = self.programs / "python"
        if base is not None:
            (self.packages / "base.pth").write_text(f"{base.packages}\n", encoding="utf-8")

    @property
    def packages(self) -> Path:
        """Folder of what is installed."""
        found = self.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        return Path(found.stdout.strip())

    def install(self, *what: str | Path) -> None:
        """Install packages, in the versions that tests are known to pass with unless PINS=none says otherwise."""
        pins = [] if os.environ.get("PINS") == "none" else ["-c", ROOT / "constraints.txt"]
        # pip's warnings are about the places where it looks
        self.run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins, *what)

    def run(self, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run Python; what it prints is given back, and an error of it is one here."""
        done = self.try_run(*arguments, cwd=cwd)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, arguments))}\n{done.stdout}\n{done.stderr}")
        return done

    def try_run(self, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """The same, whatever becomes of it."""
        # what tests are run with must not be found: neither this checkout nor a package beside it
        cleared = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        return subprocess.run(
            [self.python, *arguments],
            cwd=cwd,
            env={**cleared, "PYTHONUTF8": "1", "PYTHONNOUSERSITE": "1"},
            capture_output=True,
            text=True,
            encoding="utf-8",
        )


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    start = time.monotonic()
    print(f"{what} …", end=" ", flush=True)
    yield
    print(f"{time.monotonic() - start:.0f} s", flush=True)


def built_wheel() -> Path:
    """The wheel in dist/, which `make wheel` builds."""
    found = sorted((ROOT / "dist").glob("gddsg-*.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise SystemExit("There is no wheel in dist/. Build it: make wheel")
    return found[-1]
