"""A report as one HTML page that loads nothing."""

from __future__ import annotations

import html
import re
from functools import singledispatch
from importlib import resources
from string import Template

from gddsg.report.benchmark.document import (
    Block,
    Body,
    Bullets,
    Cell,
    Document,
    Figure,
    Paragraph,
    Picture,
    Section,
    Table,
)

_TAGS = {"best": "strong", "second": "u"}
_LONGEST_NUMBER = 26
_SUBSCRIPT = re.compile(r"\b([AF])_N\b")


def page(document: Document) -> str:
    """The whole page."""
    parts = resources.files("gddsg.report.benchmark") / "page_files"
    template, style = ((parts / name).read_text("utf-8") for name in ("page.html", "style.css"))
    contents = "\n".join(f'<li><a href="#{s.anchor}">{escaped(s.title)}</a></li>' for s in document.sections)
    return Template(template).substitute(
        title=html.escape(document.title),
        style=style,
        contents=contents,
        sections="\n".join(_section(section) for section in document.sections),
    )


def escaped(text: str) -> str:
    """Text that stays text; the N of A_N and F_N is set lower."""
    return _SUBSCRIPT.sub(r"\1<sub>N</sub>", html.escape(text))


def _section(section: Section) -> str:
    blocks = "\n".join(_block(block) for block in section.blocks)
    return f'<section id="{section.anchor}">\n<h2>{escaped(section.title)}</h2>\n{blocks}\n</section>'


@singledispatch
def _block(block: Block) -> str:
    raise NotImplementedError(type(block).__name__)


@_block.register
def _(block: Paragraph) -> str:
    return f"<p>{escaped(block.text)}</p>"


@_block.register
def _(block: Bullets) -> str:
    items = "\n".join(f"<li>{escaped(item)}</li>" for item in block.items)
    return f"<ul>\n{items}\n</ul>"


@_block.register
def _(block: Figure) -> str:
    pictures = "\n".join(_picture(picture) for picture in block.pictures)
    caption = f"<figcaption>{escaped(block.caption)}</figcaption>"
    return (
        f'<figure>\n<h3>{escaped(block.title)}</h3>\n<div class="pictures">\n{pictures}\n</div>\n{caption}\n</figure>'
    )


def _picture(picture: Picture) -> str:
    return picture.svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(picture.alt)}" ', 1)


@_block.register
def _(block: Table) -> str:
    title, caption = escaped(block.title), escaped(block.caption)
    columns = "".join(f'<th scope="col">{escaped(column)}</th>' for column in block.columns)
    bodies = "\n".join(_body(body, len(block.columns)) for body in block.bodies)
    opening = (
        f'<h3>{title}</h3>\n<div class="scroll" role="region" tabindex="0" aria-label="{html.escape(block.title)}">'
    )
    notes = "".join(f'\n<p class="note">{escaped(note)}</p>' for note in block.notes)
    head = f"<caption>{caption}</caption>\n<thead><tr>{columns}</tr></thead>"
    return f"{opening}<table>\n{head}\n{bodies}\n</table></div>{notes}"


def _body(body: Body, width: int) -> str:
    label = (
        f'<tr class="part"><th scope="rowgroup" colspan="{width}">{escaped(body.label)}</th></tr>\n'
        if body.label
        else ""
    )
    return f"<tbody>\n{label}" + "\n".join(_row(cells) for cells in body.rows) + "\n</tbody>"


def _row(cells: tuple[Cell, ...]) -> str:
    name, *values = cells
    return f'<tr><th scope="row">{escaped(name.text)}</th>' + "".join(_cell(cell) for cell in values) + "</tr>"


def _cell(cell: Cell) -> str:
    text, tag = escaped(cell.text), _TAGS.get(cell.mark)
    opening = '<td class="words">' if len(cell.text) > _LONGEST_NUMBER else "<td>"
    return f"{opening}<{tag}>{text}</{tag}></td>" if tag else f"{opening}{text}</td>"
