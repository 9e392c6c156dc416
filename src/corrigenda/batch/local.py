"""The engine in this process: one worker, one event loop, many rows in flight, so that their stages overlap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress

from corrigenda.batch.engine import Stop
from corrigenda.batch.rows import Done, Row
from corrigenda.batch.worker import Job, RowWorker


class LocalEngine:
    """An `Engine` in the running event loop. At most `job.concurrency` rows are in flight."""

    def __init__(self, job: Job, progress: Callable[[int, int, str], None] | None = None) -> None:
        """Load nothing yet. `progress(done, total, note)` follows downloads of models, in bytes."""
        self._job = job
        self._progress = progress

    async def run(self, rows: Iterator[Row], stop: Stop) -> AsyncGenerator[Done, None]:
        """Yield what was made of each row; see `Engine.run`."""
        worker = RowWorker(self._job, self._progress)
        hurry = asyncio.create_task(stop.hurry.wait())
        try:
            if not await _started(worker, hurry):
                return
            flight = _Flight(worker, self._job.concurrency, hurry)
            try:
                async with aclosing(flight.through(rows, stop)) as ended:
                    async for done in ended:
                        yield done
            finally:
                await flight.give_up()
        finally:
            hurry.cancel()
            await worker.aclose()


async def _started(worker: RowWorker, hurry: asyncio.Task[bool]) -> bool:
    """Load the models; return False where one was told to stop at once meanwhile. Raises what loading raises."""
    loading = asyncio.create_task(worker.start())
    await asyncio.wait({loading, hurry}, return_when=asyncio.FIRST_COMPLETED)
    if loading.done():
        loading.result()
        return True
    loading.cancel()
    with suppress(asyncio.CancelledError):
        await loading
    return False


class _Flight:
    """The rows in flight. A queue tells which have ended: to wait for all costs more the more there are."""

    def __init__(self, worker: RowWorker, most: int, hurry: asyncio.Task[bool]) -> None:
        self._worker = worker
        self._most = most
        self._ended: asyncio.Queue[asyncio.Task[Done] | None] = asyncio.Queue()
        self._flying: set[asyncio.Task[Done]] = set()
        hurry.add_done_callback(lambda _: self._ended.put_nowait(None))

    async def through(self, rows: Iterator[Row], stop: Stop) -> AsyncGenerator[Done, None]:
        left = True
        while True:
            while left and len(self._flying) < self._most and stop.reason is None:
                row = next(rows, None)
                left = row is not None
                if row is not None:
                    self._begin(row)
            if not self._flying:
                return
            task = await self._ended.get()
            if task is None:
                return
            self._flying.discard(task)
            yield task.result()

    def _begin(self, row: Row) -> None:
        task = asyncio.create_task(self._worker.done(row))
        self._flying.add(task)
        task.add_done_callback(self._ended.put_nowait)

    async def give_up(self) -> None:
        """Cancel what is in flight still, and wait until it has ended."""
        for task in self._flying:
            task.cancel()
        if self._flying:
            await asyncio.wait(self._flying)
        for task in self._flying:
            if not task.cancelled():
                task.exception()  # looked at, so that it does not count as never retrieved
