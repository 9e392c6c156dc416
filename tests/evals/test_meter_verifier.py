"""Counting and reusing what the verifier scores."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import pytest
from tests.scripted import CONTRADICT, ENTAIL, NEUTRAL

from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.errors import BackendError
from corrigenda.evals.clock import Clock
from corrigenda.evals.memo import Memo
from corrigenda.evals.meter import Meter, MeteredChat, MeteredEntailer
from corrigenda.ports import Entailer
from corrigenda.types import ChatRequest, Entailment, Message, Pair, PairFailure, TokenUsage

T = TypeVar("T")
ASK = ChatRequest(stage="generate", messages=(Message(role="user", content="Hills?"),), temperature=0.7, seed=7)
USAGE = {"prompt_tokens": 20, "completion_tokens": 3}
REPLY = {"reply": "Rome has seven hills.", "usage": USAGE}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


# The verifier -------------------------------------------------------------------------------------------------------

RULES = [
    {"hypothesis_contains": "bad", "error": "cannot be scored"},
    {"hypothesis_contains": "five", "scores": CONTRADICT},
    {"hypothesis_contains": "Oslo", "scores": NEUTRAL},
    {"scores": ENTAIL},
]


def pair(hypothesis: str) -> Pair:
    return Pair(premise="Rome has seven hills.", hypothesis=hypothesis)


def test_pairs_are_scored_once_and_counted_for_each_method() -> None:
    async def both() -> tuple[ScriptedEntailer, list[Any], Meter, Meter]:
        inner, memo = ScriptedEntailer({"rules": RULES}), Memo()
        first, second = Meter(clock=Clock()), Meter(clock=Clock())
        results = [
            await MeteredEntailer(inner, first, memo).entail([pair("five"), pair("seven"), pair("five")]),
            await MeteredEntailer(inner, second, memo).entail([pair("Oslo"), pair("seven"), pair("five")]),
        ]
        return inner, results, first, second

    inner, results, first, second = run(both())
    assert inner.calls == [[pair("five"), pair("seven")], [pair("Oslo")]]
    assert [[r.label for r in row] for row in results] == [
        ["contradiction", "entailment", "contradiction"],
        ["neutral", "entailment", "contradiction"],
    ]
    assert (first.pairs.pairs, first.pairs.reused) == (2, 0)
    assert (second.pairs.pairs, second.pairs.reused) == (3, 2)
    assert second.pairs.seconds > 0


def test_without_a_memo_every_pair_is_scored() -> None:
    async def both() -> tuple[int, Meter]:
        inner, meter = ScriptedEntailer({"rules": RULES}), Meter(clock=Clock())
        entailer = MeteredEntailer(inner, meter, None)
        for _ in range(2):
            await entailer.entail([pair("seven")])
        return len(inner.calls), meter

    calls, meter = run(both())
    assert calls == 2
    assert (meter.pairs.pairs, meter.pairs.reused) == (2, 0)


def test_a_pair_that_failed_is_scored_again() -> None:
    async def both() -> tuple[list[Any], list[list[Pair]]]:
        inner = ScriptedEntailer({"rules": RULES})
        entailer = MeteredEntailer(inner, Meter(clock=Clock()), Memo())
        return [await entailer.entail([pair("bad"), pair("seven")]) for _ in range(2)], inner.calls

    results, calls = run(both())
    assert [type(r) for r in results[0]] == [PairFailure, Entailment]
    assert results[0] == results[1]
    assert calls == [[pair("bad"), pair("seven")], [pair("bad")]]


def test_a_verifier_that_breaks_is_an_error_unless_other_pairs_are_there() -> None:
    broken = {"error": {"status": 500, "body": "out of order"}}

    async def both() -> tuple[list[Any], Meter]:
        inner = ScriptedEntailer({"rules": [{"hypothesis_contains": "seven", "scores": ENTAIL}, broken]})
        meter = Meter(clock=Clock())
        entailer = MeteredEntailer(inner, meter, Memo())
        with pytest.raises(BackendError, match="out of order"):
            await entailer.entail([pair("five")])
        await entailer.entail([pair("seven")])
        return await entailer.entail([pair("seven"), pair("five")]), meter

    results, meter = run(both())
    assert [type(r) for r in results] == [Entailment, PairFailure]
    assert "out of order" in results[1].reason
    assert (meter.pairs.pairs, meter.pairs.reused) == (4, 1)


def test_a_verifier_that_gives_too_few_results_is_an_error() -> None:
    class Short(ScriptedEntailer):
        async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
            return (await super().entail(pairs))[1:]

    async def asked() -> None:
        entailer = MeteredEntailer(Short({"rules": RULES}), Meter(clock=Clock()), Memo())
        await entailer.entail([pair("five"), pair("seven")])

    with pytest.raises(BackendError, match="the verifier 'scripted' gave 1 results for 2 pairs"):
        run(asked())


def test_what_the_pipeline_reads_of_a_verifier_is_still_there() -> None:
    class Own(ScriptedEntailer):
        bounds = (0.4, 0.8)
        warnings = ("careful",)

        def explain(self, evidence: object, claim: str) -> str:
            return f"because of {claim}"

    async def made() -> tuple[MeteredEntailer, MeteredEntailer]:
        meter = Meter(clock=Clock())
        plain = ScriptedEntailer({"rules": RULES, "max_tokens": 50})
        return MeteredEntailer(plain, meter, None), MeteredEntailer(Own({"rules": RULES}), meter, None)

    plain, own = run(made())
    assert isinstance(plain, Entailer)
    assert (plain.name, plain.max_tokens, plain.count_tokens("a b")) == ("scripted", 50, 2)
    assert (plain.bounds, plain.warnings, plain.explain) == (None, (), None)
    assert (own.bounds, own.warnings) == ((0.4, 0.8), ("careful",))
    assert own.explain is not None
    assert own.explain(None, "x") == "because of x"  # type: ignore[arg-type]


def test_items_that_score_the_same_pairs_at_the_same_time_share_them() -> None:
    class Held(ScriptedEntailer):
        async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
            await asyncio.sleep(0.01)
            return await super().entail(pairs)

    async def both() -> list[list[Pair]]:
        inner, memo = Held({"rules": RULES}), Memo()
        asked = ([pair("five"), pair("seven")], [pair("seven"), pair("Oslo")])
        meters = [Meter(clock=Clock()) for _ in asked]
        work = [MeteredEntailer(inner, m, memo).entail(p) for m, p in zip(meters, asked, strict=True)]
        results = await asyncio.gather(*work)
        assert [[r.label for r in row if isinstance(r, Entailment)] for row in results] == [
            ["contradiction", "entailment"],
            ["entailment", "neutral"],
        ]
        assert [m.pairs.reused for m in meters] == [0, 1]
        return inner.calls

    assert run(both()) == [[pair("five"), pair("seven")], [pair("Oslo")]]


def test_usage_that_is_unknown_stays_unknown() -> None:
    async def asked() -> Meter:
        meter = Meter(clock=Clock())
        await MeteredChat(ScriptedChat({"rules": [{"reply": "x"}]}), meter, None).complete(ASK)
        return meter

    assert run(asked()).calls[0].prompt_tokens is TokenUsage().prompt_tokens is None
