"""What a run says as a whole, computed by streaming over what is done: nothing is held but sums.

The hallucination rate is the share of contradicted claims, or of answers with at least one, before anything was
corrected; with a 95% interval each. That of answers is Wilson's (1927). Claims of one answer are not independent, so
theirs is Wilson's over as many claims as would be worth the same were they so: the variance of the ratio is estimated
over answers (Cochran 1977, §2.11), and where that is nothing (no claim is contradicted, or all are) each answer counts
as one.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from corrigenda.batch.rows import FAILED, PAIRS, Done, Spent
from corrigenda.batch.state import State
from corrigenda.files import save

SCHEMA = "1.0"
SLOWEST = 10
LISTED = 100
"""Failures that are listed with their reasons; all of them are in the output."""
_Z = 1.959963984540054
"""The 97.5% point of the normal distribution."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """What a million tokens cost, in a currency of the user's own; None: not known."""

    prompt: float | None = None
    completion: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ThisRun:
    """What this run of the command did, beside what was done before."""

    seconds: float
    """Of the clock, from the first row's beginning to the last one's end."""
    rows: int
    calls: int
    tokens: int
    stopped: str | None = None
    """Why it ended before all rows were done; None where they are."""


def wilson(part: float, n: float) -> tuple[float, float]:
    """Return the 95% interval of a share `part` (0 to 1) that was seen in `n` (above 0) independent cases."""
    middle = (part + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(part * (1 - part) / n + _Z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(kw_only=True)
class Rates:
    """The sums from which the hallucination rates come."""

    answers: int = 0
    """Answers with at least one claim that can be checked."""
    flagged: int = 0
    """Those with at least one that is contradicted."""
    claims: int = 0
    contradicted: int = 0
    _squares: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def add(self, claims: int, contradicted: int) -> None:
        """Count one answer by its checkable claims; one without any is left out."""
        if not claims:
            return
        self.answers += 1
        self.flagged += contradicted > 0
        self.claims += claims
        self.contradicted += contradicted
        xx, xn, nn = self._squares
        self._squares = xx + contradicted**2, xn + contradicted * claims, nn + claims**2

    def as_json(self) -> dict[str, Any]:
        """Return both rates with their intervals; null where there is nothing to divide by."""
        return {
            "answers": _rate(self.flagged, self.answers, float(self.answers)),
            "claims": _rate(self.contradicted, self.claims, self._worth()),
        }

    def _worth(self) -> float:
        """Return how many independent claims would tell as much."""
        if self.answers < 2:
            return float(self.answers)
        rate, (xx, xn, nn) = self.contradicted / self.claims, self._squares
        spread = (xx - 2 * rate * xn + rate**2 * nn) / (self.answers - 1)
        variance = spread * self.answers / self.claims**2
        alone = rate * (1 - rate)
        if variance <= 0 or alone <= 0:
            return float(self.answers)
        return max(1.0, min(float(self.claims), alone / variance))


def _rate(contradicted: int, n: int, worth: float) -> dict[str, Any]:
    if not n:
        return {"value": None, "low": None, "high": None, "contradicted": 0, "n": 0}
    low, high = wilson(contradicted / n, worth)
    value = contradicted / n
    return {
        "value": round(value, 6),
        "low": round(low, 6),
        "high": round(high, 6),
        "contradicted": contradicted,
        "n": n,
    }


@dataclass(kw_only=True)
class Tally:
    """The sums over all rows; `watch` passes rows on while it counts them."""

    rates: Rates = field(default_factory=Rates)
    verdicts: Counter[str] = field(default_factory=Counter)
    stages: dict[str, list[float]] = field(default_factory=dict)
    """Stage → rows that it ran in, seconds in all, most seconds in one row."""
    failures: Counter[str] = field(default_factory=Counter)
    listed: list[dict[str, Any]] = field(default_factory=list)
    models: dict[str, str | None] = field(default_factory=dict)
    seconds: float = 0.0
    rows: int = 0

    def watch(self, rows: Iterable[Done]) -> Iterator[Done]:
        """Yield each row again."""
        for done in rows:
            self.add(done)
            yield done

    def add(self, done: Done) -> None:
        """Count one row."""
        self.rows += 1
        self.seconds += done.seconds
        if done.failed:
            kind = done.kind or "failed report"
            self.failures[kind] += 1
            if len(self.listed) < LISTED:
                reason = done.error if done.report is None else done.report.get("reason")
                self.listed.append({"id": done.id, "kind": kind, "reason": reason})
        if done.report is not None:
            self._report(done.report)

    def _report(self, report: Mapping[str, Any]) -> None:
        verdicts = Counter(claim["verdict"] for claim in report["claims"])
        self.verdicts += verdicts
        if report["status"] != FAILED:  # of which nothing is known; it would count as an answer without a fault
            self.rates.add(verdicts.total() - verdicts["not_checkable"], verdicts["contradicted"])
        self.models |= report["models"]
        spans: Counter[str] = Counter()
        for timing in report["timings"]:
            spans[timing["stage"]] += timing["end_s"] - timing["start_s"]
        for stage, seconds in spans.items():
            row = self.stages.setdefault(stage, [0, 0.0, 0.0])
            row[:] = [row[0] + 1, row[1] + seconds, max(row[2], seconds)]


def summarise(state: State, tally: Tally, total: int, this_run: ThisRun, prices: Prices) -> dict[str, Any]:
    """Return the summary as plain JSON values. `tally` has seen every row of the state, of `total` in the input."""
    spent = state.spent()
    pairs = spent.pop(PAIRS, Spent())
    by_status = state.counts()
    return {
        "schema": SCHEMA,
        "complete": tally.rows == total,
        "stopped": None if tally.rows == total else this_run.stopped,
        "rows": {"total": total, "done": tally.rows, "left": total - tally.rows, "by_status": by_status},
        "claims": dict(sorted(tally.verdicts.items())),
        "hallucination_rate": tally.rates.as_json(),
        "calls": _calls(spent, prices),
        "pairs": {"scored": pairs.calls, "reused": pairs.reused},
        "seconds": {
            "per_row": {
                "mean": _mean(tally.seconds, tally.rows),
                "median": state.seconds_at(0.5),
                "p95": state.seconds_at(0.95),
            },
            "stages": {
                stage: {"rows": int(n), "mean": _mean(seconds, n), "most": round(most, 4), "sum": round(seconds, 4)}
                for stage, (n, seconds, most) in sorted(tally.stages.items(), key=lambda item: -item[1][1])
            },
        },
        "slowest": [slow._asdict() for slow in state.slowest(SLOWEST)],
        "failures": {
            "rows": tally.failures.total(),
            "by_kind": dict(tally.failures.most_common()),
            "listed": tally.listed,
        },
        "models": tally.models,
        "this_run": {**asdict(this_run), "rows_per_s": _rate_of(this_run)},
    }


def _calls(spent: Mapping[str, Spent], prices: Prices) -> dict[str, Any]:
    whole = sum(spent.values(), Spent())
    known = prices.prompt is not None and prices.completion is not None
    cost = (
        (whole.prompt_tokens * (prices.prompt or 0) + whole.completion_tokens * (prices.completion or 0)) / 1e6
        if known
        else None
    )
    return {
        "made": whole.calls,
        "reused": whole.reused,
        "by_stage": {stage: asdict(each) for stage, each in sorted(spent.items())},
        "prompt_tokens": whole.prompt_tokens,
        "completion_tokens": whole.completion_tokens,
        "without_tokens": whole.unreported,
        "cost": None if cost is None or whole.unreported else round(cost, 6),
        "cost_of_reported": None if cost is None else round(cost, 6),
        "price_per_million": asdict(prices),
    }


def _mean(sum_of: float, n: float) -> float | None:
    return round(sum_of / n, 4) if n else None


def _rate_of(this_run: ThisRun) -> float | None:
    return round(this_run.rows / this_run.seconds, 3) if this_run.rows and this_run.seconds > 0 else None


def summary_path(output: Path) -> Path:
    """Return where the summary of a run with this output is written."""
    return output.with_name(f"{output.name}.summary.json")


def write_summary(output: Path, summary: Mapping[str, Any]) -> None:
    """Write the summary beside the output. Raises OutputFailed."""
    save(summary_path(output), json.dumps(summary, indent=2, ensure_ascii=False) + "\n", "the summary")
