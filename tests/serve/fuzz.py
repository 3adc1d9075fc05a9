"""``make fuzz-serve``: schemathesis asks the service whatever its OpenAPI document allows, and more.

``python -m tests.serve.fuzz [--examples 200]`` starts a service with three classes and looks for 5xx answers; 503 on
purpose is one of those it would report, and none should come. It needs ``pip install 'gddsg[fuzz]'``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2
from tests.serve.kills import Server
from tests.serve.samples import files


def main() -> int:
    """Ask, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=200)
    given = parser.parse_args()
    beside = Path(sys.executable).with_name("schemathesis")
    program = str(beside) if beside.exists() else shutil.which("schemathesis")
    if program is None:
        sys.stdout.write("Skipped: schemathesis is not installed; pip install 'gddsg[fuzz]'\n")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "models").mkdir()
        server = Server(Path(folder) / "models" / "m.gddsg", large=0)
        try:
            for colour in ("red", "green", "blue"):
                path = f"{server.address}/v1/classes/{colour}/images"
                httpx2.post(path, files=files(colour), timeout=60).raise_for_status()
            command = [program, "run", f"{server.address}/openapi.json", "--checks", "not_a_server_error"]
            return subprocess.run([*command, "--max-examples", str(given.examples)], cwd=folder).returncode
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
