"""Waiting for the parts of a reply with a time limit, so that a client hears something while they are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Generic, TypeVar

from corrigenda.server.bodies import Exchange

T = TypeVar("T")
HEAD_S = 10.0
"""For so long the first part is waited for before the status is sent: what fails by then has a status of its own."""
BEAT_S = 10.0
"""A stream says that it lives when nothing else came for so long: proxies cut silent connections after a minute."""
_END = object()


class Pump(Generic[T]):
    """Runs an asynchronous generator in one task from its first step to its last, and keeps what it yields.

    A generator with task groups inside must not change tasks, and a time limit around one of its steps would end it.
    """

    def __init__(self, source: AsyncGenerator[T, None]) -> None:
        """`source` is closed at the end, wherever it is then."""
        self._source = source
        self._items: asyncio.Queue[object] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    async def __aenter__(self) -> Pump[T]:
        """Start."""
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and wait until the generator has cleaned up."""
        assert self._task is not None
        self._stopped = True
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            async with aclosing(self._source):
                async for item in self._source:
                    self._items.put_nowait(item)
        except Exception as exc:
            self._items.put_nowait(exc)
        except asyncio.CancelledError:
            if not self._stopped:  # else nobody would be told, and the client would hear that work goes on for ever
                self._items.put_nowait(RuntimeError("the work on a reply was cancelled from inside"))
            raise
        self._items.put_nowait(_END)

    async def next(self, within_s: float) -> T | None:
        """Return the next item, or None where none came in that time. Raises what the generator raised.

        Raises StopAsyncIteration behind the last item.
        """
        try:
            async with asyncio.timeout(within_s):
                item = await self._items.get()
        except TimeoutError:
            return None
        if item is _END:
            raise StopAsyncIteration
        if isinstance(item, Exception):
            raise item
        return item  # type: ignore[return-value]  # what the generator yields is neither


async def beat(exchange: Exchange) -> None:
    """Send a comment, which clients skip."""
    await exchange.piece(b": still working\n\n")
