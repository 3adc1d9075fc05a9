"""Docstrings as the reference shows them: their notation becomes Markdown, and names become links to their entries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

from docs_site.sources import address_of, source_path

_LOGGER = griffe.get_logger("docs_site.docstrings")
_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`(?P<name>[^`]+)`")
_LITERAL = re.compile(r"^(?P<before>.*?)::(?=\n\s*\n[ ]{4,}\S)", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Changes the docstrings of a package once it is read, and notes for every name where its code is.

    Parameters
    ----------
    source_url : str
        As ``source_url`` in ``mkdocs.yml``.
    """

    def __init__(self, source_url: str = "") -> None:
        self.source_url = source_url

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Griffe calls this for every package that it has read."""
        for one in own_objects(pkg):
            one.extra["docs_site"]["source"] = self._source(one)
            if one.docstring is None and one.is_attribute and one.parent is not None and one.parent.is_module:
                one.docstring = griffe.Docstring(_KINDS[_is_type(one)], parent=one)  # without one it would be left out
            elif one.docstring is not None:
                one.docstring.value = as_markdown(one.docstring.value, one)
                _complete(one)

    def _source(self, one: griffe.Object) -> str:
        address = address_of(source_path(one), self.source_url, one.lineno or 0)
        return address if self.source_url else f"../{address}"


def _complete(one: griffe.Object) -> None:
    """Parameters get default values, and types where the docstring has none to offer, from the signature."""
    if not isinstance(one, griffe.Function | griffe.Class) or one.docstring is None:
        return
    known = {parameter.name.lstrip("*"): parameter for parameter in one.parameters}
    sections = one.docstring.parse("numpy", trim_doctest_flags=True)
    for section in sections:
        if isinstance(section, griffe.DocstringSectionParameters):
            for shown in section.value:
                found = known.get(shown.name.lstrip("*"))
                if found is not None:
                    shown.value = found.default
                    if str(shown.annotation) == "object":
                        shown.annotation = found.annotation
    one.docstring.__dict__["parsed"] = sections  # where griffe keeps them once they are parsed


_KINDS = {True: "A type, for annotations.", False: "A constant."}


def _is_type(attribute: griffe.Object) -> bool:
    return attribute.name.istitle() or (attribute.name[:1].isupper() and not attribute.name.isupper())


def own_objects(one: griffe.Object) -> Iterator[griffe.Object]:
    """An object and all that is defined in it; what it imports from elsewhere is left out."""
    yield one
    for member in one.members.values():
        if not member.is_alias:
            yield from own_objects(member)  # type: ignore[arg-type]


def as_markdown(text: str, scope: griffe.Object) -> str:
    """A docstring with links in place of roles, and code blocks as Markdown has them."""
    text = _LITERAL.sub(lambda found: f"{found['before'].rstrip()}:" if found["before"].strip() else "", text)
    return _ROLE.sub(lambda found: link(found["name"], scope), text)


def link(name: str, scope: griffe.Object) -> str:
    """A name as a role has it, as a link to its entry: ``~a.b`` shows ``b``, ``.b`` is a name of the package."""
    written = name.removeprefix("~")
    shown = written.rpartition(".")[2] if name.startswith("~") else written.removeprefix(".")
    target = find(written, scope)
    if target is None and "." in written and not written.startswith((".", scope.package.path)):
        return f"`{shown}`"  # of another library
    if target is None:
        _LOGGER.warning(f"{scope.path}: nothing is called {written!r}")
        return f"`{shown}`"
    while not has_entry(target) and target.parent is not None:
        target = target.parent
    return f"[`{shown}`][{target.path}]"


def find(name: str, scope: griffe.Object) -> griffe.Object | None:
    """The object of that name, as seen from within another."""
    if name.startswith("."):
        name = f"{scope.package.path if scope.is_package else _package(scope).path}{name}"
    first, *rest = name.split(".")
    for place in _scopes(scope):
        if first == place.name and place.parent is None:
            found = place
        elif first in place.all_members:
            found = place.all_members[first]
        else:
            continue
        for part in rest:
            found = found.all_members.get(part)
            if found is None:
                break
        else:
            return found.final_target if found.is_alias else found
    return None


def _package(scope: griffe.Object) -> griffe.Object:
    module = scope if scope.is_module else scope.module
    return module if module.is_init_module else module.parent  # type: ignore[return-value]


def _scopes(scope: griffe.Object) -> Iterator[griffe.Object]:
    place: griffe.Object | None = scope
    while place is not None:
        yield place
        place = place.parent  # type: ignore[assignment]


def has_entry(one: griffe.Object) -> bool:
    """Whether the reference has an entry for an object: everything public that is described."""
    names = one.path.split(".")
    return bool(one.is_module or one.docstring) and not any(name.startswith("_") for name in names)
