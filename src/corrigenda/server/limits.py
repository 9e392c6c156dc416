"""How much the server takes: sizes and times with their defaults, and the gate that requests wait at."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields

from corrigenda.errors import ConfigError
from corrigenda.server.problems import ApiError


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a request may be at most. Raises ConfigError when a value is out of range."""

    body_bytes: int = 8_000_000
    """Bytes of a request's body; images that are passed through count."""
    messages: int = 256
    """Messages of a conversation."""
    answer_chars: int = 50_000
    """Characters of an answer that is given for checking, and of its question."""
    output_tokens: int = 4096
    """Tokens of an answer that the upstream model makes."""
    contexts: int = 64
    """Passages that a request gives to check against."""
    context_chars: int = 400_000
    """Characters of all these passages together."""
    batch: int = 64
    """Answers in one call of /v1/verify."""
    concurrency: int = 256
    """Requests that are worked on at a time."""
    queue: int = 256
    """Requests that wait for their turn; may be 0. The next one is refused with 429."""
    deadline_s: float = 120.0
    """Seconds from a request's arrival to its report, waiting included; a request may ask for fewer."""
    read_s: float = 30.0
    """Seconds in which a request's body must have arrived."""
    write_s: float = 30.0
    """Seconds that a client may leave a piece of its reply unread."""

    def __post_init__(self) -> None:
        """Check that every value is a positive number (of the queue: not negative)."""
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "queue" else 1 if field.type == "int" else 1e-3
            if not (math.isfinite(value) and least <= value <= 1e9):
                raise ConfigError(f"--{FLAGS[field.name]} must be from {least:g} to 1e+09, got {value!r}")


FLAGS: Mapping[str, str] = {
    "body_bytes": "max-body",
    "messages": "max-messages",
    "answer_chars": "max-answer-chars",
    "output_tokens": "max-output-tokens",
    "contexts": "max-contexts",
    "context_chars": "max-context-chars",
    "batch": "max-batch",
    "concurrency": "concurrency",
    "queue": "queue",
    "deadline_s": "deadline",
    "read_s": "read-timeout",
    "write_s": "write-timeout",
}
"""Each limit, and the flag of `corrigenda serve` that sets it."""


class Gate:
    """Lets in `concurrency` requests at a time, keeps `queue` waiting in order, and refuses the others."""

    def __init__(self, concurrency: int, queue: int) -> None:
        """Both as in `Limits`."""
        self._concurrency = concurrency
        self._queue = queue
        self._free = asyncio.Semaphore(concurrency)
        self._mean_s = 1.0
        self.working = 0
        """Requests that are inside."""
        self.waiting = 0
        """Requests that wait."""

    @asynccontextmanager
    async def inside(self) -> AsyncIterator[None]:
        """Wait for a place and hold it. Raises ApiError 429, with when to come back, where the queue is full."""
        if self._free.locked() and self.waiting >= self._queue:
            raise ApiError(
                429,
                f"the server is busy: {self.working} requests are worked on and {self.waiting} wait; try again later",
                kind="rate_limit_error",
                code="queue_full",
                headers={"Retry-After": str(self._come_back_s())},
            )
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.working += 1
        began = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            took = asyncio.get_running_loop().time() - began
            self._mean_s += 0.1 * (took - self._mean_s)
            self.working -= 1
            self._free.release()

    def _come_back_s(self) -> int:
        """Return in how many seconds half of those that are here will be through, at the latest pace; 1 to 60."""
        return min(60, max(1, math.ceil(self._mean_s * (1 + self.waiting / self._concurrency) / 2)))
