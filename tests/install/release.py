"""Whether a tag can be released: `python -m tests.install.release v0.2.0`."""

from __future__ import annotations

import re
import sys

from tests.install.environments import ROOT


def code_version() -> str:
    """The one place where the version stands."""
    return re.findall(r'^__version__ = "(.+)"$', _text("src/gddsg/__init__.py"), re.MULTILINE)[0]


def cited_version() -> str:
    """What people are told to cite."""
    return re.findall(r"^version: (.+)$", _text("CITATION.cff"), re.MULTILINE)[0]


def released_versions() -> list[str]:
    """Versions in the changelog, newest first, without what is to come."""
    return re.findall(r"^## \[(\d.*)\] - \d{4}-\d{2}-\d{2}$", _text("CHANGELOG.md"), re.MULTILINE)


def trouble(tag: str) -> list[str]:
    """What speaks against a release of that tag."""
    found = []
    if tag != f"v{code_version()}":
        found.append(f"The tag is {tag}, and __version__ in src/gddsg/__init__.py is {code_version()}.")
    if released_versions()[:1] != [code_version()]:
        found.append(f'CHANGELOG.md has no section "## [{code_version()}] - date" below Unreleased.')
    if cited_version() != code_version():
        found.append(f"CITATION.cff has {cited_version()}.")
    return found


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit("\n".join(trouble(sys.argv[1])) or None)
