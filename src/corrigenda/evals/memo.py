"""What the models of a run have said: replies, label scores and pairs, each made once and bounded in memory.

For one event loop. What is asked for while it is being made is waited for, not made again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from typing import Any, Generic, NamedTuple, TypeVar

from corrigenda.report import plain
from corrigenda.types import Completion, Entailment

T = TypeVar("T")

MAX_CALLS = 20_000
"""Replies and label scores that a memo keeps; those that were not used for longest go first."""
MAX_PAIRS = 200_000


class Kept(NamedTuple, Generic[T]):
    """What was made before, and the seconds that it took."""

    value: T
    seconds: float


class Shelf(Generic[T]):
    """Values by key, each made once: who asks for one that is being made waits for it."""

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` values."""
        self._limit = limit
        self._kept: OrderedDict[bytes, Kept[T]] = OrderedDict()
        self._making: dict[bytes, asyncio.Event] = {}

    def claim(self, key: bytes) -> bool:
        """Take over the making of `key`, unless it is there or being made; then `put` it, or `give_up`."""
        free = key not in self._kept and key not in self._making
        if free:
            self._making[key] = asyncio.Event()
        return free

    async def take(self, key: bytes) -> Kept[T] | None:
        """Return what is kept under `key`, waiting for it if need be; None when the caller has the claim now."""
        while not self.claim(key):
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            await self._making[key].wait()
        return None

    def put(self, key: bytes, value: T, seconds: float) -> None:
        """Keep what was made, and let those go on that wait for it."""
        self._kept[key] = Kept(value, seconds)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        self.give_up(key)

    def give_up(self, key: bytes) -> None:
        """Give the claim back: who waits makes it, or finds it."""
        making = self._making.pop(key, None)
        if making is not None:
            making.set()


class Memo:
    """What the models of a run have said so far, for one event loop. Bounded in memory."""

    def __init__(self, *, max_calls: int = MAX_CALLS, max_pairs: int = MAX_PAIRS) -> None:
        """Begin with nothing."""
        self.replies: Shelf[Completion] = Shelf(max_calls)
        self.labels: Shelf[tuple[float, ...]] = Shelf(max_calls)
        self.pairs: Shelf[Entailment] = Shelf(max_pairs)


def key_of(*parts: Any) -> bytes:
    """Return what a call is recognised by. JSON, so that no two calls look alike; a digest, so that it is small."""
    return hashlib.sha256(json.dumps(plain(parts), sort_keys=True).encode()).digest()
