"""What was made before, by key, bounded in memory. What is asked for while it is being made is waited for.

For one event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from corrigenda.types import ChatRequest, Entailment, Pair, PairFailure

T = TypeVar("T")


def repeatable(request: ChatRequest) -> bool:
    """Return whether the same request is taken to give the same reply: it has a seed, or asks for temperature 0."""
    return request.seed is not None or request.temperature == 0


class Kept(NamedTuple, Generic[T]):
    """What was made before, and the seconds that it took."""

    value: T
    seconds: float


class Shelf(Generic[T]):
    """Values by key, each made once: who asks for one that is being made waits for it."""

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` values; those that were not used for longest go first."""
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


class Claims:
    """The pairs of one call: those that it makes itself, those that others have made or are making."""

    def __init__(self, shelf: Shelf[Entailment], keys: Mapping[Pair, bytes]) -> None:
        """Claim what nobody has made and nobody is making."""
        self._shelf = shelf
        self._keys = keys
        self.claimed = {pair: None for pair, key in keys.items() if shelf.claim(key)}
        """What the caller is to score, in order."""
        self.waiting = [pair for pair in keys if pair not in self.claimed]
        """What others have, or are scoring."""
        self.found: dict[Pair, Entailment | PairFailure] = {}
        self.reused: list[float] = []
        """The seconds that each of the reused pairs took."""

    def settle(self, pair: Pair, result: Entailment | PairFailure, seconds: float) -> None:
        """Take the result of a claimed pair. Failures are not kept."""
        self.found[pair] = result
        if isinstance(result, Entailment):
            self._shelf.put(self._keys[pair], result, seconds)
        else:
            self._shelf.give_up(self._keys[pair])
        del self.claimed[pair]

    def fail(self, reason: str) -> None:
        """Fail all that is claimed."""
        for pair in list(self.claimed):
            self.settle(pair, PairFailure(reason=reason), 0.0)

    async def take(self) -> None:
        """Wait for what others have; claim what they failed on."""
        asked, self.waiting = self.waiting, []
        for pair in asked:
            kept = await self._shelf.take(self._keys[pair])
            if kept is None:
                self.claimed[pair] = None
            else:
                self.found[pair] = kept.value
                self.reused.append(kept.seconds)

    def results(self, pairs: Iterable[Pair]) -> list[Entailment | PairFailure]:
        """Return what was found, in the order of `pairs`."""
        return [self.found[pair] for pair in pairs]

    def close(self) -> None:
        """Give back what is claimed still."""
        for pair in self.claimed:
            self._shelf.give_up(self._keys[pair])
