"""Equal pairs are scored once and equal questions recalled once: in flight, in memory, on disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corrigenda.backends.cached import CachingEntailer, RecallOnceChat, Reused, one_report, recall_once
from corrigenda.cache import Cache
from corrigenda.errors import BackendError, BadReply
from corrigenda.ports import LabelScorer
from corrigenda.shelf import Kept
from corrigenda.types import (
    ChatRequest,
    Completion,
    Delta,
    Entailment,
    Message,
    Pair,
    PairFailure,
    TokenUsage,
)

USAGE = TokenUsage(prompt_tokens=20, completion_tokens=5)


def asked(question: str = "How many hills has Rome?", **settings: Any) -> ChatRequest:
    settings = {"stage": "recall", "temperature": 0.0, "max_tokens": 96, **settings}
    return ChatRequest(messages=(Message(role="user", content=question),), **settings)


def pairs(*numbers: int) -> list[Pair]:
    return [Pair(premise="The town has a river.", hypothesis=str(number)) for number in numbers]


def scores(*numbers: int) -> list[Entailment | PairFailure]:
    return [Entailment(entailment=n / 100, neutral=1 - n / 100, contradiction=0.0) for n in numbers]


class Chat:
    """Replies with the number of the call."""

    name = "openai:counting"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failures: list[BackendError] = []
        self.open = asyncio.Event()
        self.open.set()
        self.closed = 0

    async def complete(self, request: ChatRequest) -> Completion:
        self.calls.append(f"{request.stage}: {request.messages[0].content}")
        number = len(self.calls)
        await self.open.wait()
        if self.failures:
            raise self.failures.pop(0)
        return Completion(text=f"reply {number}", usage=USAGE)

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        completion = await self.complete(request)
        yield Delta(text="re")
        yield Delta(text=completion.text[2:], completion=completion)

    async def aclose(self) -> None:
        self.closed += 1


class Scorer(Chat):
    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        return tuple(-1.0 for _ in labels)

    def count_tokens(self, text: str) -> int:
        return len(text)


class Verifier:
    """Gives each pair the number in its hypothesis as P(entailment), in hundredths; number 0 cannot be scored."""

    name = "numbers"
    max_tokens = 100
    bounds = (0.4, 0.8)
    warnings = ("be careful",)

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.failures: list[BackendError] = []
        self.open = asyncio.Event()
        self.open.set()
        self.closed = 0

    def count_tokens(self, text: str) -> int:
        return len(text)

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        self.calls.append([pair.hypothesis for pair in pairs])
        await self.open.wait()
        if self.failures:
            raise self.failures.pop(0)
        failure: Entailment | PairFailure = PairFailure(reason="zero")
        return [failure if p.hypothesis == "0" else scores(int(p.hypothesis))[0] for p in pairs]

    async def aclose(self) -> None:
        self.closed += 1


class Shelves:
    """A store in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, bytes], Kept[Any]] = {}

    async def get(self, kind: str, keys: Sequence[bytes]) -> Mapping[bytes, Kept[Any]]:
        await asyncio.sleep(0)
        return {key: self.kept[kind, key] for key in keys if (kind, key) in self.kept}

    def put(self, kind: str, made: Mapping[bytes, Kept[Any]]) -> None:
        self.kept.update({(kind, key): kept for key, kept in made.items()})


def test_an_equal_question_is_recalled_once_also_while_it_is_being_recalled() -> None:
    async def work() -> None:
        inner = Chat()
        inner.open.clear()
        chat = recall_once(inner)
        together = asyncio.gather(*[chat.complete(asked()) for _ in range(3)], chat.complete(asked("Another?")))
        await asyncio.sleep(0)
        inner.open.set()
        replies = [reply.text for reply in await together]
        assert replies == ["reply 1", "reply 1", "reply 1", "reply 2"]
        assert (await chat.complete(asked())).usage == USAGE
        assert len(inner.calls) == 2
        assert chat.reused == Reused(calls=3, prompt_tokens=60, completion_tokens=15)

    asyncio.run(work())


@pytest.mark.parametrize(
    "other",
    [
        {"max_tokens": 50},
        {"seed": 1},
        {"temperature": 0.2, "seed": 1},
        {"extra": {"top_k": 1}},
        {"json_schema": {"type": "object"}},
        {"messages": (Message(role="system", content="How many hills has Rome?"),)},
    ],
)
def test_a_request_that_differs_in_anything_is_another_one(other: dict[str, Any]) -> None:
    async def work() -> None:
        inner = Chat()
        chat = recall_once(inner)
        await chat.complete(asked())
        await chat.complete(replace(asked(), **other))
        assert len(inner.calls) == 2

    asyncio.run(work())


