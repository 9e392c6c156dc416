"""The pump between the work on a reply and its client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from corrigenda.server.stream import Pump


def test_a_source_that_was_cancelled_from_inside_ends_too() -> None:
    async def source() -> AsyncGenerator[int, None]:
        yield 1
        raise asyncio.CancelledError

    async def taken() -> list[int | None]:
        async with Pump(source()) as pump:
            found = [await pump.next(10)]
            with pytest.raises(RuntimeError, match="was cancelled from inside"):
                await pump.next(10)
            return found

    assert asyncio.run(taken()) == [1]
