"""The engine on Ray Data: rows → a dataset → a pool of actors, each with one set of models → outcomes as they come.

Ray does the scheduling, the transport and the retries. What is done here: rows are put in as outcomes come out, so that
what is on its way stays bounded (`Feed`); the pool is sized from what the cluster has; and what cannot start or breaks
becomes an error. Readers ask for no CPU, since a pool that takes every CPU would leave none for them, and the job would
then wait for ever.

An actor that dies is started again by Ray, and its blocks of rows are made again. Nothing is lost then, and what was
made twice comes back once; calls that were made for rows in flight there were made in vain.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from corrigenda.batch.engine import Stop
from corrigenda.batch.ray_cluster import Cluster, RayOptions, connect, disconnect, needs, pool_size
from corrigenda.batch.ray_rows import Feed, RowActor, blocks, failure_of, without_secrets
from corrigenda.batch.rows import Done, Row, pack, unpack_done
from corrigenda.batch.worker import Job
from corrigenda.errors import BackendError
from corrigenda.files import tell

AHEAD = 1.5
"""Rows sent to a worker, for each that it may have in flight: what ends a block's last row keeps no other waiting."""
READERS = 2000
"""Reading tasks, each of 64 blocks more than the one before, so that none has long to go when it is begun again."""
FIRST_READER = 64
END_S = 20.0
"""Seconds that a run which is given up may take to end its tasks, before Ray is ended under them."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How a run is cut."""

    actors: int
    rows: int
    """In a block."""
    calls: int
    """Blocks that an actor works on at a time."""

    @property
    def most(self) -> int:
        """Rows that are on their way at most: sent, and nothing come back of them; one block waits to be sent on."""
        return self.rows * (self.actors * self.calls + 1)


def shape_of(actors: int, concurrency: int, batch_rows: int) -> Shape:
    """Return how a run is cut: enough blocks for each actor to keep `concurrency` rows in flight."""
    rows = min(batch_rows, concurrency)
    return Shape(actors=actors, rows=rows, calls=math.ceil(AHEAD * concurrency / rows) + 1)


