"""Pages of the API reference, one a module, and the index above them; all that is on them comes from docstrings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import griffe

from docs_site.docstrings import as_markdown, has_entry
from docs_site.links import ROOT
from docs_site.sources import address_of, source_path

FOLDER, PACKAGE = "reference", "gddsg"
_WITH_INHERITED = ("gddsg.learners.gddsg", "gddsg.learners.base")
"""Pages that say all that a learner can do; the others name their base."""

_SECTIONS = ("learners", "photos", "data", "backbones", "evaluation", "checks", "bench", "scale", "theory", "store")
"""Subpackages whose names a program is likely to use, in that order."""

_INTRODUCTION = """---
title: API reference
---

# API reference

Every public module, class and function of the package, made from the docstrings; the code of each is one link away.
The names to begin with can be imported from `gddsg` itself ([source]({source})):
"""


@cache
def package() -> griffe.Module:
    """The package, read and not imported."""
    loader = griffe.GriffeLoader(search_paths=[ROOT / "src"])
    found = loader.load(PACKAGE)
    loader.resolve_aliases()
    assert isinstance(found, griffe.Module)
    return found


def modules() -> list[griffe.Module]:
    """The public modules, packages before what is in them."""
    return list(_modules(package()))


def _modules(module: griffe.Module) -> Iterator[griffe.Module]:
    yield module
    for name, one in sorted(module.modules.items()):
        if not name.startswith("_") and not one.is_alias:
            yield from _modules(one)


def pages(source_url: str) -> dict[str, str]:
    """The text of every page by its name."""
    found = {
        f"{FOLDER}/{module.path}.md": _page(module, source_url) for module in modules() if module.parent is not None
    }
    return {f"{FOLDER}/index.md": _index(source_url), **found}


def navigation() -> list[dict[str, str]]:
    """What the menu shows: the index, and the packages."""
    shown = [module for module in modules() if module.is_init_module and module.parent is package()]
    return [{"Overview": f"{FOLDER}/index.md"}, *({m.path: f"{FOLDER}/{m.path}.md"} for m in shown)]


def _index(source_url: str) -> str:
    introduction = _INTRODUCTION.format(source=_source(package(), source_url))
    parts = [introduction, _names(package()), "## Modules", _table("Module", modules()[1:], depth=1)]
    for name in _SECTIONS:
        module = package().modules[name]
        parts += [f"## Names of `{module.path}`", first_line(module), _names(module)]
    alone = [name for name, one in package().members.items() if _is_own(one) and not one.is_module]
    parts += ["## The package itself", _directive(package(), alone, heading_level=2)]
    return "\n\n".join(parts) + "\n"


def _page(module: griffe.Module, source_url: str) -> str:
    head = f"---\ntitle: {module.path}\n---\n\n<small>{_way(module)} · [source]({_source(module, source_url)})</small>"
    own = [name for name, one in module.members.items() if _is_own(one) and not one.is_module]
    parts = [head, _directive(module, own)]
    if module.is_init_module:
        parts += ["## Modules", _table("Module", list(_modules(module))[1:], depth=module.path.count(".") + 1)]
        if module.exports:
            parts += ["## Names it gives out", _names(module)]
    return "\n\n".join(parts) + "\n"


def _source(module: griffe.Module, source_url: str) -> str:
    address = address_of(source_path(module), source_url)
    return address if source_url else f"../{address}"


def _way(module: griffe.Module) -> str:
    """The packages above a module, as links."""
    parts, above = ["[Reference](index.md)"], module.parent
    while above is not None and above.parent is not None:
        parts.insert(1, f"[{above.name}]({above.path}.md)")
        above = above.parent
    return " › ".join(parts)


def _directive(module: griffe.Module, own: list[str], heading_level: int = 1) -> str:
    options = [f"members: [{', '.join(own)}]" if own else "members: false"]
    options += [f"heading_level: {heading_level}"]
    options += ["inherited_members: true"] * (module.path in _WITH_INHERITED)
    return "\n".join([f"::: {module.path}", "    options:", *(f"      {line}" for line in options)])


def _is_own(one: griffe.Object | griffe.Alias) -> bool:
    return not one.is_alias and not one.name.startswith("_")


def _names(module: griffe.Module) -> str:
    names = [
        str(name) for name in module.exports or () if str(name) in module.members and not str(name).startswith("_")
    ]
    found = [module.members[name] for name in sorted(names, key=str.casefold)]
    rows = [one.final_target if one.is_alias else one for one in found]
    return _table("Name", [one for one in rows if one.path.startswith(f"{PACKAGE}.")])


def _table(title: str, rows: list[griffe.Object], depth: int | None = None) -> str:
    lines = [f"| {title} | |", "|:--|:--|"]
    for one in rows:
        if depth is None or one.path.count(".") == depth:
            shown = one.name if depth is None else one.path
            lines.append(f"| [`{shown}`]{_place(one)} | {first_line(one).replace('|', '&#124;')} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _place(one: griffe.Object) -> str:
    return f"({one.path}.md)" if one.is_module else f"[{one.path}]"


def first_line(one: griffe.Object) -> str:
    """What an object is, in the first sentence of its docstring."""
    if one.docstring is None or not has_entry(one):
        return ""
    return as_markdown(" ".join(one.docstring.value.split("\n\n")[0].split()), one)
