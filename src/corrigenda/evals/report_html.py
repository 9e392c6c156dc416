"""`report.html`: one page with everything in it: no script, no address outside, light and dark, wide and narrow.

Texts of models and data are escaped and nothing else; a content security policy keeps the page from loading anything
even so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from importlib import resources
from typing import Any

from corrigenda.evals.plots import Plot
from corrigenda.evals.report import sections, title_of
from corrigenda.evals.report_parts import Block, Bullets, Cell, Example, Figure, Table, Text, in_pieces
from corrigenda.terminal import one_line

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
NOTES_SHOWN = 6
"""Notes that stand open at the top of the page; more are folded, so that they fill no small screen."""


def report_html(summary: Mapping[str, Any], plots: Mapping[str, Plot]) -> str:
    """Return the report of a summary (see `report.sections`) as a page, with its plots (see `plots.draw`)."""
    style = resources.files("corrigenda.evals").joinpath("report.css").read_text(encoding="utf-8")
    parts = sections(summary)
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{_text(title_of(summary))}</title>",
        f"<style>\n{style}</style>",
        "</head>",
        "<body>",
        f"<header><h1>{_text(title_of(summary))}</h1></header>",
        '<nav aria-label="Sections"><ul>',
        *(f'<li><a href="#s{i}">{_text(part.title)}</a></li>' for i, part in enumerate(parts)),
        "</ul></nav>",
        "<main>",
    ]
    for i, part in enumerate(parts):
        lines += [f'<section id="s{i}">', f"<h{part.level}>{_text(part.title)}</h{part.level}>"]
        lines += [line for block in part.blocks for line in _block(block, plots)]
        lines.append("</section>")
    return "\n".join([*lines, "</main>", "</body>", "</html>"]) + "\n"


def _text(text: str) -> str:
    return escape(one_line(text))


def _sentence(text: str) -> str:
    pieces = in_pieces(one_line(text))
    return "".join(f"<code>{escape(part)}</code>" if is_name else escape(part) for part, is_name in pieces)


def _block(block: Block, plots: Mapping[str, Plot]) -> Iterator[str]:
    if isinstance(block, Text):
        yield f"<p>{_sentence(block.text)}</p>"
    elif isinstance(block, Bullets):
        yield from _bullets(block)
    elif isinstance(block, Figure):
        yield from _figure(plots[block.name])
    elif isinstance(block, Example):
        fields = "".join(f'<dt>{_text(label)}</dt><dd dir="auto">{_text(text)}</dd>' for label, text in block.fields)
        yield f'<article class="example"><h3>{_text(block.title)}</h3><dl>{fields}</dl></article>'
    elif block.folded:
        yield f"<details><summary>{_text(block.caption)}</summary>"
        yield from (*_table(block), "</details>")
    else:
        yield from _table(block)


def _bullets(block: Bullets) -> Iterator[str]:
    """Yield a list; of warnings the later ones, which matter less, are folded where there are many."""
    items = [f"<li>{_sentence(item)}</li>" for item in block.items]
    if not block.warning:
        yield f"<ul>{''.join(items)}</ul>"
        return
    shown = len(items) if len(items) <= NOTES_SHOWN + 1 else NOTES_SHOWN
    yield f'<div class="warning" role="note"><ul>{"".join(items[:shown])}</ul>'
    if items[shown:]:
        yield f"<details><summary>{len(items) - shown} more notes</summary><ul>{''.join(items[shown:])}</ul></details>"
    yield "</div>"


def _figure(plot: Plot) -> Iterator[str]:
    if plot.svg is None:
        yield f'<p class="left-out">{_text(plot.title)}: left out. {_text(plot.description)}</p>'
        return
    yield f"<figure><figcaption>{_text(plot.title)}</figcaption>"
    yield plot.svg
    yield f"<details><summary>In words</summary><p>{_text(plot.description)}</p></details></figure>"


def _table(table: Table) -> Iterator[str]:
    # The frame can be scrolled sideways, by keyboard too, where a table is wider than the page.
    yield f'<div class="table" role="region" tabindex="0" aria-label="{_text(table.caption)}"><table>'
    yield f"<caption>{_text(table.caption)}</caption>"
    if any(table.head):
        cells = "".join(f'<th scope="col">{_text(name)}</th>' if name else "<td></td>" for name in table.head)
        yield f"<thead><tr>{cells}</tr></thead>"
    yield "<tbody>"
    for row in table.rows:
        first, *others = row
        cells = "".join(f"<td>{_cell(cell)}</td>" for cell in others)
        yield f'<tr><th scope="row">{_cell(first)}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _cell(cell: Cell) -> str:
    return f"{_text(cell.text)} <small>{_text(cell.detail)}</small>" if cell.detail else _text(cell.text)
