"""A chat model of which only as many calls run at once as the server takes; see `corrigenda.backends.limit`.

A call that failed for a passing reason (no connection, a time-out, 408, 409, 429, 5xx) is made again, a bounded number
of times, after what `Retry-After` says or an exponential wait. While a server wants to be left alone, no call at all
begins. A reply that has begun to arrive is never asked for again. The wrapped model should make no retries of its own:
they would hide from the limit what it is to follow.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from corrigenda.backends.limit import Limit
from corrigenda.errors import BackendError, RateLimited, TimedOut, Unreachable
from corrigenda.ports import ChatModel, LabelScorer
from corrigenda.types import ChatRequest, Completion, Delta

T = TypeVar("T")

LONGEST_WAIT_S = 120.0
"""A server that wants to be left alone for longer is not waited for: the call fails with what it said."""
_FIRST_WAIT_S = 0.5
_LONGEST_BACKOFF_S = 8.0
_OVERLOAD = (429, 503, 529)


@dataclass(kw_only=True)
class Load:
    """What an `AdaptiveChat` has done so far."""

    calls: int = 0
    """Calls made of the wrapped model, those made again included."""
    retries: int = 0
    """Calls made again."""
    overloads: int = 0
    """Failures that say that the server has too much: 429, 503, 529, a time-out."""
    most_at_once: int = 0
    """The most calls that ran at a time."""


class AdaptiveChat:
    """A chat model with a limit to how many calls run at once. For one event loop; the inner one is not changed."""

    def __init__(
        self,
        inner: ChatModel,
        *,
        most: int = 64,
        start: int = 8,
        retries: int = 4,
        longest_wait_s: float = LONGEST_WAIT_S,
        on_limit: Callable[[int], None] | None = None,
    ) -> None:
        """Wrap `inner`.

        `most` and `start` (from 1): how many calls run at once, at most and in the beginning. `retries` (from 0) is
        how often a call is made again, `longest_wait_s` (from 0) how long a `Retry-After` may be. `on_limit` is told
        each new limit. Raises ValueError.
        """
        if retries < 0 or longest_wait_s < 0:
            raise ValueError(f"retries and the wait must be at least 0, got {retries!r} and {longest_wait_s!r}")
        self._inner = inner
        self._limit = Limit(most=most, start=start)
        self._retries = retries
        self._longest_wait_s = longest_wait_s
        self._on_limit = on_limit
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed_until = 0.0
        self.load = Load()
        """What was done so far."""

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self._inner.name

    @property
    def limit(self) -> int:
        """How many calls may run at once now."""
        return self._limit.now

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the reply, as soon as there is a place for the call."""
        return await self._call(request.stage, lambda: self._inner.complete(request))

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        """Yield the reply as it comes. The place is taken until the stream has ended or is closed."""
        failed = 0
        while True:
            begun = False
            async with _Place(self) as place:
                try:
                    async with aclosing(self._inner.stream(request)) as deltas:  # type: ignore[type-var]
                        async for delta in deltas:
                            begun = True
                            if delta.completion is not None:
                                place.done(request.stage)
                            yield delta
                    return
                except BackendError as exc:
                    wait = place.failed(exc, failed)
                    if begun or wait is None:
                        raise
            failed += 1
            await self._rest(wait)

    async def aclose(self) -> None:
        """Close the inner model."""
        await self._inner.aclose()

    async def _call(self, stage: str, make: Callable[[], Awaitable[T]]) -> T:
        failed = 0
        while True:
            async with _Place(self) as place:
                try:
                    result = await make()
                    place.done(stage)
                    return result
                except BackendError as exc:
                    wait = place.failed(exc, failed)
                    if wait is None:
                        raise
            failed += 1
            await self._rest(wait)

    async def _rest(self, seconds: float) -> None:
        """Wait before a call is made again."""
        self.load.retries += 1
        await asyncio.sleep(seconds)

    async def _enter(self) -> None:
        """Wait for a place; first come, first served."""
        if not self._waiting and self._free():
            self._running += 1
        else:
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            self._admit()
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._leave()  # it was given the place at the very moment
                raise
        self.load.calls += 1
        self.load.most_at_once = max(self.load.most_at_once, self._running)

    def _leave(self) -> None:
        self._running -= 1
        self._admit()

    def _free(self) -> bool:
        """Return whether a call may begin now."""
        return self._running < self._limit.now and asyncio.get_running_loop().time() >= self._closed_until

    def _admit(self) -> None:
        """Let those in for whom there is a place."""
        while self._waiting and (self._waiting[0].done() or self._free()):
            place = self._waiting.popleft()
            if not place.done():
                self._running += 1
                place.set_result(None)

    def _close_for(self, seconds: float) -> None:
        """Let no call begin for a time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if until > self._closed_until:
            self._closed_until = until
            loop.call_at(until, self._admit)

    def _tell(self, before: int) -> None:
        if self._on_limit is not None and self._limit.now != before:
            self._on_limit(self._limit.now)


class _Place:
    """The place of one call among those that run at once."""

    def __init__(self, chat: AdaptiveChat) -> None:
        self._chat = chat

    async def __aenter__(self) -> _Place:
        await self._chat._enter()
        self._epoch = self._chat._limit.epoch
        self._begun = asyncio.get_running_loop().time()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._chat._leave()

    def done(self, stage: str) -> None:
        """Take note that the call went well."""
        chat, before = self._chat, self._chat._limit.now
        seconds = asyncio.get_running_loop().time() - self._begun
        chat._limit.done(stage, seconds, epoch=self._epoch, awaited=bool(chat._waiting))
        chat._tell(before)

    def failed(self, error: BackendError, before: int) -> float | None:
        """Take note of a failure; return the seconds until the call is made again, None when it is not.

        `before`: how often the call failed before.
        """
        chat, limit = self._chat, self._chat._limit.now
        if isinstance(error, RateLimited | TimedOut) or error.status in _OVERLOAD:
            chat.load.overloads += 1
            chat._limit.overloaded(epoch=self._epoch)
            chat._tell(limit)
        wanted = error.retry_after_s
        if not passing(error) or before >= chat._retries or (wanted or 0.0) > chat._longest_wait_s:
            return None
        if wanted is not None:
            chat._close_for(wanted)
            return wanted
        longest = min(_LONGEST_BACKOFF_S, _FIRST_WAIT_S * 2.0**before)
        return longest * random.uniform(0.75, 1.0)  # noqa: S311  (nothing secret: calls are to come back apart)


def passing(error: BackendError) -> bool:
    """Return whether a failure may be over when the call is made again."""
    if isinstance(error, RateLimited | TimedOut | Unreachable):
        return True
    return error.status is not None and (error.status in (408, 409) or error.status >= 500)


class AdaptiveScorer(AdaptiveChat):
    """The same for a chat model that can also score labels."""

    def __init__(self, inner: ChatModel, scorer: LabelScorer, **settings: Any) -> None:
        """Wrap `inner`, which `scorer` is too; `settings` as for `AdaptiveChat`."""
        super().__init__(inner, **settings)
        self._scorer = scorer

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        """Return the scores, as soon as there is a place for the call."""
        return await self._call(f"{request.stage} labels", lambda: self._scorer.label_logprobs(request, labels))

    def count_tokens(self, text: str) -> int:
        """Count with the inner model."""
        return self._scorer.count_tokens(text)


def adaptive(inner: ChatModel, **settings: Any) -> AdaptiveChat:
    """Return `inner` wrapped (settings as for `AdaptiveChat`), as a LabelScorer where it is one."""
    if isinstance(inner, LabelScorer):
        return AdaptiveScorer(inner, inner, **settings)
    return AdaptiveChat(inner, **settings)
