"""What the endpoints of one app share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from corrigenda.server.engine import Engine
from corrigenda.server.limits import Gate
from corrigenda.server.options import ServerOptions
from corrigenda.server.problems import ApiError
from corrigenda.server.served import Served


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """The parts of one app."""

    options: ServerOptions
    engine: Engine
    gate: Gate

    @asynccontextmanager
    async def turn(self, served: Served, asked_s: float | None) -> AsyncIterator[float]:
        """Wait for the request's turn and hold it; gives the seconds that are left to it then.

        `asked_s` is the deadline that the request asks for. Raises ApiError: 429 where the queue is full, 504 where
        the deadline came before the request's turn.
        """
        limit = self.options.limits.deadline_s if asked_s is None else asked_s
        arrived, entered = served.clock_s, False
        try:
            async with asyncio.timeout(_left(arrived, limit)) as clock, self.gate.inside():
                entered = True
                clock.reschedule(None)
                served.queued_s = time.perf_counter() - arrived
                yield max(_left(arrived, limit), 1e-3)
        except TimeoutError as exc:
            if entered:
                raise
            message = f"the request waited for its turn longer than its {limit:g} s"
            raise ApiError(504, message, code="deadline") from exc


def _left(arrived: float, limit: float) -> float:
    return arrived + limit - time.perf_counter()
