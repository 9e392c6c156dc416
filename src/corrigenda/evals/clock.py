"""The time that a method would have taken on one item, had it made every call itself.

Methods share calls (`meter`): a call that another method made before is answered at once. Here it takes as long as
it took then, without anybody waiting for it: while nothing else of the item is going on, the clock is put forward.
While something is, as when recall runs beside an answer that is there already, the call takes its time beside it.
So calls that run side by side overlap as they would, and those that follow each other add up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_TURNS = 5
"""Turns of the event loop that others get to begin what they would have begun at the same time."""
_TICK_S = 0.002
"""How often a call that takes its time beside others looks again."""


class Clock:
    """The clock of one method on one item. Use it within one event loop."""

    def __init__(self) -> None:
        """Start at 0."""
        self._begun = asyncio.get_running_loop().time()
        self._ahead = 0.0
        self._busy = 0
        self._due: list[float] = []

    def now(self) -> float:
        """Return the seconds since the start, with the time that was put forward."""
        return asyncio.get_running_loop().time() - self._begun + self._ahead

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Say that something is going on that takes its own time."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1

    async def spend(self, seconds: float) -> None:
        """Return when `seconds` have passed by this clock."""
        due = self.now() + seconds
        self._due.append(due)
        try:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            while (left := due - self.now()) > 0:
                if not self._busy and due <= min(self._due):
                    self._ahead += left
                else:
                    await asyncio.sleep(min(left, _TICK_S))
        finally:
            self._due.remove(due)