def test_only_recall_is_reused() -> None:
    async def work() -> None:
        inner = Chat()
        chat = recall_once(inner)
        for stage in ("generate", "correct", "decompose") * 2:
            await chat.complete(asked(stage=stage))
        assert len(inner.calls) == 6
        streamed = [delta.text async for delta in chat.stream(asked(stage="generate"))]
        recalled = [delta async for delta in chat.stream(asked())]
        assert streamed == ["re", "ply 7"]
        assert recalled == [Delta(text="reply 8", completion=Completion(text="reply 8", usage=USAGE))]

    asyncio.run(work())


def test_independent_references_stay_independent_and_are_reused_one_by_one() -> None:
    """Two draws without a seed: two replies in each report, and the same two for every equal question."""

    async def work() -> None:
        inner = Chat()
        chat = recall_once(inner)
        sampled = asked(temperature=0.7)

        async def report() -> tuple[list[str], Reused]:
            with one_report() as reused:
                texts = [r.text for r in await asyncio.gather(chat.complete(sampled), chat.complete(sampled))]
            return texts, reused

        first, second = await report(), await report()
        assert first[0] == second[0] == ["reply 1", "reply 2"]
        assert (first[1].calls, second[1].calls) == (0, 2)
        assert [(await chat.complete(sampled)).text for _ in range(2)] == ["reply 3", "reply 4"], "in no report"

    asyncio.run(work())


def test_a_failure_is_not_kept_and_who_waited_asks_again() -> None:
    async def work() -> None:
        inner = Chat()
        inner.open.clear()
        inner.failures = [BackendError("down")]
        chat = recall_once(inner)
        tasks = [asyncio.create_task(chat.complete(asked())) for _ in range(3)]
        await asyncio.sleep(0)
        inner.open.set()
        await asyncio.wait(tasks)
        assert [repr(task.exception()) for task in tasks[:1]] == ["BackendError('down')"]
        assert [task.result().text for task in tasks[1:]] == ["reply 2", "reply 2"]

    asyncio.run(work())


