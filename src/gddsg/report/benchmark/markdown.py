"""A report as Markdown, with its figures as files beside it."""

from __future__ import annotations

import re
from functools import singledispatch

from gddsg.report.benchmark.document import (
    BEST,
    SECOND,
    Block,
    Body,
    Bullets,
    Cell,
    Document,
    Figure,
    Paragraph,
    Section,
    Table,
)

_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~$])")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def markdown(document: Document, figures: str) -> str:
    """The whole report; ``figures`` is the folder of the pictures, seen from the file."""
    contents = [f"- [{escaped(section.title)}](#{section.anchor})" for section in document.sections]
    parts = [f"# {escaped(document.title)}", "\n".join(contents)]
    parts += [_section(section, figures) for section in document.sections]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    r"""Text that stays text: no markup, no cell ends, no HTML.

    Examples
    --------
    >>> escaped("a|b <i>")
    'a\\|b &lt;i&gt;'
    """
    return _SPECIAL.sub(r"\\\1", text.translate(_ENTITIES))


def _section(section: Section, figures: str) -> str:
    heading = f'<a id="{section.anchor}"></a>\n\n## {escaped(section.title)}'
    return "\n\n".join([heading, *(_block(block, figures) for block in section.blocks)])


@singledispatch
def _block(block: Block, figures: str) -> str:
    raise NotImplementedError(type(block).__name__)


@_block.register
def _(block: Paragraph, figures: str) -> str:
    return escaped(block.text)


@_block.register
def _(block: Bullets, figures: str) -> str:
    return "\n".join(f"- {escaped(item)}" for item in block.items)


@_block.register
def _(block: Figure, figures: str) -> str:
    images = [f"![{escaped(picture.alt)}]({figures}/{picture.name}.png)" for picture in block.pictures]
    return "\n\n".join([f"### {escaped(block.title)}", *images, escaped(block.caption)])


@_block.register
def _(block: Table, figures: str) -> str:
    header = _line([escaped(title) for title in block.columns])
    rule = _line([":--", *["--:"] * (len(block.columns) - 1)])
    lines = [line for body in block.bodies for line in _body(body, len(block.columns))]
    table = "\n".join([header, rule, *lines])
    notes = [escaped(note) for note in block.notes]
    return "\n\n".join([f"### {escaped(block.title)}", escaped(block.caption), table, *notes])


def _body(body: Body, width: int) -> list[str]:
    label = [_line([f"*{escaped(body.label)}*", *[""] * (width - 1)])] if body.label else []
    return [*label, *(_line([_cell(cell) for cell in cells]) for cells in body.rows)]


def _cell(cell: Cell) -> str:
    text = escaped(cell.text)
    return f"**{text}**" if cell.mark == BEST else f"<u>{text}</u>" if cell.mark == SECOND else text


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
