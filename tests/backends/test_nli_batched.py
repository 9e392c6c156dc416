import asyncio
from collections.abc import Sequence

import pytest

from corrigenda.backends.nli_batched import BatchedEntailer, BatchLimits, Encoded
from corrigenda.errors import BackendError
from corrigenda.types import Entailment, Pair, PairFailure


def pair(premise: str, hypothesis: str) -> Pair:
    return Pair(premise=premise, hypothesis=hypothesis)


def run(entailer: BatchedEntailer, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
    async def main() -> list[Entailment | PairFailure]:
        try:
            return await entailer.entail(pairs)
        finally:
            await entailer.aclose()

    return asyncio.run(main())


class Fragile(BatchedEntailer):
    """Breaks on the hypotheses it is told to; a batch that holds one breaks as a whole."""

    def __init__(self, *bad: str, unreadable: bool = False) -> None:
        self.bad = {len(text) for text in bad}
        self.unreadable = unreadable
        self.batches: list[int] = []
        super().__init__(name="fragile", max_length=99, special_tokens=3, order=(0, 1, 2), limits=BatchLimits(pairs=4))

    def count_tokens(self, text: str) -> int:
        return len(text)

    def _encode(self, pairs: Sequence[tuple[str, str]]) -> list[Encoded]:
        if self.unreadable:
            raise ValueError("odd text\nand details")
        return [Encoded(ids=[0] * len(hypothesis), type_ids=[]) for _, hypothesis in pairs]

    def _logits(self, batch: Sequence[Encoded]) -> list[list[float]]:
        self.batches.append(len(batch))
        if any(len(item.ids) in self.bad for item in batch):
            raise MemoryError
        return [[5.0, 0.0, 0.0] for _ in batch]


def test_one_pair_that_breaks_the_model_does_not_take_its_batch_down() -> None:
    found = run(Fragile("bbb"), [pair("p", "a"), pair("p", "bbb"), pair("p", "cc")])
    assert found[1] == PairFailure(reason="the verifier broke on this pair: MemoryError")
    assert [type(item) for item in found] == [Entailment, PairFailure, Entailment]


@pytest.mark.parametrize(
    ("entailer", "message"),
    [
        (Fragile("a", "bb"), "broke on every pair: MemoryError"),
        (Fragile(unreadable=True), "could not read its input: ValueError: odd text$"),
    ],
)
def test_when_nothing_can_be_scored_it_is_raised(entailer: Fragile, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        run(entailer, [pair("p", "a"), pair("p", "bb")])


def test_a_cancelled_call_stops_at_the_next_batch_and_frees_the_loop() -> None:
    async def main() -> int:
        entailer = Fragile()
        gate = asyncio.Event()
        loop = asyncio.get_running_loop()
        real = entailer._logits

        def slow(batch: Sequence[Encoded]) -> list[list[float]]:
            loop.call_soon_threadsafe(gate.set)
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(5)
            return real(batch)

        release = asyncio.Event()
        entailer._logits = slow  # type: ignore[method-assign]
        task = asyncio.create_task(entailer.entail([pair("p", "h")] * 40))
        await gate.wait()  # the loop runs while the worker is inside a batch
        task.cancel()
        with pytest.raises(asyncio.CancelledError, match=r"^$"):
            await task
        release.set()
        await entailer.aclose()
        return len(entailer.batches)

    assert asyncio.run(main()) == 1


def test_with_several_batches_at_once_each_runner_gets_one() -> None:
    class Wide(Fragile):
        def __init__(self) -> None:
            super().__init__()
            self._limits = BatchLimits(pairs=32, tokens=100, at_once=4)

    entailer = Wide()
    found = run(entailer, [pair("p", "hh")] * 8)
    assert entailer.batches == [2, 2, 2, 2]
    assert [type(item) for item in found] == [Entailment] * 8
