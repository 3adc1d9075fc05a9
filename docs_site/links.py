"""Links of the documentation, as they are in the repository and as the site needs them.

Pages under ``docs/`` link to other files of the repository as a code-hosting site wants it, ``../experiments/x.toml``.
On the site such a file has a page of its own under ``source/``, or is one of the pages that the site takes from the top
of the repository; a module leads to its entry in the reference.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

OTHER_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
}
"""Pages of the site that are outside of ``docs/``, and what the site calls them."""

_CODE = re.compile(r"(^ *```.*?^ *```|^ *~~~.*?^ *~~~|``[^\n]*?``|`[^`]*`)", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r"(?<=\]\()([^()\s]+)(?=\))")
_MODULE = re.compile(r"src/(gddsg/[a-z0-9_/]+)\.py")
_ELSEWHERE = re.compile(r"[a-z][a-z+.-]*:|#|//", re.IGNORECASE)


def with_targets(text: str, change: Callable[[str], str]) -> str:
    """Markdown with every target of a link or picture changed; code is left alone.

    Examples
    --------
    >>> with_targets("[a](b.md) `[c](d)`", str.upper)
    '[a](B.MD) `[c](d)`'
    """
    parts = _CODE.split(text)
    parts[::2] = [_TARGET.sub(lambda found: change(found[1]), part) for part in parts[::2]]
    return "".join(parts)


def targets(text: str) -> Iterator[str]:
    """The targets of all links and pictures, as they are written."""
    for part in _CODE.split(text)[::2]:
        yield from _TARGET.findall(part)


def repository_path(page: str) -> str:
    """Where a page of the site is in the repository."""
    return next((source for source, name in OTHER_PAGES.items() if name == page), f"docs/{page}")


def reference_page(module: str) -> str:
    """The page of the reference for a module that is in a file of that path, without its suffix.

    Examples
    --------
    >>> reference_page("gddsg/core/__init__"), reference_page("gddsg/core/metric"), reference_page("gddsg/__init__")
    ('reference/gddsg.core.md', 'reference/gddsg.core.metric.md', 'reference/index.md')
    """
    name = module.removesuffix("/__init__").replace("/", ".")
    return "reference/index.md" if name == "gddsg" else f"reference/{name}.md"


def is_elsewhere(target: str) -> bool:
    """Whether a target is an address, or a place on its own page."""
    return _ELSEWHERE.match(target) is not None


def linked_path(page: str, target: str) -> str:
    """The file or folder in the repository that a page in it links to.

    Examples
    --------
    >>> linked_path("docs/method.md", "../experiments/trust.toml#seeds")
    'experiments/trust.toml'
    """
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target.partition("#")[0]))


def site_target(page: str, target: str, source_page: Callable[[str], str]) -> str:
    """A target as the site needs it.

    Parameters
    ----------
    page : str
        The page it is on, as the site calls it.
    target : str
        As it is written in the repository.
    source_page : callable
        Given the path of a file that is no page, says which page of the site shows it, or at which address it is.
    """
    if is_elsewhere(target):
        return target
    path, (_, mark, anchor) = linked_path(repository_path(page), target), target.partition("#")
    if not (ROOT / path).exists():
        raise FileNotFoundError(f"{repository_path(page)} links to {target}, which is not in the repository")
    if path in OTHER_PAGES:
        place = OTHER_PAGES[path]
    elif path.startswith("docs/"):
        place = path.removeprefix("docs/")
    elif path == "README.md":
        place = "index.md"
    elif module := _MODULE.fullmatch(path):
        place = reference_page(module[1])
    else:
        place = source_page(path)
    if is_elsewhere(place):
        return place
    return posixpath.relpath(place, posixpath.dirname(page) or ".") + mark + anchor
