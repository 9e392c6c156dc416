"""What is going on, on standard error: a live line at a terminal, sparse plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status


class Progress:
    """Shows the running stages and downloads. Use as a context manager; its methods serve as callbacks.

    Stages are shown at a terminal only. Downloads are also told where standard error is a file or a pipe:
    a line at the start, at every tenth, and whenever the note changes.
    """

    def __init__(self) -> None:
        """Show nothing yet."""
        self._live = sys.stderr.isatty()
        self._status: Status | None = None
        self._running: dict[str, int] = {}
        self._told = (-1, "")
        self._begun = time.monotonic()

    def __enter__(self) -> Progress:
        """Start the live line, at a terminal."""
        if self._live:
            from rich.console import Console  # noqa: PLC0415  # not needed for files and pipes

            self._status = Console(stderr=True).status("loading")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the live line away."""
        if self._status is not None:
            self._status.stop()

    def stage(self, name: str, begins: bool) -> None:
        """Note that the stage `name` begins or ends."""
        self._running[name] = self._running.get(name, 0) + (1 if begins else -1)
        if self._status is not None:
            running = [stage for stage, count in self._running.items() if count > 0]
            self._status.update(" + ".join(running) or "…")

    def download(self, done: int, total: int, note: str) -> None:
        """Note that `done` of `total` bytes are here; `note` says of what, or what is happening."""
        share = done / total if total else 0.0
        text = f"{note}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB ({share:.0%})"
        if self._status is not None:
            self._status.update(text)
            return
        tenth = int(share * 10)
        if (tenth, note) != self._told:
            self._told = (tenth, note)
            print(f"corrigenda: {text}", file=sys.stderr, flush=True)
