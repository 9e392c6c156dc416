"""Budgets: when no new row begins. What is in flight then is finished, so that nothing that was paid for is lost.

A budget is per run of the command. `--max-rows` is exact. `--budget-calls` and `--budget-tokens` are compared with
what finished rows cost, so they are passed by what the rows in flight still cost: at most `--concurrency` rows. A
deadline is passed by the time that the rows in flight still take; `--timeout` bounds that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from corrigenda.batch.engine import Stop
from corrigenda.batch.rows import Done, Row


@dataclass(kw_only=True)
class Budget:
    """The limits of a run, each None where there is none, and what was spent of them."""

    rows: int | None = None
    calls: int | None = None
    tokens: int | None = None
    """Of prompts and completions together, as far as they were reported."""
    deadline_s: float | None = None
    """Seconds from the command's beginning."""
    spent_rows: int = 0
    spent_calls: int = 0
    spent_tokens: int = 0

    def limited(self, rows: Iterator[Row], stop: Stop) -> Iterator[Row]:
        """Yield rows as long as `rows` of the budget are left; then tell `stop`, if there is one more."""
        for number, row in enumerate(rows):
            if self.rows is not None and number >= self.rows:
                stop.gently(f"the budget of {self.rows} rows (--max-rows) is used up")
                return
            yield row

    def spend(self, done: Done, stop: Stop) -> None:
        """Count a finished row, and tell `stop` when a budget is used up."""
        self.spent_rows += 1
        self.spent_calls += done.calls
        self.spent_tokens += done.tokens
        if self.calls is not None and self.spent_calls >= self.calls:
            stop.gently(f"the budget of {self.calls} calls (--budget-calls) is used up: {self.spent_calls} were made")
        if self.tokens is not None and self.spent_tokens >= self.tokens:
            used = f"{self.spent_tokens} were used"
            stop.gently(f"the budget of {self.tokens} tokens (--budget-tokens) is used up: {used}")

    @contextmanager
    def deadline(self, stop: Stop, gone_s: float = 0.0) -> Iterator[None]:
        """Tell `stop` when the deadline comes, of which `gone_s` are over, while the context is open.

        In a running event loop.
        """
        if self.deadline_s is None:
            yield
            return
        reason = f"the deadline of {self.deadline_s:g} s (--deadline) is over"
        timer = asyncio.get_running_loop().call_later(max(0.0, self.deadline_s - gone_s), stop.gently, reason)
        try:
            yield
        finally:
            timer.cancel()
