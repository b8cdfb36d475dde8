"""The little Markdown that claims and paragraphs are written in, as HTML; all else is escaped."""

from __future__ import annotations

import html
import re

_CODE = re.compile(r"`([^`]+)`")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]+\)")


def to_html(text: str) -> str:
    """`code` and **bold**; a link leaves its words, as the page stands alone."""
    escaped = html.escape(_LINK.sub(r"\1", text))
    return _BOLD.sub(r"<b>\1</b>", _CODE.sub(r"<code>\1</code>", escaped))


def in_cell(text: str) -> str:
    """Text for a cell of a Markdown table, or for a paragraph: on one line, no cell's end or tag in it."""
    line = " ".join(text.split())
    return line.replace("<", "&lt;").replace("|", "\\|")
