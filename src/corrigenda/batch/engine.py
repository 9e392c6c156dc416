"""How rows are spread over workers: what an engine is, and how it is told to stop.

`local.LocalEngine` works in this process, `engine_ray.RayEngine` on a Ray cluster. Both make the same reports, and
neither knows of the output, of the state or of budgets: they take rows as long as there are some and give back what
was made of each, in any order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Protocol

from corrigenda.batch.rows import Done, Row


class Stop:
    """Tells an engine to stop: gently (rows in flight are finished) or at once (they are given up).

    Set from the event loop's thread only. The first reason stands.
    """

    def __init__(self) -> None:
        """Nobody has asked for it yet."""
        self.reason: str | None = None
        """Why no new row may begin; None while they may."""
        self.at_once = False
        """Whether rows in flight are given up, too."""
        self.wanted = asyncio.Event()
        """Set with `reason`, for engines that wait for something else meanwhile."""
        self.hurry = asyncio.Event()
        """Set with `at_once`."""

    def gently(self, reason: str) -> None:
        """Let no new row begin."""
        self.reason = self.reason or reason
        self.wanted.set()

    def now(self, reason: str) -> None:
        """Let no new row begin, and give up those in flight."""
        self.gently(reason)
        self.at_once = True
        self.hurry.set()


class Engine(Protocol):
    """Makes what there is to make of rows."""

    def run(self, rows: Iterator[Row], stop: Stop) -> AsyncIterator[Done]:
        """Yield what was made of each row, as soon as it is there, in any order, each once.

        `rows` is read as rows are needed and is not taken whole into memory; it must be used from one thread at a
        time, and it ends early when a budget is reached. Once `stop.reason` is set, no row begins any more: those in
        flight are finished and yielded, and with `stop.at_once` they are given up (they are not yielded, and a later
        run does them again). A row that fails is yielded with its reason.

        Raises ConfigError (MissingExtra among them), ModelError or InputError when the models cannot be had, and
        BackendError when the engine itself breaks. Closing the iterator frees models, processes and connections.
        """
        ...
