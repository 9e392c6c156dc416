"""Two small tools for the stages: a deadline that a backend's own time-out is not taken for, and a tidy gather."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


class Late(Exception):
    """The report's own deadline passed."""


@dataclass(frozen=True)
class Deadline:
    """A point on the running event loop's clock, in seconds; None: never."""

    at: float | None

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Return the deadline `seconds` from now."""
        return cls(None if seconds is None else asyncio.get_running_loop().time() + seconds)

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self.at is not None and asyncio.get_running_loop().time() >= self.at

    async def bound(self, work: Awaitable[T]) -> T:
        """Await `work`, cancelling it at the deadline.

        Raises Late for the deadline only: a TimeoutError that `work` itself raises is its own failure.
        """
        limit = asyncio.timeout_at(self.at)
        try:
            async with limit:
                return await work
        except TimeoutError as exc:
            if limit.expired():
                raise Late from exc
            raise


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines at the same time and return their results in order.

    The first exception is raised; it, or a cancellation from outside, cancels the others, and nothing is left
    behind that Python would complain of.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # looked at, so that it does not count as never retrieved
