"""What a report is made of (sections, tables, texts), and how its numbers are written. Pure.

`table`, `report_md` and `report_html` only give these parts a form, so that all of them say the same. A value that
was not measured is a dash, never a 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import floor, log10
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
    """A paragraph. Names between backticks, as in `accuracy`, are shown as the form shows names (`in_pieces`)."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Bullets:
    """A list of sentences. Names between backticks are shown as in `Text`."""

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
    "unjudged_rate": "changed, with nothing to judge by",
    "three_way_accuracy": "three-way accuracy",
    "coverage": "coverage (claims decided)",
    "claims": "claims per answer",
    "true_broken": "correct answers broken",
    "false_fixed": "wrong answers fixed",
    "net": "net (fixed - broken)",
    "true_broken_rate": "broken, of the correct",
    "false_fixed_rate": "fixed, of the wrong",
    "net_rate": "net, of all",
    "latency_mean": "latency, mean",
    "latency_p50": "latency, p50",
    "latency_p95": "latency, p95",
    "latency_p99": "latency, p99",
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
    "Answers": tuple(_LABELS)[:8],
    "Detection of false claims": (
        *(f"claim_{name}" for name in _DETECTION),
        "three_way_accuracy",
        "coverage",
        "claims",
    ),
    "Detection of wrong answers": tuple(f"answer_{name}" for name in _DETECTION),
    "Correction harm": tuple(_LABELS)[11:17],
    "Cost": tuple(_LABELS)[17:25],
    "Failures": tuple(_LABELS)[25:],
}
"""Heading → the metrics under it, in reading order. What a summary has beside these stands under `Further metrics`."""
LEAST_SECONDS = 0.1
"""Times below this many seconds are printed in milliseconds."""
_COUNTS = ("true_broken", "false_fixed", "net", "failures")
_PER_ANSWER = ("claims", "calls", "prompt_tokens", "completion_tokens", "pairs")


def label_of(metric: str) -> str:
    """Return a metric's name for a reader."""
    level, _, rest = metric.partition("_")
    if level in ("claim", "answer") and rest in _DETECTION:
        return _DETECTION_LABELS[_DETECTION.index(rest)]
    return _LABELS.get(metric, metric.replace("_", " "))


def number(metric: str, value: float | None, decimals: int = 3) -> str:
    """Return a metric's value as it is printed: `decimals` for a share, fewer for counts, a dash for None.

    A time has three significant digits and its unit.
    """
    if value is None:
        return DASH
    if is_time(metric):
        return _in_unit((value,), *_unit(value))
    if metric in _COUNTS:
        return f"{value:g}"
    return f"{value:,.2f}" if metric in _PER_ANSWER else f"{value:.{decimals}f}"


def is_time(metric: str) -> bool:
    """Return whether a metric is a time in seconds."""
    return metric.startswith("latency_")


def interval(metric: str, found: Mapping[str, Any], decimals: int = 3) -> str:
    """Return `low to high` of a value, a time in one unit for both; empty where there is no interval."""
    if found["low"] is None or found["high"] is None:
        return ""
    if is_time(metric):
        ends = (found["low"], found["high"])
        return _in_unit(ends, *_unit(*ends, found["value"]))
    return f"{number(metric, found['low'], decimals)} to {number(metric, found['high'], decimals)}"


def told(metric: str, found: Mapping[str, Any], decimals: int = 3) -> tuple[str, str]:
    """Return a value and its interval as they are printed, times in the same unit; a dash, and nothing, for None."""
    value = found["value"]
    if value is None:
        return DASH, ""
    ends = [found[end] for end in ("low", "high") if found[end] is not None]
    text = _in_unit((value,), *_unit(value, *ends)) if is_time(metric) else number(metric, value, decimals)
    return text, interval(metric, found, decimals)


def estimate(metric: str, found: Mapping[str, Any] | None) -> Cell:
    """Return the cell of a value with its interval and n."""
    if found is None or found["value"] is None:
        return Cell(text=DASH)
    value, ends = told(metric, found)
    return Cell(text=value, detail=f"{ends}{ends and ', '}n = {count(found['n'])}")


def _unit(*seconds: float) -> tuple[str, float]:
    """Return the unit in which such times are printed, and how many of it a second has."""
    return ("s", 1.0) if max(map(abs, seconds)) >= LEAST_SECONDS or not any(seconds) else ("ms", 1000.0)


def _in_unit(seconds: tuple[float, ...], unit: str, scale: float) -> str:
    return f"{' to '.join(_significant(value * scale) for value in seconds)} {unit}"


def _significant(value: float) -> str:
    """Return a number with three significant digits; of a large one all digits before the point."""
    rounded = float(f"{value:.2e}")
    if not rounded:
        return "0"
    decimals = max(0, 2 - floor(log10(abs(rounded))))
    return f"{value if decimals == 0 else rounded:,.{decimals}f}"


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


_NAME = re.compile(r"(?<!`)`([\w.:+=-]+(?: [\w.:+=-]+){0,4})`(?!`)")
"""A name between backticks: words of letters, digits and the signs of names, in which no markup can be."""


def in_pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a sentence in order, each with whether it is a name that stood between backticks."""
    end = 0
    for found in _NAME.finditer(text):
        yield from ((text[end : found.start()], False), (found[1], True))
        end = found.end()
    yield text[end:], False
