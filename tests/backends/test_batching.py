"""Pairs of concurrent requests share calls of the verifier, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.upstream import settle

from corrigenda.backends.batching import BatchingEntailer
from corrigenda.backends.nli_chat import ChatEntailer
from corrigenda.backends.nli_numbers import NumberChecked
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.errors import BackendError
from corrigenda.types import Entailment, Evidence, Pair, PairFailure, Span


class Verifier:
    """Gives each pair the number in its hypothesis as P(entailment), in hundredths; waits while it is closed."""

    name = "numbers"
    max_tokens = 100
    bounds = (0.4, 0.8)
    warnings = ("be careful",)

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.cancelled = 0
        self.closed = 0

    def explain(self, evidence: object, claim: str) -> str:
        return "because"

    def count_tokens(self, text: str) -> int:
        return len(text)

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        self.calls.append([pair.hypothesis for pair in pairs])
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if any(pair.hypothesis == "poison" for pair in pairs):
            raise BackendError("poisoned")
        if any(pair.hypothesis == "odd" for pair in pairs):
            raise RuntimeError("odd")
        if any(pair.hypothesis == "short" for pair in pairs):
            return []
        return [score(pair.hypothesis) for pair in pairs]

    async def aclose(self) -> None:
        self.closed += 1


def score(hypothesis: str) -> Entailment:
    share = int(hypothesis) / 100
    return Entailment(entailment=share, neutral=1 - share, contradiction=0)


def pairs(*hypotheses: object) -> list[Pair]:
    return [Pair(premise="p", hypothesis=str(h)) for h in hypotheses]


def scores(*hypotheses: int) -> list[Entailment]:
    return [score(str(h)) for h in hypotheses]


def test_concurrent_requests_share_a_call_and_get_their_own_results_in_order() -> None:
    told: list[tuple[int, int]] = []

    async def work() -> None:
        inner = Verifier()
        batched = BatchingEntailer(inner, on_call=lambda *counts: told.append(counts))
        found = await asyncio.gather(*(batched.entail(pairs(n, n + 1)) for n in (10, 20, 30)), batched.entail([]))
        assert found == [scores(10, 11), scores(20, 21), scores(30, 31), []]
        assert inner.calls == [["10", "11", "20", "21", "30", "31"]]

    asyncio.run(work())
    assert told == [(6, 3)]


def test_what_comes_while_a_call_runs_makes_the_next_one() -> None:
    async def work() -> None:
        inner = Verifier()
        batched = BatchingEntailer(inner, window_s=0)
        inner.open.clear()
        first = asyncio.create_task(batched.entail(pairs(1)))
        await settle()
        others = [asyncio.create_task(batched.entail(pairs(n))) for n in (2, 3, 4)]
        await asyncio.sleep(0)
        inner.open.set()
        assert [await task for task in (first, *others)] == [scores(1), scores(2), scores(3), scores(4)]
        assert inner.calls == [["1"], ["2", "3", "4"]]

    asyncio.run(work())


def test_a_large_request_leaves_turns_to_the_others() -> None:
    async def work() -> None:
        inner = Verifier()
        batched = BatchingEntailer(inner, window_s=0, max_pairs=2)
        found = [*await asyncio.gather(batched.entail(pairs(1, 2, 3, 4, 5)), batched.entail(pairs(6, 7)))]
        assert found == [scores(1, 2, 3, 4, 5), scores(6, 7)]
        assert inner.calls == [["1", "2"], ["6", "7"], ["3", "4"], ["5"]]

    asyncio.run(work())


@pytest.mark.parametrize(
    ("spoiler", "outcome"), [("poison", BackendError("poisoned")), ("odd", RuntimeError("odd")), ("short", [])]
)
def test_a_request_that_spoils_a_call_spoils_it_for_itself_alone(spoiler: str, outcome: object) -> None:
    async def work() -> None:
        batched = BatchingEntailer(Verifier())
        good, bad, last = await asyncio.gather(
            batched.entail(pairs(1, 2)),
            batched.entail(pairs(spoiler)),
            batched.entail(pairs(3)),
            return_exceptions=True,
        )
        assert (good, last) == (scores(1, 2), scores(3))
        assert repr(bad) == repr(outcome)

    asyncio.run(work())


def test_of_a_request_that_fails_in_part_the_rest_is_kept() -> None:
    async def work() -> None:
        batched = BatchingEntailer(Verifier(), max_pairs=2)
        assert await batched.entail(pairs(1, 2, "poison", 3)) == [
            *scores(1, 2),
            PairFailure(reason="poisoned"),
            PairFailure(reason="poisoned"),
        ]
        with pytest.raises(BackendError, match="poisoned"):
            await batched.entail(pairs("poison", 1, "poison"))

    asyncio.run(work())


def test_who_leaves_takes_nothing_along_and_the_last_one_stops_the_call() -> None:
    async def work() -> None:
        inner = Verifier()
        batched = BatchingEntailer(inner, window_s=0)
        inner.open.clear()
        first, second = (asyncio.create_task(batched.entail(pairs(n))) for n in (1, 2))
        await settle()
        first.cancel()
        await asyncio.sleep(0)
        assert inner.cancelled == 0
        waiting = asyncio.create_task(batched.entail(pairs(3)))
        await asyncio.sleep(0)
        waiting.cancel()
        second.cancel()
        await asyncio.wait([first, second, waiting])
        await settle()
        assert inner.cancelled == 1
        inner.open.set()
        assert await batched.entail(pairs(4)) == scores(4)
        assert inner.calls == [["1", "2"], ["4"]]

    asyncio.run(work())


def test_closing_ends_what_waits_and_closes_the_inner_verifier() -> None:
    async def work() -> None:
        inner = Verifier()
        batched = BatchingEntailer(inner, window_s=0)
        inner.open.clear()
        running = asyncio.create_task(batched.entail(pairs(1)))
        await settle()
        waiting = asyncio.create_task(batched.entail(pairs(2)))
        await asyncio.sleep(0)
        await batched.aclose()
        for task in (running, waiting):
            with pytest.raises(BackendError, match="the verifier 'numbers' was closed"):
                await task
        await batched.aclose()
        assert inner.closed == 2

    asyncio.run(work())


def test_what_the_inner_verifier_knows_is_passed_on() -> None:
    inner = Verifier()
    batched = BatchingEntailer(inner)
    assert (batched.name, batched.max_tokens, batched.count_tokens("abc")) == ("numbers", 100, 3)
    assert (batched.bounds, batched.warnings) == ((0.4, 0.8), ("be careful",))
    assert batched.explain is not None
    scores = Entailment(entailment=1.0, neutral=0.0, contradiction=0.0)
    evidence = Evidence(reference=0, span=Span(start=0, end=1), text="x", scores=scores)
    assert batched.explain(evidence, "x") == "because"
    plain = BatchingEntailer(ScriptedEntailer({"rules": [{"scores": [1, 0, 0]}]}))
    assert (plain.bounds, plain.warnings, plain.explain, plain.batches) == (None, (), None, True)


def test_a_verifier_that_asks_a_chat_model_pair_by_pair_is_not_batched() -> None:
    assert ChatEntailer.batches is False
    scripted = ScriptedEntailer({"rules": [{"scores": [1, 0, 0]}]})
    assert NumberChecked(scripted).batches is True


@pytest.mark.parametrize("more", [{"window_s": -1}, {"max_pairs": 0}])
def test_settings_out_of_range_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the window must be at least 0 and the pairs at least 1"):
        BatchingEntailer(Verifier(), **more)
