"""How many calls a server may have at once, learned from how it answers. Pure: it is told what happens, and when.

The limit goes up step by step while calls wait for it, and down

- to 70%, when the server says that it has too many (429, 503) or does not answer in time: multiplicatively, and once
  for all the calls that were on their way;
- to what it was, when more calls at once only made each of them slower.

The second is judged by work and not by latency alone, since a server that batches is slower with more calls, and still
gets more done. A call's latency is compared with what is usual for its stage; calls at once divided by that ratio is
how many undisturbed calls the server does at a time, and a step up was in vain when it brought less than a seventh of
itself in this measure: 100% more calls at once, and not 15% more work.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median

ENOUGH = 0.15
"""Which share of a step up must come back as work, both relative to what was before."""
APART = 0.8
"""A limit is compared with one that is at most this share of it, so that the difference is more than noise."""
PATIENCE = 8
"""Windows after a step in vain until the next one is tried; twice as many each time, up to eight times."""
BACK = 0.7
"""What is left of the limit when the server has too many calls."""
REST = 2
"""Windows after that until more are tried."""
DRIFT = 1.01
"""By how much a stage's usual latency grows per window that does not confirm it: servers change."""
HISTORY = 64
"""Windows after which what a limit brought is forgotten."""


class Limit:
    """A limit that follows the server, from 1 to `most`."""

    def __init__(self, *, most: int, start: int = 8) -> None:
        """Begin with `start` calls at once (or `most`, where that is less). Raises ValueError for less than 1."""
        if most < 1 or start < 1:
            raise ValueError(f"the limit must be at least 1, got most={most!r}, start={start!r}")
        self._most = most
        self._limit = min(start, most)
        self._fast_below = most
        """The limit doubles below this, and goes up by steps from there on."""
        self._epoch = 0
        self._windows = 0
        self._hold_until = 0
        self._patience = PATIENCE
        self._usual: dict[str, float] = {}
        self._history: dict[int, tuple[int, float]] = {}
        """Limit → the window in which it was last judged, and the work that it brought."""
        self._begin_window()

    @property
    def now(self) -> int:
        """How many calls may run at once."""
        return self._limit

    @property
    def epoch(self) -> int:
        """Grows whenever the limit changes. A call is to tell the one that it began in."""
        return self._epoch

    def done(self, stage: str, seconds: float, *, epoch: int, awaited: bool) -> None:
        """Take note of a call that went well; `awaited`: whether another one waits for its place."""
        if epoch != self._epoch:
            return  # what it shows is another limit's
        self._seconds[stage].append(seconds)
        self._awaited += awaited
        self._calls += 1
        if self._calls >= max(8, 2 * self._limit):
            self._judge()

    def overloaded(self, *, epoch: int) -> bool:
        """Lower the limit, unless it was changed since the call began; return whether it was lowered."""
        if epoch != self._epoch:
            return False
        self._fast_below = max(1, int(self._limit * BACK))
        self._hold_until = self._windows + REST
        self._history.clear()
        self._change(self._fast_below)
        return True

    def _begin_window(self) -> None:
        self._seconds: dict[str, list[float]] = defaultdict(list)
        self._awaited = 0
        self._calls = 0

    def _change(self, limit: int) -> None:
        limit = max(1, min(self._most, limit))
        self._epoch += limit != self._limit
        self._limit = limit
        self._begin_window()

    def _judge(self) -> None:
        """Go up, down, or stay, by the calls of one window."""
        self._windows += 1
        binding = self._awaited * 2 > self._calls
        work = self._limit / self._slowdown()
        if not binding:
            self._change(self._limit)  # what more would bring cannot be seen
            return
        self._history[self._limit] = self._windows, work
        fresh = {n: w for n, (at, w) in self._history.items() if self._windows - at < HISTORY}
        lower = max((n for n in fresh if n <= self._limit * APART), default=None)
        if lower is not None and work / fresh[lower] - 1 < ENOUGH * (self._limit / lower - 1):
            self._fast_below = lower
            self._hold_until = self._windows + self._patience
            self._patience = min(2 * self._patience, 8 * PATIENCE)
            self._change(lower)
        elif self._windows < self._hold_until:
            self._change(self._limit)
        elif self._limit < self._fast_below:
            self._change(min(2 * self._limit, max(self._fast_below, self._limit + 1)))
        else:
            self._change(self._limit + max(1, min(self._most // 16, self._limit // 4)))

    def _slowdown(self) -> float:
        """Return how many times slower than usual the window's calls were, and note what is usual; above 0."""
        ratios = []
        for stage, seconds in self._seconds.items():
            middle = max(median(seconds), 1e-6)
            usual = self._usual.get(stage, middle)
            ratios += [each / usual for each in seconds]
            self._usual[stage] = min(middle, usual * DRIFT)
        return max(median(ratios), 1e-6)