class RayEngine:
    """An `Engine` on a Ray cluster, or on a Ray that is started on this machine for the run.

    Each of its workers has `job.concurrency` rows in flight at most; up to half as many more, and some blocks, are on
    their way to it. All of these count as begun: they are finished when one is told to stop gently.
    """

    def __init__(self, job: Job, options: RayOptions | None = None) -> None:
        """Start nothing yet."""
        self._job = job
        self._options = options or RayOptions()

    async def run(self, rows: Iterator[Row], stop: Stop) -> AsyncGenerator[Done, None]:
        """Yield what was made of each row; see `Engine.run`.

        Raises Unreachable when there is no cluster at the address, ConfigError when the workers do not fit into it.
        """
        connecting = asyncio.ensure_future(asyncio.to_thread(connect, self._options, self._job.settings))
        hurry = asyncio.create_task(stop.hurry.wait())
        try:
            await asyncio.wait({connecting, hurry}, return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                return
            flight = await asyncio.to_thread(self._begun, connecting.result())
            try:
                hurry.add_done_callback(lambda _: flight.tell(None))
                while (ended := await flight.next(rows, stop)) is not None:
                    for done in ended:
                        yield done
            finally:
                await asyncio.to_thread(flight.end)
        finally:
            hurry.cancel()
            await asyncio.wait({connecting})  # it is bounded, and what it began has to be ended
            if not connecting.cancelled() and connecting.exception() is None:
                await asyncio.to_thread(disconnect, connecting.result())

    def _begun(self, cluster: Cluster) -> _Flight:
        actors = pool_size(self._options, cluster)
        shape = shape_of(actors, self._job.concurrency, self._options.batch_rows)
        return _Flight(shape, cluster, self._options, self._job)


class _Flight:
    """A dataset that is being worked through: rows go in, outcomes come out, by a thread that waits for them."""

    def __init__(self, shape: Shape, cluster: Cluster, options: RayOptions, job: Job) -> None:
        import ray  # noqa: PLC0415  # optional, and slow to import

        self._shape = shape
        self._cluster = cluster
        self._options = options
        near = {"ray.io/node-id": cluster.here}
        make = ray.remote(num_cpus=0, label_selector=near)(Feed)
        self._feed: Any = make.remote()
        self._dataset = _dataset(shape, options, job, self._feed, near)
        self._blocks: dict[int, int] = {}
        """Block → how many of its rows have not come back."""
        self._sent: dict[int, int] = {}
        """Row → its block, for rows that have not come back."""
        self._lost = False
        """Whether it was told that a worker was lost."""
        self._count = 0
        self._left = True
        """Whether there may be more rows to send."""
        self._ended = False
        """Whether the feed was told that there are none."""
        self._came: asyncio.Queue[Any] = asyncio.Queue()
        self._tell: Callable[[Any], None] = lambda _: None
        self._thread: threading.Thread | None = None

    def tell(self, what: Any) -> None:
        """Let `next` have a table of outcomes, an exception, or None: there is no more. In the loop's thread."""
        self._came.put_nowait(what)

    async def next(self, rows: Iterator[Row], stop: Stop) -> list[Done] | None:
        """Send what may be sent, and return the outcomes that come next; None when all have come.

        Raises BackendError, or what an actor met when it loaded its models.
        """
        self._send(rows, stop)
        if not self._sent or stop.at_once:
            return None
        if self._thread is None:
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(
                target=_follow, args=(self._dataset, lambda what: _call(loop, self.tell, what)), daemon=True
            )
            self._thread.start()
        came = await self._came.get()
        if came is None and stop.at_once:
            return None
        if came is None or isinstance(came, BaseException):
            raise self._broken(came)
        return self._received(came)

    def _send(self, rows: Iterator[Row], stop: Stop) -> None:
        while (
            not self._ended
            and self._left
            and stop.reason is None
            and len(self._sent) + self._shape.rows <= self._shape.most
        ):
            block = list(islice(rows, self._shape.rows))
            self._left = len(block) == self._shape.rows
            if block:
                self._blocks[self._count] = len(block)
                self._sent.update((row.number, self._count) for row in block)
                self._feed.put.remote(self._count, [pack(row) for row in block])
                self._count += 1
        if not self._ended and (not self._left or stop.reason is not None):
            self._ended = True
            self._feed.end.remote(self._count)

    def _received(self, table: Any) -> list[Done]:
        ended = []
        [failure], [attempt], [texts] = (table[name].to_pylist() for name in ("failure", "attempt", "done"))
        if failure is not None:
            raise failure_of(failure)
        if attempt > 1 and not self._lost:
            self._lost = True
            tell("a worker's process or machine was lost; the rows that it had are made again")
        for done in map(unpack_done, texts):
            block = self._sent.pop(done.number, None)
            if block is None:
                continue  # it was made twice
            ended.append(done)
            self._blocks[block] -= 1
            if not self._blocks[block]:
                del self._blocks[block]
                self._feed.forget.remote(block)
        return ended

    def _broken(self, exc: BaseException | None) -> BackendError:
        import ray  # noqa: PLC0415  # as above

        kept = "what is done is kept, and the same command goes on from there"
        if isinstance(exc, ray.exceptions.GetTimeoutError):
            asked = f"{self._shape.actors} workers with {needs(self._options)} each"
            return BackendError(
                f"{asked} did not all start within {self._options.start_s:g} s; the cluster had "
                f"{self._cluster.described()}, when the run began; set fewer --ray-actors, or wait until others' work "
                f"has ended; {kept}"
            )
        if exc is None:
            why = f"it ended with {len(self._sent)} rows on their way"
        else:
            lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
            why = f"{type(exc).__name__}: {(lines or [''])[-1][:300]}"
        return BackendError(f"the Ray run broke ({why}); {kept}")

    def end(self) -> None:
        """End the dataset and its actors. Blocks for some seconds at most."""
        import ray  # noqa: PLC0415  # as above

        ray.kill(self._feed)  # the reader fails, and so the dataset ends, whatever it waits for
        if self._thread is not None:
            self._thread.join(END_S)


def _dataset(shape: Shape, options: RayOptions, job: Job, feed: Any, near: dict[str, str]) -> Any:
    """Return the dataset of what is made of the feed's rows; nothing runs yet."""
    import ray.data  # noqa: PLC0415  # as above

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.target_max_block_size = 1  # byte: whatever comes is sent on at once, and never waits to be joined
    context.wait_for_min_actors_s = math.ceil(options.start_s)
    context.memory_usage_poll_interval_s = None
    ends = [FIRST_READER * number * (number + 1) // 2 for number in range(READERS + 1)]
    spans = [{"start": start, "stop": stop} for start, stop in pairwise(ends)]
    return (
        ray.data.from_items(spans, override_num_blocks=READERS)
        .map_batches(
            blocks,
            batch_size=1,
            batch_format="pyarrow",
            fn_args=(feed,),
            compute=ray.data.TaskPoolStrategy(size=1),
            num_cpus=0,
            label_selector=near,
        )
        .map_batches(
            RowActor,
            batch_size=1,
            batch_format="pyarrow",
            fn_constructor_args=(without_secrets(job), feed),
            compute=ray.data.ActorPoolStrategy(
                size=shape.actors,
                max_tasks_in_flight_per_actor=shape.calls,
                max_concurrent_calls_per_actor=shape.calls,
                enable_true_multi_threading=True,
            ),
            num_cpus=options.cpus_per_actor,
            num_gpus=options.gpus_per_actor or None,
        )
    )


def _follow(dataset: Any, tell: Callable[[Any], None]) -> None:
    """Carry the dataset out, in a thread of its own, and tell each table of outcomes as it comes."""
    try:
        for table in dataset.iter_batches(batch_size=1, batch_format="pyarrow", prefetch_batches=0):
            tell(table)
    except BaseException as exc:  # whatever it is, the run has to hear of it
        tell(exc)
    else:
        tell(None)


def _call(loop: asyncio.AbstractEventLoop, tell: Callable[[Any], None], what: Any) -> None:
    try:
        loop.call_soon_threadsafe(tell, what)
    except RuntimeError:
        return  # the loop is closed: the run has ended
