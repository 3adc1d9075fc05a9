"""Build wheel and sdist, look at what is in them, and use each in an empty environment: `make wheel`.

With `--build-only` both are built and looked at, which takes no more than a minute.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tests.install.environments import ROOT, Environment, timed
from tests.test_examples import EXAMPLES, stored

MOST_MEGABYTES = {".whl": 8, ".gz": 20}  # the embedded hybrid ViT takes five; records and pictures are in the sdist
NOT_IN_SDIST = {".ci/run", ".gitignore"}  # .gitignore is there, put by hatch
USER_PROGRAM = ROOT / "tests" / "typing" / "user_program.py"


def build(tools: Environment) -> list[Path]:
    """Wheel and sdist; the wheel is built from the sdist, as who builds it anew will do."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    tools.run("-m", "build", "--outdir", ROOT / "dist", ROOT)
    found = [*(ROOT / "dist").glob("*.whl"), *(ROOT / "dist").glob("*.tar.gz")]
    assert len(found) == len(list((ROOT / "dist").iterdir())) == 2, found
    tools.run("-m", "twine", "check", "--strict", *found)
    return found


def look_into(wheel: Path, sdist: Path) -> None:
    """What is in them, and what is not."""
    inside = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in inside}
    assert tops == {"gddsg", next(top for top in tops if top.endswith(".dist-info"))}, tops
    for name in ("gddsg/py.typed", "gddsg/serve/page/index.html"):
        assert name in inside, name
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in inside)
    strays = [name for name in inside if "test" in name.lower() or name.endswith((".pyc", ".sqlite", ".gddsg"))]
    assert set(strays) <= {"gddsg/backbones/self_test.py"}, strays
    ours = {f"gddsg/{path.relative_to(ROOT / 'src' / 'gddsg').as_posix()}" for path in tracked("src")}
    assert ours == {name for name in inside if name.startswith("gddsg/")}
    for path in (wheel, sdist):
        megabytes = path.stat().st_size / 1e6
        print(f"  {path.name}: {megabytes:.1f} MB")
        assert megabytes < MOST_MEGABYTES[path.suffix]
    with tarfile.open(sdist) as tar:
        inside = {name.partition("/")[2] for name in tar.getnames()}
    missing = {path.relative_to(ROOT).as_posix() for path in tracked(".")} - inside - NOT_IN_SDIST
    assert not missing, f"not in the sdist: {sorted(missing)}"


def tracked(folder: str) -> list[Path]:
    """Files of the project; in an unpacked sdist, where there is no git, those that are there."""
    command = ["git", "ls-files", "-z", folder]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in found.split("\0") if name]


def use(package: Path, folder: Path, types: bool) -> None:
    """Install a wheel or an sdist into an empty environment, run the demo, the examples and the types in it."""
    place = folder / package.suffix[1:]
    place.mkdir()
    with timed(f"{package.name} into an empty environment"):
        environment = Environment(place / "venv")
        environment.install(package)
    with timed("gddsg demo"):
        gddsg = environment.programs / "gddsg"
        done = subprocess.run([gddsg, "demo", "--folder", "demo"], cwd=place, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        assert "equal bit by bit" in done.stdout, done.stdout
    examples = place / "examples"
    examples.mkdir()
    for example in EXAMPLES:
        with timed(example.stem):
            shutil.copy(example, examples)
            found = environment.run(example.name, cwd=examples).stdout
            assert found == stored(example), found
    if types:
        with timed("mypy --strict on a program of a user"):
            environment.install("mypy")
            shutil.copy(USER_PROGRAM, place)
            environment.run("-m", "mypy", "--strict", "--python-version", "3.11", USER_PROGRAM.name, cwd=place)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gddsg-wheel-") as name:
        folder = Path(name)
        with timed("Building"):
            tools = Environment(folder / "tools")
            tools.run("-m", "pip", "install", "--quiet", "build", "twine")
            wheel, sdist = build(tools)
        look_into(wheel, sdist)
        if "--build-only" not in sys.argv:
            use(wheel, folder, types=True)
            use(sdist, folder, types=False)


if __name__ == "__main__":
    main()
