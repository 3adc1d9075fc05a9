"""Formulas between dollar signs become MathML while the site is built: browsers draw it without any script."""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

_FORMULA = r"(?<![\\$])\$\$(?P<block>[^$]+)\$\$|(?<![\\$\w])\$(?P<inline>[^\s$](?:[^$]*[^\s$])?)\$(?![\w$])"
_AFTER_CODE, _BEFORE_ESCAPES = 190, 180
_PLAIN = ("$", "~")  # characters that the benchmark report escapes


class Formulas(Extension):
    """``$…$`` within a line of text, ``$$…$$`` as a block of its own."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Put the formulas between code, which may hold dollar signs, and escapes, of which formulas are full."""
        md.inlinePatterns.register(_Formula(_FORMULA, md), "formula", (_AFTER_CODE + _BEFORE_ESCAPES) // 2)
        md.ESCAPED_CHARS.extend(_PLAIN)


class _Formula(InlineProcessor):
    def __init__(self, pattern: str, md: Markdown) -> None:
        super().__init__(pattern, md)
        self.compiled_re = re.compile(pattern, re.DOTALL)

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str | Element, int, int]:  # noqa: N802
        """Markdown asks for this by name."""
        block = m["block"] is not None
        html = mathml(m["block"] if block else m["inline"], block)
        return self.md.htmlStash.store(html), m.start(), m.end()


def mathml(formula: str, block: bool = False) -> str:
    r"""A formula of LaTeX as MathML; a block scrolls where the page is narrow.

    Examples
    --------
    >>> "<mfrac>" in mathml(r"\tfrac12")
    True
    """
    text = " ".join(formula.split())
    html = convert(text, display="block" if block else "inline")
    return f'<div class="formula">{html}</div>' if block else html


def makeExtension(**options: Any) -> Formulas:  # noqa: N802
    """Markdown looks for a function of this name."""
    return Formulas(**options)
