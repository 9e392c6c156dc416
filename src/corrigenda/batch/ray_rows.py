"""What runs on the machines of a Ray cluster: where rows come from, and the workers that make reports of them.

Rows come a block at a time, as JSON text. The driver puts blocks into a `Feed`; `blocks` takes them out of it, as the
input of a Ray Data dataset; `RowActor` is what its actors hold, one set of models each. All that comes back is data: an
actor raises nothing, so that Ray has no failure to take apart that is not a machine's or a process's own.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import corrigenda
from corrigenda import config, errors
from corrigenda.batch.rows import Done, Row, pack, unpack_row
from corrigenda.batch.worker import Job, RowWorker
from corrigenda.errors import BackendError, ConfigError, CorrigendaError
from corrigenda.settings import SECRETS

if TYPE_CHECKING:
    import pyarrow

ATTEMPTS = 4
"""How often a block is begun. A row that kills its worker each time would otherwise be begun for ever."""


class Feed:
    """Where a dataset's input comes from: numbered blocks of rows, the same ones whenever they are asked for again.

    An actor beside the driver, which puts blocks in as rows are done, so that what is in flight stays bounded. Ray may
    ask for a block twice (a reader that died is begun anew): it gets the same rows, or, where these are done and
    forgotten, a block without rows. Calls of one actor may overtake each other, so each names its block.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._blocks: dict[int, list[str]] = {}
        self._attempts: dict[int, int] = {}
        self._known = 0
        """All blocks below have been put in."""
        self._ahead: set[int] = set()
        """Those that have been, above it."""
        self._count: int | None = None
        self._changed = asyncio.Event()

    async def put(self, block: int, rows: list[str]) -> None:
        """Add a block."""
        self._blocks[block] = rows
        self._ahead.add(block)
        while self._known in self._ahead:
            self._ahead.remove(self._known)
            self._known += 1
        self._tell()

    async def end(self, count: int) -> None:
        """Note that there are `count` blocks in all."""
        self._count = count
        self._tell()

    async def forget(self, block: int) -> None:
        """Drop a block: the driver has what was made of its rows."""
        del self._blocks[block]
        self._attempts.pop(block, None)

    async def take(self, block: int) -> list[str] | None:
        """Return a block, waiting for it if need be; None behind the last."""
        while block >= self._known:
            if self._count is not None and block >= self._count:
                return None
            await self._changed.wait()
        return self._blocks.get(block, [])

    async def attempt(self, block: int) -> int:
        """Return how often a block has been begun by now, this time included."""
        self._attempts[block] = self._attempts.get(block, 0) + 1
        return self._attempts[block]

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def blocks(spans: Any, feed: Any) -> Iterator[pyarrow.Table]:
    """Yield the blocks of the feed from `start` to `stop` (columns of `spans`, half-open), as Ray Data reads them.

    A block travels as one row of the dataset: Ray Data cuts and joins its own blocks at any row.
    """
    import pyarrow as pa  # noqa: PLC0415  # optional, and slow to import
    import ray  # noqa: PLC0415

    for start, stop in zip(spans["start"].to_pylist(), spans["stop"].to_pylist(), strict=True):
        for block in range(start, stop):
            rows = ray.get(feed.take.remote(block))
            if rows is None:
                return
            yield pa.table({"block": [block], "rows": pa.array([rows], pa.list_(pa.string()))})


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a `RowActor` has to know."""

    job: Job
    """Without its secrets."""
    secrets: tuple[str, ...]
    """Settings that the actor must find where it runs."""
    version: str = corrigenda.__version__
    """Of the package that sends the rows."""


def without_secrets(job: Job) -> Task:
    """Return a job as it may travel: keys and headers stay here, and only their names go along."""
    held = tuple(name for name in SECRETS if getattr(job.settings, name))
    nothing: dict[str, Any] = {name: {} if name == "headers" else None for name in SECRETS}
    return Task(job=replace(job, settings=replace(job.settings, **nothing)), secrets=held)


def with_secrets(task: Task) -> Job:
    """Return the job with the secrets that are set on this machine. Raises ConfigError when one is missing."""
    if not task.secrets:
        return task.job
    settings = task.job.settings
    here = config.load({"base_url": settings.base_url, "hub_url": settings.hub_url}).settings
    found = {name: getattr(here, name) for name in task.secrets}
    missing = ", ".join(f"CORRIGENDA_{name.upper()}" for name, value in found.items() if not value)
    if missing:
        raise ConfigError(
            f"{missing} must be set in the environment of every machine of the cluster, before `ray start`: keys and "
            "headers are not sent to the workers"
        )
    return replace(task.job, settings=replace(settings, **found))


class RowActor:
    """One set of models in a process of Ray's, with an event loop of its own: rows of several blocks are in flight.

    Each call holds a thread of the process until its block is done; what is made of the rows comes back in their order,
    so that a block that is made again has the same form.
    """

    def __init__(self, task: Task, feed: Any) -> None:
        """Begin to load the models; the first call waits for them."""
        self._task = task
        self._feed = feed
        self._limit = asyncio.Semaphore(task.job.concurrency)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="corrigenda", daemon=True).start()
        self._worker = asyncio.run_coroutine_threadsafe(self._started(), self._loop)

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        """Return what was made of the rows of a block (one row of `table`), or why nothing can be made of any."""
        [block], [texts] = table["block"].to_pylist(), table["rows"].to_pylist()
        rows = [unpack_row(text) for text in texts]
        return asyncio.run_coroutine_threadsafe(self._made(block, rows), self._loop).result()

    async def _started(self) -> RowWorker | str:
        """Return the worker, or why there is none."""
        try:
            if corrigenda.__version__ != self._task.version:
                raise ConfigError(
                    f"corrigenda {corrigenda.__version__} is installed there, and {self._task.version} sends the rows; "
                    "install the same version on every machine"
                )
            worker = RowWorker(with_secrets(self._task))
            await worker.start()
        except Exception as exc:  # also what a foreign library raises: the driver has to tell it
            return packed(exc)
        return worker

    async def _made(self, block: int, rows: Sequence[Row]) -> pyarrow.Table:
        worker = await asyncio.wrap_future(self._worker)
        if isinstance(worker, str):
            return table_of([], failure=worker)
        attempt = int(await self._feed.attempt.remote(block)) if rows else 1
        if attempt > ATTEMPTS:
            return table_of([_given_up(row) for row in rows], attempt)
        return table_of(await asyncio.gather(*(self._done(worker, row) for row in rows)), attempt)

    async def _done(self, worker: RowWorker, row: Row) -> Done:
        async with self._limit:
            return await worker.done(row)


def _given_up(row: Row) -> Done:
    return Done(
        number=row.number,
        id=row.id,
        error=f"its worker's process died {ATTEMPTS} times while this row or one sent with it was worked on; give the "
        "workers more memory, or find the row with --ray-batch-rows 1 --retry-failed",
        kind=BackendError.__name__,
    )


def table_of(done: Sequence[Done], attempt: int = 1, failure: str | None = None) -> pyarrow.Table:
    """Return a block's outcomes as they travel, as one row; with `failure`, which ends the run."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    texts = pa.array([[pack(one) for one in done]], pa.list_(pa.string()))
    return pa.table({"done": texts, "attempt": [attempt], "failure": pa.array([failure], pa.string())})


def packed(exc: Exception) -> str:
    """Return a failure as it travels, with the machine's name."""
    told = str(exc) if isinstance(exc, CorrigendaError) else f"{type(exc).__name__}: {exc}"
    return json.dumps({"kind": type(exc).__name__, "told": f"on the machine {socket.gethostname()}: {told}"})


def failure_of(text: str) -> CorrigendaError:
    """Return the error that `packed` made a text of, as one of our own."""
    failure = json.loads(text)
    kind = getattr(errors, failure["kind"], None)
    if not (isinstance(kind, type) and issubclass(kind, CorrigendaError)):
        kind = BackendError
    error = kind.__new__(kind)  # MissingExtra and others make their message of parts, and here it is whole
    Exception.__init__(error, failure["told"])
    return error