def test_a_caller_that_is_cancelled_leaves_the_call_to_the_next() -> None:
    async def work() -> None:
        inner = Chat()
        inner.open.clear()
        chat = recall_once(inner)
        first, second = (asyncio.create_task(chat.complete(asked())) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        inner.open.set()
        assert (await second).text == "reply 2"

    asyncio.run(work())


def test_a_scorer_stays_one_and_what_it_wraps_is_closed() -> None:
    async def work() -> None:
        inner = Scorer()
        chat: Any = recall_once(inner)
        is_scorer: bool = isinstance(chat, LabelScorer)
        assert is_scorer
        assert await chat.label_logprobs(asked(), ("A", "B")) == (-1.0, -1.0)
        assert (chat.name, chat.count_tokens("abc")) == ("openai:counting", 3)
        await chat.aclose()
        assert inner.closed == 1
        assert not isinstance(recall_once(Chat()), LabelScorer)

    asyncio.run(work())


def test_equal_pairs_are_scored_once_in_one_call_in_flight_and_later() -> None:
    async def work() -> None:
        inner = Verifier()
        inner.open.clear()
        verifier = CachingEntailer(inner)
        together = asyncio.gather(verifier.entail(pairs(1, 2, 1)), verifier.entail(pairs(2, 3)))
        await asyncio.sleep(0)
        inner.open.set()
        assert [*await together] == [scores(1, 2, 1), scores(2, 3)]
        assert await verifier.entail(pairs(3, 2, 1)) == scores(3, 2, 1)
        assert inner.calls == [["1", "2"], ["3"]]
        assert verifier.reused == Reused(pairs=5, pairs_scored=3)

    asyncio.run(work())


def test_a_pair_that_cannot_be_scored_is_tried_again_next_time() -> None:
    async def work() -> None:
        inner = Verifier()
        verifier = CachingEntailer(inner)
        assert await verifier.entail(pairs(0, 1)) == [PairFailure(reason="zero"), *scores(1)]
        assert await verifier.entail(pairs(0, 1)) == [PairFailure(reason="zero"), *scores(1)]
        assert inner.calls == [["0", "1"], ["0"]]

    asyncio.run(work())


def test_a_call_that_fails_fails_its_own_pairs_alone() -> None:
    async def work() -> None:
        inner = Verifier()
        verifier = CachingEntailer(inner)
        await verifier.entail(pairs(1))
        inner.failures = [BackendError("broken"), BackendError("broken")]
        assert await verifier.entail(pairs(1, 2)) == [*scores(1), PairFailure(reason="broken")]
        with pytest.raises(BackendError, match="broken"):
            await verifier.entail(pairs(2, 3))
        assert await verifier.entail(pairs(2, 3)) == scores(2, 3)

    asyncio.run(work())


def test_a_wrong_number_of_results_is_told() -> None:
    class Short(Verifier):
        async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
            return []

    async def work() -> None:
        with pytest.raises(BadReply, match="the verifier 'numbers' gave 0 results for 2 pairs"):
            await CachingEntailer(Short()).entail(pairs(1, 2))

    asyncio.run(work())


def test_what_is_reused_is_counted_for_each_report() -> None:
    async def work() -> None:
        chat, verifier = recall_once(Chat()), CachingEntailer(Verifier())

        async def report(*numbers: int) -> Reused:
            with one_report() as reused:
                await asyncio.gather(chat.complete(asked()), verifier.entail(pairs(*numbers)))
            return reused

        assert await report(1, 2) == Reused(pairs_scored=2)
        found = await asyncio.gather(report(1, 2), report(2, 3))
        assert [*found] == [
            Reused(calls=1, prompt_tokens=20, completion_tokens=5, pairs=2),
            Reused(calls=1, prompt_tokens=20, completion_tokens=5, pairs=1, pairs_scored=1),
        ]

    asyncio.run(work())


def test_a_later_process_finds_what_an_earlier_one_made(tmp_path: Path) -> None:
    async def run(numbers: Sequence[int]) -> tuple[Any, ...]:
        cache = Cache(tmp_path)
        inner_chat, inner_verifier = Chat(), Verifier()
        chat, verifier = recall_once(inner_chat, cache), CachingEntailer(inner_verifier, cache)
        reply, found = await chat.complete(asked()), await verifier.entail(pairs(*numbers))
        await cache.aclose()
        return reply, found, inner_chat.calls, inner_verifier.calls, chat.reused.calls, verifier.reused.pairs

    reply = Completion(text="reply 1", usage=USAGE)
    recalled = "recall: How many hills has Rome?"
    assert asyncio.run(run([33, 67])) == (reply, scores(33, 67), [recalled], [["33", "67"]], 0, 0)
    assert asyncio.run(run([67, 1, 33])) == (reply, scores(67, 1, 33), [], [["1"]], 1, 2)


@pytest.mark.parametrize("model", [None, "numbers, files 7f3a"])
def test_another_model_finds_nothing_of_it(model: str | None) -> None:
    async def work() -> None:
        store = Shelves()
        await CachingEntailer(Verifier(), store, model=model).entail(pairs(1))
        await recall_once(Chat(), store, model=model).complete(asked())
        inner, chat = Verifier(), Chat()
        await CachingEntailer(inner, store, model="other").entail(pairs(1))
        await recall_once(chat, store, model="other").complete(asked())
        assert (len(inner.calls), len(chat.calls)) == (1, 1)

    asyncio.run(work())


NONSENSE = [
    None,
    1,
    "abc",
    [],
    [0.5, 0.5],
    [2.0, -1.0, 0.0],
    ["a", "b", "c"],
    [0.1, 0.1, 0.1],
    [None] * 3,
    {"a": 1},
    [True, "stop", 1, 1, None],
    ["text", "nonsense", 1, 1, None],
    ["text", "stop", -1, 1, None],
    ["text", "stop", 1, True, None],
    ["text", "stop", 1, 1, 7],
    ["text", ["stop"], 1, 1, None],
]


@pytest.mark.parametrize("value", NONSENSE, ids=str)
def test_what_is_kept_is_not_believed_unless_it_has_its_form(value: Any) -> None:
    async def work() -> None:
        store = Shelves()
        await CachingEntailer(Verifier(), store).entail(pairs(1))
        await recall_once(Chat(), store).complete(asked())
        store.kept = {key: Kept(value, 0.1) for key in store.kept}
        inner, chat = Verifier(), Chat()
        assert await CachingEntailer(inner, store).entail(pairs(1)) == scores(1)
        assert (await RecallOnceChat(chat, store).complete(asked())).text == "reply 1"
        assert (len(inner.calls), len(chat.calls)) == (1, 1)

    asyncio.run(work())


def test_what_the_inner_verifier_knows_is_passed_on() -> None:
    async def work() -> None:
        inner = Verifier()
        verifier = CachingEntailer(inner)
        assert (verifier.name, verifier.max_tokens, verifier.count_tokens("abc")) == ("numbers", 100, 3)
        assert (verifier.bounds, verifier.warnings, verifier.explain) == ((0.4, 0.8), ("be careful",), None)
        assert verifier.batches
        await verifier.aclose()
        assert inner.closed == 1

    asyncio.run(work())
