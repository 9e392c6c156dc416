"""An evaluation's report, from the summary alone: what every output prints, in this order. Pure.

Nothing is computed here: every number stands in the summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from corrigenda.evals import report_more
from corrigenda.evals.report_parts import (
    DASH,
    GROUPS,
    Block,
    Bullets,
    Cell,
    Figure,
    Section,
    Table,
    Text,
    estimate,
    label_of,
)
from corrigenda.evals.report_run import run_blocks
from corrigenda.terminal import one_line


def title_of(summary: Mapping[str, Any]) -> str:
    """Return the report's title."""
    return f"Evaluation on {', '.join(summary['datasets'])}"


def sections(summary: Mapping[str, Any]) -> list[Section]:
    """Return the whole report of a summary, see `evals.summary`.

    A summary may also hold `run`, `sweep`, `ablation` and `errors`, as `evals.described`, `evals.sweep`,
    `evals.ablation` and `evals.errors_of` give them; what it does not hold is not shown.
    """
    parts: list[Section] = []
    if summary["notes"]:
        notes = Bullets(items=tuple(map(one_line, summary["notes"])), warning=True)
        parts.append(Section(title="Read this first", blocks=(notes,)))
    parts.append(Section(title="What was run", blocks=tuple(run_blocks(summary))))
    parts.append(Section(title="Results", blocks=(*result_tables(summary["methods"]), *_figures())))
    for kind, part in summary.get("parts", {}).items():
        blocks: tuple[Block, ...] = (Text(text=f"{part['items']} items."), *result_tables(part["methods"]))
        parts.append(Section(title=f"Results on items of the kind {kind} alone", blocks=blocks))
    return [*parts, *report_more.sections(summary)]


FIGURES = ("accuracy", "detection", "latency", "k", "reliability", "stages")
"""The plots, in the order in which they are shown."""


def _figures() -> tuple[Figure, ...]:
    return tuple(Figure(name=name) for name in FIGURES)


def result_tables(methods: Mapping[str, Mapping[str, Any]]) -> Iterator[Table]:
    """Yield a table for each group of metrics of which any was measured: metrics down, methods across."""
    known = {metric for metrics in GROUPS.values() for metric in metrics}
    others = dict.fromkeys(m for metrics in methods.values() for m in metrics if m not in known)
    for heading, metrics in (*GROUPS.items(), ("Further metrics", tuple(others))):
        rows = tuple(_metric_rows(metrics, methods))
        if rows:
            yield Table(caption=heading, head=("", *map(one_line, methods)), rows=rows)


def _metric_rows(metrics: Iterable[str], methods: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[Cell, ...]]:
    for metric in metrics:
        cells = [estimate(metric, found.get(metric)) for found in methods.values()]
        if any(cell.text != DASH for cell in cells):
            yield (Cell(text=label_of(metric)), *cells)
