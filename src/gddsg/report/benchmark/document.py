"""What a report consists of, before it becomes HTML or Markdown; both are written from the same blocks."""

from __future__ import annotations

from dataclasses import dataclass

BEST = "best"
SECOND = "second"


@dataclass(frozen=True)
class Cell:
    """One cell of a table, with the mark it has earned: `BEST`, `SECOND` or none."""

    text: str
    mark: str = ""


@dataclass(frozen=True)
class Body:
    """Rows that belong together, under a label of their own unless it is empty; the first cell names the row."""

    label: str
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Table:
    """A table; the caption says in full sentences what it shows, notes below it what its marks mean."""

    title: str
    caption: str
    columns: tuple[str, ...]
    bodies: tuple[Body, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """One drawing, as SVG for the page and as PNG for Markdown; ``alt`` says it in words."""

    name: str
    alt: str
    svg: str
    png: bytes


@dataclass(frozen=True)
class Figure:
    """Drawings that share one caption."""

    title: str
    caption: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of plain text."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


Block = Paragraph | Bullets | Table | Figure


@dataclass(frozen=True)
class Section:
    """A part of the report, which the contents list by its title."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    sections: tuple[Section, ...]

    def pictures(self) -> list[Picture]:
        """All drawings, in order."""
        blocks = [block for section in self.sections for block in section.blocks]
        return [picture for block in blocks if isinstance(block, Figure) for picture in block.pictures]


def row(*texts: str) -> tuple[Cell, ...]:
    """A row of cells without marks."""
    return tuple(Cell(text) for text in texts)
