"""What must hold of the site once it is built: ``python -m docs_site.check site``.

Links and anchors lead somewhere, every page is reached from the first one, nothing is fetched from elsewhere, and the
reference has an entry, with parameters, types and a source link, for every public name, and for nothing else.
"""

from __future__ import annotations

import html
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

import griffe
from mkdocstrings import Inventory

from docs_site import reference
from docs_site.docstrings import has_entry, own_objects
from docs_site.links import is_elsewhere

_LINK = re.compile(r'<(?:a|area)\s[^>]*?href="?([^" >]+)')
_ANCHOR = re.compile(r'\s(?:id|name)="?([^" >]+)')
_FETCHED = re.compile(r'<(?:script|img|iframe|source|video|audio)\s[^>]*?src="?([^" >]+)|<link\s[^>]*?href="?([^" >]+)')
_FETCHED_BY_STYLE = re.compile(r"url\(\s*[\"']?((?:https?:)?//[^)\"']+)|@import")
_ENTRY = re.compile(r'<h\d id="([^"]+)" class="doc doc-heading')
_ERROR_PAGE = "404.html"
_FEWEST = 1000  # entries of the reference: fewer, and this check has lost sight of them


def main(folder: Path) -> int:
    """Print what is wrong with the site in that folder; the exit code."""
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.html"))}
    faults = [*dead_links(texts, folder), *unreached(texts), *fetched(texts, folder), *reference_faults(texts, folder)]
    for fault in faults:
        print(f"Error: {fault}", file=sys.stderr)
    entries = sum(len(_ENTRY.findall(text)) for text in texts.values())
    print(f"{len(texts)} pages, {entries} entries of the reference, {len(faults)} faults")
    return 1 if faults else 0


def links_of(page: str, text: str) -> Iterator[tuple[str, str]]:
    """Page and anchor of every link within the site; an empty page name is the page itself."""
    for found in _LINK.findall(text):
        target = html.unescape(found)
        path, _, anchor = target.partition("#")
        if not is_elsewhere(path or "."):
            where = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(path))) if path else page
            yield where, unquote(anchor)


def dead_links(texts: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Links to pages, files and places that are not there."""
    anchors = {page: set(map(html.unescape, _ANCHOR.findall(text))) for page, text in texts.items()}
    for page, text in texts.items():
        if page == _ERROR_PAGE:  # its links start from wherever the missing page would have been
            continue
        for path, anchor in sorted(set(links_of(page, text))):
            if path not in texts and not (folder / path).is_file():
                yield f"{page} links to {path}, which is not there"
            elif anchor and path in anchors and anchor not in anchors[path]:
                yield f"{page} links to {path}#{anchor}, which has no such place"


def unreached(texts: Mapping[str, str]) -> Iterator[str]:
    """Pages to which no way leads from the first."""
    seen, left = set[str](), ["index.html"]
    while left:
        page = left.pop()
        if page in texts and page not in seen:
            seen.add(page)
            left += [path for path, _ in links_of(page, texts[page])]
    yield from (f"{page} is not reached from index.html" for page in texts.keys() - seen - {_ERROR_PAGE})


def fetched(texts: Mapping[str, str], folder: Path) -> Iterator[str]:
    """What a reader's browser would ask of other hosts, or look for in vain."""
    for page, text in texts.items():
        for found in _FETCHED.finditer(text):
            target = html.unescape(found[1] or found[2])
            path = posixpath.join(posixpath.dirname(page), target.partition("?")[0])
            if is_elsewhere(target) and not target.startswith("data:"):
                yield f"{page} fetches {target}"
            elif page != _ERROR_PAGE and not target.startswith("data:") and not (folder / path).exists():
                yield f"{page} looks for {target}, which is not there"
    for path in folder.rglob("*.css"):
        if found := _FETCHED_BY_STYLE.search(path.read_text()):
            yield f"{path.relative_to(folder)} fetches {found[0]}"


def reference_faults(texts: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Public names without an entry, entries without a name, and entries that do not say enough."""
    with (folder / "objects.inv").open("rb") as file:
        listed = {name: entry.uri for name, entry in Inventory.parse_sphinx(file, domain_filter=("py",)).items()}
    wanted = {one.path: one for one in own_objects(reference.package()) if is_public(one)}
    if len(wanted) < _FEWEST:
        yield f"only {len(wanted)} public names were found; expected {_FEWEST} at least"
    for name in sorted(wanted.keys() - listed.keys()):
        yield f"{name} has no entry in the reference"
    for name in sorted(name for name in listed if not exists(name)):
        yield f"the reference has an entry for {name}, which is no name of the package"
    for name, one in wanted.items():
        if name in listed:
            yield from (f"{name}: {fault}" for fault in entry_faults(one, texts[listed[name].partition("#")[0]]))


def is_public(one: griffe.Object) -> bool:
    """Whether a name is for others: modules, classes, functions and data of modules; of classes methods, properties."""
    if any(part.startswith("_") for part in one.path.split(".")):
        return False
    inside = one.parent is not None and not one.parent.is_module
    if inside and one.is_attribute:
        return "property" in one.labels or has_entry(one)
    return not (inside and one.parent is not None and one.parent.is_function)


def exists(name: str) -> bool:
    """Whether the package has something of that name, own or taken from elsewhere."""
    place: griffe.Object | griffe.Alias = reference.package()
    for part in name.split(".")[1:]:
        if part not in place.all_members:
            return False
        place = place.all_members[part]
    return True


def entry_faults(one: griffe.Object, text: str) -> Iterator[str]:
    """What an entry lacks."""
    start = text.find(f'id="{one.path}" class="doc doc-heading')
    if one.is_module:
        yield from () if start >= 0 or one.parent is None else ("has no heading",)
        return
    if start < 0:
        yield "has no heading"
        return
    following = _ENTRY.search(text, start + 1)
    entry = text[start : following.start() if following else len(text)]
    if 'class="source-link"' not in entry:
        yield "has no source link"
    if isinstance(one, griffe.Function):
        yield from parameter_faults(one.parameters, _words(entry), first=one.parent is not None and one.parent.is_class)


def parameter_faults(parameters: Iterable[griffe.Parameter], shown: str, first: bool) -> Iterator[str]:
    """Parameters that are not shown, or of which no type is known."""
    bound = ("self", "cls", "mcs") if first else ()
    for parameter in parameters:
        if parameter.name in bound:
            continue
        if parameter.annotation is None:
            yield f"{parameter.name} has no type"
        if not re.search(rf"\b{re.escape(parameter.name)}\b\s*:", shown):
            yield f"{parameter.name} is not shown with its type"


def _words(entry: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", entry))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
