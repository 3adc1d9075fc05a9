"""What the package takes from outside."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {canonicalize_name(line.split("==")[0]) for line in lines if line and not line.startswith("#")}


def required(requirements, extras=frozenset()):
    found = [Requirement(text) for text in requirements]
    return [r for r in found if r.marker is None or any(r.marker.evaluate({"extra": e}) for e in {"", *extras})]


def transitive(requirements):
    """Names of all packages that an installation here consists of."""
    names, left = set(), list(requirements)
    while left:
        one = left.pop()
        name = canonicalize_name(one.name)
        if (name, frozenset(one.extras)) in names or name == "gddsg":
            continue
        names.add((name, frozenset(one.extras)))
        try:
            left += required(distribution(name).requires or (), one.extras)
        except PackageNotFoundError:
            pytest.skip(f"{name} is not installed here")
    return {name for name, _ in names}


def test_every_package_of_an_installation_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["vote"], *extras["hf"], *extras["dev"]]
    missing = transitive(required(wanted)) - pinned()
    # torch for CPUs needs none of the GPU packages that the general build names
    assert {name for name in missing if not name.startswith(("nvidia-", "cuda-", "triton"))} == set()


def test_pins_are_versions_and_nothing_else():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert not line or line.startswith("#") or re.fullmatch(r"[a-z0-9.-]+==[0-9a-z.]+", line), line


def test_no_code_is_taken_from_the_package_of_the_weights():
    assert "efficientnet-lite-pytorch" not in (ROOT / "pyproject.toml").read_text()
    assert "efficientnet_lite_pytorch" not in "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
