"""A verifier that gathers the pairs of concurrent requests into common calls of the verifier it wraps.

Pairs wait a few milliseconds for company; while a call runs, what comes in the meantime makes the next one. Results
go back in order to whoever gave the pairs, and no request can spoil another's: when a common call fails, each
request's pairs are put to the verifier again by themselves.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from corrigenda.backends.around import AroundEntailer
from corrigenda.errors import BackendError
from corrigenda.ports import Entailer
from corrigenda.types import Entailment, Pair, PairFailure

Results = list[Entailment | PairFailure]


@dataclass(kw_only=True, eq=False)
class _Ticket:
    """Some pairs of one request, and where their results are waited for."""

    pairs: Sequence[Pair]
    future: asyncio.Future[Results] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class BatchingEntailer(AroundEntailer):
    """An Entailer over another one; see the module's docstring. It serves one event loop at a time."""

    def __init__(
        self,
        inner: Entailer,
        *,
        window_s: float = 0.003,
        max_pairs: int = 64,
        on_call: Callable[[int, int], None] | None = None,
    ) -> None:
        """Wrap `inner`, which is not changed.

        `window_s` (at least 0) is how long pairs wait for company at most, `max_pairs` (at least 1) how many a call
        has; a request with more gets several calls, between which others have their turn. `on_call(pairs, requests)`
        is told of every call. Raises ValueError.
        """
        if window_s < 0 or max_pairs < 1:
            raise ValueError(f"the window must be at least 0 and the pairs at least 1, got {window_s!r}, {max_pairs!r}")
        super().__init__(inner)
        self._window_s = window_s
        self._max_pairs = max_pairs
        self._on_call = on_call
        self._waiting: deque[_Ticket] = deque()
        self._enough = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    async def entail(self, pairs: Sequence[Pair]) -> Results:
        """Score every pair, in the order given. See `corrigenda.ports.Entailer`."""
        results: Results = []
        failures: list[BackendError] = []
        scored = 0
        for start in range(0, len(pairs), self._max_pairs):
            some = pairs[start : start + self._max_pairs]
            try:
                results += await self._join(some)
                scored += 1
            except BackendError as exc:
                failures.append(exc)
                results += [PairFailure(reason=str(exc))] * len(some)
        if failures and not scored:
            raise failures[0]
        return results

    async def aclose(self) -> None:
        """Stop the call that runs, refuse what waits, and close the inner verifier. May be called twice."""
        if self._worker is not None and not self._worker.done():
            self._worker.cancel()
            await asyncio.wait({self._worker})
        await self._inner.aclose()

    async def _join(self, pairs: Sequence[Pair]) -> Results:
        ticket = _Ticket(pairs=pairs)
        self._waiting.append(ticket)
        if self._worker is None or self._worker.done():
            self._enough = asyncio.Event()
            # In a context of its own: the call belongs to no single request.
            self._worker = asyncio.create_task(self._work(), context=contextvars.Context())
        if sum(len(t.pairs) for t in self._waiting) >= self._max_pairs:
            self._enough.set()
        return await ticket.future

    async def _work(self) -> None:
        """Make calls until nothing waits."""
        try:
            try:
                async with asyncio.timeout(self._window_s):
                    await self._enough.wait()
            except TimeoutError:
                pass
            while tickets := self._take():
                await self._call(tickets)
        finally:
            for ticket in self._waiting:
                if not ticket.future.done():
                    ticket.future.set_exception(BackendError(f"the verifier {self.name!r} was closed"))
            self._waiting.clear()

    def _take(self) -> list[_Ticket]:
        """Return the next tickets that are still waited for, as many as a call holds."""
        taken: list[_Ticket] = []
        room = self._max_pairs
        while self._waiting and (not taken or len(self._waiting[0].pairs) <= room):
            ticket = self._waiting.popleft()
            if not ticket.future.done():
                taken.append(ticket)
                room -= len(ticket.pairs)
        self._enough.clear()
        return taken

    async def _call(self, tickets: Sequence[_Ticket]) -> None:
        """Make one call for all the tickets; where it fails, one for each."""
        pairs = [pair for ticket in tickets for pair in ticket.pairs]
        if self._on_call is not None:
            self._on_call(len(pairs), len(tickets))
        outcome = await self._outcome(pairs, tickets)
        if not isinstance(outcome, BaseException) and len(outcome) == len(pairs):
            results = iter(outcome)
            for ticket in tickets:
                _settle(ticket, [next(results) for _ in ticket.pairs])
        elif len(tickets) == 1:
            # A wrong number of results is for the pipeline to tell, as it would be without this class.
            _settle(tickets[0], outcome)
        else:
            for ticket in tickets:
                if not ticket.future.done():
                    await self._call([ticket])

    async def _outcome(self, pairs: Sequence[Pair], tickets: Sequence[_Ticket]) -> Results | BaseException:
        """Put pairs to the inner verifier; give that up when no ticket is waited for any more."""
        call = asyncio.ensure_future(self._inner.entail(pairs))
        closed = BackendError(f"the verifier {self.name!r} was closed")

        def left(_: object) -> None:
            if all(ticket.future.done() for ticket in tickets):
                call.cancel()

        for ticket in tickets:
            ticket.future.add_done_callback(left)
        try:
            await asyncio.wait({call})
        except asyncio.CancelledError:
            for ticket in tickets:
                _settle(ticket, closed)
            await asyncio.wait({call})
            raise
        finally:
            for ticket in tickets:
                ticket.future.remove_done_callback(left)
        return closed if call.cancelled() else call.exception() or call.result()


def _settle(ticket: _Ticket, outcome: Results | BaseException) -> None:
    """Give the result to whoever still waits for it."""
    if ticket.future.done():
        return
    if isinstance(outcome, BaseException):
        ticket.future.set_exception(outcome)
    else:
        ticket.future.set_result(outcome)
