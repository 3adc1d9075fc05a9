"""Files of the repository as pages of the site: what the reference and the documentation link to.

A repository that is hosted somewhere shows its files itself. Then ``source_url`` in ``mkdocs.yml`` says where, and
nothing is made here.
"""

from __future__ import annotations

import html
from pathlib import Path

import griffe
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

from docs_site.links import ROOT

FOLDER = "source"
_HANDED_OUT = (".jsonl", ".safetensors", ".f4")  # records and weights are there to be saved, and shown to nobody

_LIGHT = HtmlFormatter(style="default", linespans="L")
_DARK = HtmlFormatter(style="github-dark")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{path}</title><style>
body {{ margin: 0; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; background: #fff; color: #222; }}
pre {{ margin: 0; font: 13px/1.45 ui-monospace, monospace; }} .highlight {{ overflow-x: auto; padding: .5rem 0; }}
a {{ color: #1565c0; }} span:target {{ background: #ffe08266; }} pre {{ counter-reset: line; }}
[id^="L-"]::before {{ counter-increment: line; content: counter(line); display: inline-block; width: 3em;
padding-right: 1em; text-align: right; color: #767676; }}
{light}
@media (prefers-color-scheme: dark) {{ body {{ background: #1e2129; color: #ddd; }} a {{ color: #8ab4f8; }} {dark} }}
</style></head><body><p><a href="{home}">gddsg</a> / {path}</p>{body}</body></html>
"""


def page_of(path: str) -> str:
    """Where the site has a file or folder of the repository."""
    whole = ROOT / path
    shown = whole.is_dir() or whole.suffix not in _HANDED_OUT
    return f"{FOLDER}/{path}.html" if shown else f"{FOLDER}/{path}"


def address_of(path: str, url: str, line: int = 0) -> str:
    """Where a file is: a page of this site, or where ``url`` says; ``{path}`` and ``{line}`` are filled in."""
    if url:
        return url.format(path=path, line=max(1, line))
    return page_of(path) + (f"#L-{line}" if line else "")


def source_path(module: griffe.Object) -> str:
    """Where the code of an object is in the repository."""
    return f"src/{module.relative_package_filepath.as_posix()}"


def content_of(path: str) -> str | bytes:
    """What is on the page of a file or folder."""
    whole = ROOT / path
    if whole.is_dir():
        return _page(path, _listing(whole))
    return _page(path, _coloured(whole)) if page_of(path).endswith(".html") else whole.read_bytes()


def _page(path: str, body: str) -> str:
    home = "../" * (path.count("/") + 1) + "index.html"
    light, dark = _LIGHT.get_style_defs(".highlight"), _DARK.get_style_defs(".highlight")
    return _PAGE.format(path=html.escape(path), body=body, home=home, light=light, dark=dark)


def _coloured(path: Path) -> str:
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = TextLexer()
    return highlight(path.read_text(), lexer, _LIGHT)


def _listing(folder: Path) -> str:
    names = {path.name: Path(page_of(str(path.relative_to(ROOT)))).name for path in listed(folder)}
    lines = [f'<li><a href="{folder.name}/{page}">{html.escape(name)}</a></li>' for name, page in names.items()]
    return f"<ul>{''.join(lines)}</ul>"


def listed(folder: Path) -> list[Path]:
    """The files and folders that the page of a folder shows."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith((".", "__")))


def with_contents(paths: set[str]) -> set[str]:
    """The files and folders, and all that is in the folders."""
    left, found = list(paths), set[str]()
    while left:
        path = left.pop()
        found.add(path)
        if (ROOT / path).is_dir():
            left += [str(one.relative_to(ROOT)) for one in listed(ROOT / path)]
    return found
