"""What one report cost: when each stage ran, how many calls it made, and how many tokens were reported."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace

from corrigenda.ports import ChatModel
from corrigenda.types import ChatRequest, Completion, Delta, StageUsage, Timing, TokenUsage

JOIN_S = 0.001
"""Runs of one stage that are closer than this many seconds are shown as one."""


@dataclass(kw_only=True)
class Trace:
    """Timings, usage and warnings of one report, collected as it is made. Times are seconds since `start`."""

    start: float = field(default_factory=time.perf_counter)
    on_stage: Callable[[str, bool], None] | None = None
    """Called with a stage's name and True when it begins, False when it ends; for progress displays."""
    timings: list[Timing] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _usage: dict[str, list[TokenUsage]] = field(default_factory=dict)

    def now(self) -> float:
        """Return the seconds since the report began."""
        return time.perf_counter() - self.start

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record how long the block took under `name`, also when it fails."""
        begun = self.now()
        self._tell(name, True)
        try:
            yield
        finally:
            self.timings.append(Timing(stage=name, start_s=begun, end_s=self.now()))
            self._tell(name, False)

    def _tell(self, name: str, begins: bool) -> None:
        if self.on_stage is None:
            return
        try:
            self.on_stage(name, begins)
        except Exception as exc:  # a display of the caller's own may raise anything; the report goes on without it
            self.on_stage = None
            self.warn(f"progress display: {type(exc).__name__}: {exc}; it is not told any more")

    def merged_timings(self) -> tuple[Timing, ...]:
        """Return the timings by start, overlapping ones of the same stage joined into one."""
        merged: dict[str, list[Timing]] = {}
        for timing in sorted(self.timings, key=lambda t: t.start_s):
            row = merged.setdefault(timing.stage, [])
            if row and timing.start_s <= row[-1].end_s + JOIN_S:
                row[-1] = replace(row[-1], end_s=max(row[-1].end_s, timing.end_s))
            else:
                row.append(timing)
        return tuple(sorted((t for row in merged.values() for t in row), key=lambda t: (t.start_s, t.end_s)))

    def warn(self, *messages: str) -> None:
        """Keep each message once, in the order of its first appearance."""
        self.warnings += [m for m in messages if m not in self.warnings]

    def count(self, stage: str, usage: TokenUsage) -> None:
        """Count one call of `stage`."""
        self._usage.setdefault(stage, []).append(usage)

    def usage(self) -> dict[str, StageUsage]:
        """Return the calls and tokens per stage; tokens are None as soon as one call's count is unknown."""
        return {
            stage: StageUsage(
                calls=len(calls),
                prompt_tokens=_total([u.prompt_tokens for u in calls]),
                completion_tokens=_total([u.completion_tokens for u in calls]),
            )
            for stage, calls in self._usage.items()
        }


def _total(counts: list[int | None]) -> int | None:
    known = [c for c in counts if c is not None]
    return sum(known) if len(known) == len(counts) else None


class MeteredChat:
    """A chat model whose calls are counted. Failed and abandoned calls count too, tokens unknown."""

    def __init__(self, inner: ChatModel, count: Callable[[str, TokenUsage], None]) -> None:
        """Wrap `inner`, which is neither changed nor closed from here. `count` gets each call's stage and tokens."""
        self._inner = inner
        self._count = count

    @property
    def name(self) -> str:
        """The wrapped model's name."""
        return self._inner.name

    async def complete(self, request: ChatRequest) -> Completion:
        """Call the wrapped model and count the call."""
        usage = TokenUsage()
        try:
            completion = await self._inner.complete(request)
            usage = completion.usage
            return completion
        finally:
            self._count(request.stage, usage)

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        """Stream from the wrapped model and count the call."""
        usage = TokenUsage()
        try:
            async with aclosing(self._inner.stream(request)) as deltas:  # type: ignore[type-var]
                async for delta in deltas:
                    if delta.completion is not None:
                        usage = delta.completion.usage
                    yield delta
        finally:
            self._count(request.stage, usage)

    async def aclose(self) -> None:
        """Do nothing: whoever made the wrapped model closes it."""
