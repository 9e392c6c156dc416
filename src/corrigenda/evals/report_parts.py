"""What a report is made of (sections, tables, texts), and how its numbers are written. Pure.

`table`, `report_md` and `report_html` only give these parts a form, so that all of them say the same. A value that
was not measured is a dash, never a 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corrigenda.terminal import one_line

DASH = "–"
SHOWN = 600
"""Code points of an item's text that are shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What stands in one place of a table."""

    text: str
    detail: str = ""
    """The interval and n, in small."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table with a head. Every row has as many cells as the head."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = False
    """Shown only when asked for, where the form can do that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]
    warning: bool = False
    """What a reader must know before anything else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """The place of a plot, by its name in `plots`."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One item with its texts, which come from models and data and are shown as they are, as text."""

    title: str
    fields: tuple[tuple[str, str], ...]


Block = Table | Text | Bullets | Figure | Example


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2


# How numbers are written ----------------------------------------------------------------------------------------------

_LABELS: Mapping[str, str] = {
    "accuracy": "accuracy",
    "accuracy_decided": "accuracy where decided",
    "hallucination_rate_before": "hallucination rate, first answer",
    "hallucination_rate_after": "hallucination rate, final answer",
    "abstention_rate": "abstention rate",
    "undecided_rate": "undecided rate",
    "changed_rate": "answers changed",
    "three_way_accuracy": "three-way accuracy",
    "coverage": "coverage (claims decided)",
    "claims": "claims per answer",
    "true_broken": "correct answers broken",
    "false_fixed": "wrong answers fixed",
    "net": "net (fixed - broken)",
    "true_broken_rate": "broken, of the correct",
    "false_fixed_rate": "fixed, of the wrong",
    "net_rate": "net, of all",
    "latency_mean": "latency, mean (s)",
    "latency_p50": "latency, p50 (s)",
    "latency_p95": "latency, p95 (s)",
    "latency_p99": "latency, p99 (s)",
    "calls": "calls per answer",
    "prompt_tokens": "prompt tokens per answer",
    "completion_tokens": "completion tokens per answer",
    "pairs": "pairs verified per answer",
    "failures": "failed items",
    "failure_rate": "failure rate",
}
_DETECTION = ("precision", "recall", "f1", "accuracy", "false_positive_rate", "auroc", "auc_pr", "ece")
_DETECTION_LABELS = ("precision", "recall", "F1", "accuracy", "false positive rate", "AUROC", "AUC-PR", "ECE")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Answers": tuple(_LABELS)[:7],
    "Detection of false claims": (
        *(f"claim_{name}" for name in _DETECTION),
        "three_way_accuracy",
        "coverage",
        "claims",
    ),
    "Detection of wrong answers": tuple(f"answer_{name}" for name in _DETECTION),
    "Correction harm": tuple(_LABELS)[10:16],
    "Cost": tuple(_LABELS)[16:24],
    "Failures": tuple(_LABELS)[24:],
}
"""Heading → the metrics under it, in reading order. What a summary has beside these stands under `Further metrics`."""
_COUNTS = ("true_broken", "false_fixed", "net", "failures")
_PER_ANSWER = ("claims", "calls", "prompt_tokens", "completion_tokens", "pairs")


def label_of(metric: str) -> str:
    """Return a metric's name for a reader."""
    level, _, rest = metric.partition("_")
    if level in ("claim", "answer") and rest in _DETECTION:
        return _DETECTION_LABELS[_DETECTION.index(rest)]
    return _LABELS.get(metric, metric.replace("_", " "))


def number(metric: str, value: float | None, decimals: int = 3) -> str:
    """Return a metric's value as it is printed: `decimals` for a share, fewer for counts, a dash for None."""
    if value is None:
        return DASH
    if metric in _COUNTS:
        return f"{value:g}"
    return f"{value:,.2f}" if metric in _PER_ANSWER or metric.startswith("latency_") else f"{value:.{decimals}f}"


def estimate(metric: str, found: Mapping[str, Any] | None) -> Cell:
    """Return the cell of a value with its interval and n."""
    if found is None or found["value"] is None:
        return Cell(text=DASH)
    low, high = (number(metric, found[end]) for end in ("low", "high"))
    interval = "" if found["low"] is None else f"{low} to {high}, "
    return Cell(text=number(metric, found["value"]), detail=f"{interval}n = {count(found['n'])}")


def count(value: float | None) -> str:
    """Return a count as it is printed; whole unless items were repeated."""
    return DASH if value is None else f"{value:g}"


def p_value(value: float | None) -> str:
    """Return a p-value with two significant digits, never a bare 0."""
    return DASH if value is None else "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def shown(text: object) -> str:
    """Return an item's text on one line, shortened, with control characters made visible."""
    line = one_line(str(text))
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


def plain(*texts: str) -> tuple[Cell, ...]:
    """Return cells without details."""
    return tuple(Cell(text=text) for text in texts)
