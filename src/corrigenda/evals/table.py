"""The summary for a person at a terminal: notes first, then the main metrics with their intervals, then the tests.

Short enough for a window of 80 columns; the files of `--out` have everything, with a decimal more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text as Line

from corrigenda.evals.report import title_of
from corrigenda.evals.report_parts import (
    DASH,
    Block,
    Bullets,
    Cell,
    Example,
    Table,
    Text,
    count,
    in_pieces,
    label_of,
    p_value,
    told,
)
from corrigenda.evals.report_run import run_line
from corrigenda.terminal import one_line, safe

FIRST_WIDTH, CELL_WIDTH = 18, 20
"""Columns of the terminal that a row's name and a value with its interval take."""
SHOWN: Mapping[str, Mapping[str, str]] = {
    "Answers": {
        "accuracy": "accuracy",
        "hallucination_rate_before": "halluc. before",
        "hallucination_rate_after": "halluc. after",
    },
    "Detection of false claims": {"claim_precision": "precision", "claim_recall": "recall", "claim_f1": "F1"},
    "Detection of wrong answers": {"answer_precision": "precision", "answer_recall": "recall", "answer_f1": "F1"},
    "Correction harm": {"true_broken": "broken", "false_fixed": "fixed", "net": "net"},
    "Claims": {"claims": "per answer", "coverage": "coverage"},
    "Latency": {"latency_mean": "mean", "latency_p50": "p50", "latency_p95": "p95"},
    "Work per answer": {"calls": "calls", "completion_tokens": "tokens", "pairs": "pairs"},
    "Failures": {"failures": "failed items"},
}
"""Heading → the metrics that fit a terminal, with short names."""


def render(summary: Mapping[str, Any], console: Console) -> None:
    """Print the summary."""
    console.print(Line(safe(title_of(summary)), style="bold"))
    for note in summary["notes"]:
        console.print(Line(f"- {_sentence(note)}", style="yellow"))
    judge, verifier, chat = (", ".join(summary["models"].get(r, ())) or "none" for r in ("judge", "verifier", "chat"))
    items = f"{summary['items']} items in {summary['groups']} groups; judge {judge}; verifier {verifier}; chat {chat}"
    console.print(Line(safe(items)))
    run = summary.get("run")
    if run:
        console.print(Line(safe(one_line(run_line(run)))))
        for note in run["notes"]:
            console.print(Line(f"- {_sentence(note)}"))
    console.print(Line(f"Under each value: its {summary['resampling']['confidence']:.0%} interval, and n."))
    for heading, metrics in SHOWN.items():
        _print(_metrics(heading, metrics, summary["methods"]), console)
    _tests(summary["tests"], console)


def _sentence(text: str) -> str:
    """Return a sentence for the terminal, without the backticks around names."""
    return "".join(part for part, _ in in_pieces(safe(text)))


def _tests(tests: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print the paired tests (see `paired`): the difference, and p after Holm's correction."""
    rows = [
        (
            Cell(text=f"{test['second']} against {test['first']}: {label_of(test['measure'])}"),
            _estimate("latency_mean" if test["measure"] == "latency" else "", test["difference"]),
            Cell(text=p_value(test["p_holm"])),
        )
        for test in tests
    ]
    _print(_table("Paired tests", ("", "difference", "p (Holm)"), rows), console)


def render_blocks(blocks: Iterable[Block], console: Console) -> None:
    """Print parts of a report (`report_more.sweep`, `.ablation`, `.errors`, …), the long tables too, without plots."""
    explained = False
    for block in blocks:
        if isinstance(block, Table) and not explained and any(cell.detail for row in block.rows for cell in row):
            console.print(Line("\nUnder each value: its interval, and n."))
            explained = True
        if isinstance(block, Text):
            console.print(Line(f"\n{_sentence(block.text)}"))
        elif isinstance(block, Bullets):
            for item in block.items:
                console.print(Line(f"- {_sentence(item)}"))
        elif isinstance(block, Table):
            _print(block, console)
        elif isinstance(block, Example):
            console.print(Line(f"\n{safe(block.title)}", style="bold"))
            for label, text in block.fields:
                console.print(Line(f"  {safe(label)}: {safe(text)}"))


def _metrics(heading: str, metrics: Mapping[str, str], methods: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return methods down, metrics across; what no method has is left out, and a method that has none of them."""
    measured = [m for m in metrics if any(own.get(m, {}).get("value") is not None for own in methods.values())]
    rows = [(Cell(text=name), *(_estimate(m, own.get(m)) for m in measured)) for name, own in methods.items()]
    return _table(
        heading, ("", *(metrics[m] for m in measured)), [r for r in rows if any(c.text != DASH for c in r[1:])]
    )


def _table(caption: str, head: tuple[str, ...], rows: Iterable[tuple[Cell, ...]]) -> Table:
    return Table(caption=caption, head=head, rows=tuple(rows))


def _estimate(metric: str, found: Mapping[str, Any] | None) -> Cell:
    if found is None or found["value"] is None:
        return Cell(text=DASH)
    value, ends = told(metric, found, 2)
    return Cell(text=value, detail=f"{ends}{ends and ', '}{count(found['n'])}")


def _print(table: Table, console: Console) -> None:
    """Print a table in as many pieces as it takes to fit the width, each with the first column."""
    if not table.rows:
        return
    fitting = max(1, (console.width - FIRST_WIDTH) // CELL_WIDTH)
    for start in range(1, len(table.head), fitting):
        columns = (0, *range(start, min(start + fitting, len(table.head))))
        console.print(Line(f"\n{safe(table.caption)}" + (" (continued)" if start > 1 else ""), style="bold"))
        grid = Grid(box=None, pad_edge=False, header_style="dim")
        for place in columns:
            grid.add_column(Line(safe(table.head[place])), overflow="fold")
        for row in table.rows:
            grid.add_row(*(_cell(row[place]) for place in columns))
        console.print(grid)


def _cell(cell: Cell) -> Line:
    line = Line(safe(cell.text))
    if cell.detail:
        line.append(f"\n{safe(cell.detail).replace('n = ', '')}", style="dim")
    return line
