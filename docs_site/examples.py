"""The programs in ``examples/``, each with what it prints."""

from __future__ import annotations

from docs_site.links import ROOT

PAGE = "examples.md"
_FOLDER = ROOT / "examples"


def section() -> str:
    """All of them, for the end of the page."""
    return "\n".join(_shown(path.stem) for path in sorted(_FOLDER.glob("*.py")))


def _shown(name: str) -> str:
    code, printed = (_FOLDER / f"{name}.py").read_text(), (_FOLDER / "output" / f"{name}.txt").read_text()
    return f"## {name}.py\n\n```python\n{code}```\n\nprints\n\n```text\n{printed}```\n"
