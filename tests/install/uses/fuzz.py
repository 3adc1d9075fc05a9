"""Schemathesis, which `make fuzz-serve` runs, can be started."""

import importlib.util
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("schemathesis") is None:
    raise SystemExit("Nobody but `make fuzz-serve` needs it, which says: pip install 'gddsg[fuzz]'")
program = Path(sys.executable).with_name("schemathesis")
subprocess.run([program, "--version"], check=True, stdout=subprocess.DEVNULL)
