"""Each extra in an environment of its own, and what is said where it is missing: `make extras`.

The plain wheel is installed once; an environment that has one extra more sees it. `python -m tests.install.extras lite
heif` tries some. An extra that this system cannot have is told as skipped, with the reason.
"""

from __future__ import annotations

import sys
import tempfile
import tomllib
from pathlib import Path

from tests.install.environments import ROOT, Environment, built_wheel, timed

USES = Path(__file__).parent / "uses"
NOT_TRIED = {"dev": "what the tests themselves run in", "docs": "what `make docs` runs with"}
CANNOT_BE_HAD = {"timm": ("torchvision", "operator torchvision", "+cpu")}
"""Words in an error that tell: there is no build of a package here that goes with this torch."""


def without(base: Environment, extra: str) -> None:
    """The plain installation says which extra it takes."""
    done = base.try_run(USES / f"{extra}.py")
    said = done.stdout + done.stderr
    if not done.returncode or f"gddsg[{extra}]" not in said.replace("\\", ""):
        raise SystemExit(f"Without the extra {extra} it was expected to be named, and this was said:\n{said}")


def with_it(base: Environment, extra: str, wheel: Path, folder: Path) -> str:
    """What became of one use of the extra; empty if all is well."""
    environment = Environment(folder / extra, base)
    try:
        environment.install(f"{wheel}[{extra}]")
    except SystemExit as error:
        return _judged(extra, str(error))
    done = environment.try_run(USES / f"{extra}.py")
    return _judged(extra, done.stdout + done.stderr) if done.returncode else ""


def _judged(extra: str, said: str) -> str:
    """Why the extra cannot be tried here; an error that says nothing of that ends everything."""
    if any(word in said for word in CANNOT_BE_HAD.get(extra, ())):
        return "there is no torchvision here for this build of torch"
    raise SystemExit(f"The extra {extra} is not enough:\n{said}")


def main() -> None:
    wheel = built_wheel()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = sorted(set(project["optional-dependencies"]) - set(NOT_TRIED))
    wanted = sys.argv[1:] or known
    assert {path.stem for path in USES.glob("*.py")} == set(known), "each extra has one use, and each use an extra"
    with tempfile.TemporaryDirectory(prefix="gddsg-extras-") as name:
        folder = Path(name)
        with timed(f"{wheel.name} into an empty environment"):
            base = Environment(folder / "base")
            base.install(wheel)
        for extra in wanted:
            with timed(f"{extra}, missing"):
                without(base, extra)
            with timed(f"{extra}, installed"):
                trouble = with_it(base, extra, wheel, folder)
                if trouble:
                    print(f"skipped: {trouble};", end=" ")


if __name__ == "__main__":
    main()
