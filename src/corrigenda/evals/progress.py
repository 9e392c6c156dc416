"""How far a run is, on standard error: a live line at a terminal, sparse plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from corrigenda.evals.records import Record
from corrigenda.files import tell
from corrigenda.terminal import one_line

if TYPE_CHECKING:
    from rich.status import Status

QUIET_S = 60.0
"""Seconds between plain lines, but for the first and the last one."""


class Counter:
    """Counts what is made, with rate and time left. Use as a context manager."""

    def __init__(self, total: int, what: str, done: int = 0, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Of `total` things called `what`, `done` are there already. `clock` gives seconds."""
        self._total = total
        self._what = what
        self._before = done
        self._made = 0
        self._failed = 0
        self._clock = clock
        self._begun = clock()
        self._told = self._begun
        self._status: Status | None = None

    def __enter__(self) -> Counter:
        """Start the live line, at a terminal; elsewhere print the first line."""
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415  # not needed for files and pipes

            self._status = Console(stderr=True, markup=False, highlight=False).status(self.line())
            self._status.start()
        else:
            tell(self.line())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the live line away."""
        if self._status is not None:
            self._status.stop()

    def add(self, name: str, *, failed: bool = False) -> None:
        """Note that the thing called `name` was made, or failed."""
        self._made += 1
        self._failed += failed
        if self._status is not None:
            self._status.update(one_line(f"{self.line()}  {name}"))
            return
        now = self._clock()
        if self._before + self._made >= self._total or now - self._told >= QUIET_S:
            self._told = now
            tell(self.line())

    def record(self, record: Record) -> None:
        """Note that a record was written."""
        self.add(f"{record.method} {record.item}", failed=record.status == "failed")

    def line(self) -> str:
        """Return where things are: how many are done and failed, the rate, the time left or taken."""
        done = self._before + self._made
        text = f"{done} of {self._total} {self._what}"
        if self._failed:
            text += f", {self._failed} failed"
        seconds = self._clock() - self._begun
        if not self._made or seconds <= 0:
            return text
        if done >= self._total:
            return f"{text}, took {duration(seconds)}"
        return f"{text}, {_rate(self._made / seconds)}, {duration((self._total - done) * seconds / self._made)} left"


def _rate(per_second: float) -> str:
    return f"{per_second:.1f} a second" if per_second >= 1 else f"{per_second * 60:.1f} a minute"


def duration(seconds: float) -> str:
    """Return a length of time for a person: `45 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
