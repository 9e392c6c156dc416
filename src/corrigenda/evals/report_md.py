"""`report.md`: the report as Markdown. Texts of models and data are shown as text, whatever they hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from corrigenda.evals.report import sections, title_of
from corrigenda.evals.report_parts import Block, Bullets, Cell, Example, Figure, Table, Text, in_pieces
from corrigenda.terminal import one_line

_MARKUP = r"[\\`*_{}\[\]#|~$]|^[-+=]|(?<=^\d)[.)](?=\s|$)|(?<=^\d\d)[.)](?=\s|$)"
"""What Markdown gives a meaning to within a line, or at its beginning."""
_ADDRESS = r"(?<=www)\.|:(?=//)|(?<=mailto):|(?<=xmpp):|@"
"""What turns a bare text into a link where Markdown is read as on most sites."""
_SPECIAL = re.compile(rf"(?P<html>[<>&]|{_ADDRESS})|{_MARKUP}", re.IGNORECASE)


def report_md(summary: Mapping[str, Any]) -> str:
    """Return the report of a summary (see `report.sections`) as Markdown."""
    lines = [f"# {escaped(title_of(summary))}", ""]
    for section in sections(summary):
        blocks = [line for block in section.blocks for line in _block(block)]
        lines += [f"{'#' * section.level} {escaped(section.title)}", "", *blocks]
    return "\n".join(lines).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    """Return a text that shows as it is: no markup, no link and no HTML comes of it, and it stays on one line."""
    return _escaped(one_line(text))


def _escaped(line: str) -> str:
    return _SPECIAL.sub(lambda f: f"&#{ord(f[0])};" if f["html"] else f"\\{f[0]}", line)


def _sentence(text: str) -> str:
    """Return a sentence that shows as it is, but for the names between backticks, which are code."""
    pieces = in_pieces(one_line(text))
    return "".join(f"`{part}`" if is_name else _escaped(part) for part, is_name in pieces)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Text):
        yield from (_sentence(block.text), "")
    elif isinstance(block, Bullets):
        mark = "> - " if block.warning else "- "
        yield from (*(mark + _sentence(item) for item in block.items), "")
    elif isinstance(block, Example):
        yield from (f"**{escaped(block.title)}**", "")
        yield from (*(f"- {escaped(label)}: {escaped(text)}" for label, text in block.fields), "")
    elif isinstance(block, Figure):
        return  # report.html has the plots; the tables have their numbers
    else:
        yield from (*_table(block), "")


def _table(table: Table) -> Iterator[str]:
    yield from (f"**{escaped(table.caption)}**", "")
    yield f"| {' | '.join(escaped(name) or ' ' for name in table.head)} |"
    yield f"|{'|'.join('---' for _ in table.head)}|"
    for row in table.rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(cell: Cell) -> str:
    return f"{escaped(cell.text)} ({escaped(cell.detail)})" if cell.detail else escaped(cell.text)
