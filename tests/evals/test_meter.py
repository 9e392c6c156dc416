from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.errors import RateLimited
from corrigenda.evals.clock import Clock
from corrigenda.evals.memo import Memo
from corrigenda.evals.meter import STOPPED, Meter, MeteredChat, MeteredScorer, metered_chat
from corrigenda.ports import ChatModel, LabelScorer
from corrigenda.shelf import repeatable
from corrigenda.types import ChatRequest, Completion, Delta, Message

T = TypeVar("T")
ASK = ChatRequest(stage="generate", messages=(Message(role="user", content="Hills?"),), temperature=0.7, seed=7)
USAGE = {"prompt_tokens": 20, "completion_tokens": 3}
REPLY = {"reply": "Rome has seven hills.", "usage": USAGE}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def calls_of(meter: Meter) -> list[tuple[str, bool, int | None, str | None]]:
    return [(c.stage, c.reused, c.completion_tokens, c.error) for c in meter.calls]


async def text_of(chat: MeteredChat, request: ChatRequest = ASK) -> list[Delta]:
    return [delta async for delta in chat.stream(request)]


class Slow:
    """A chat model whose first call takes until it is let go; it counts the calls, and fails the first `failing`."""

    name = "slow"

    def __init__(self, failing: int = 0) -> None:
        self.calls = 0
        self.failing = failing
        self.go = asyncio.Event()

    async def complete(self, request: ChatRequest) -> Completion:
        self.calls += 1
        number = self.calls
        await self.go.wait()
        if number <= self.failing:
            raise RateLimited("too many")
        return Completion(text=f"reply {number}")

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        yield Delta(completion=await self.complete(request))

    async def aclose(self) -> None: ...


# The clock ----------------------------------------------------------------------------------------------------------


def passed(*spent: Sequence[float], busy_s: float = 0.0) -> float:
    """Return what the clock says when each of `spent` is a task that spends these seconds, one after the other."""

    async def task(clock: Clock, lengths: Sequence[float]) -> None:
        for seconds in lengths:
            await clock.spend(seconds)

    async def real(clock: Clock) -> None:
        with clock.busy():
            await asyncio.sleep(busy_s)

    async def all_of_it() -> float:
        clock = Clock()
        async with asyncio.TaskGroup() as group:
            if busy_s:
                group.create_task(real(clock))
            for lengths in spent:
                group.create_task(task(clock, lengths))
        return clock.now()

    return run(all_of_it())


@pytest.mark.parametrize(
    ("spent", "seconds"),
    [
        (([1000],), 1000),
        (([1000, 2000],), 3000),
        (([1000], [3000]), 3000),
        (([1000, 1500], [2000]), 2500),
        (([1000, 1000, 1000], [500, 500], [100]), 3000),
        (([0], [-1.0]), 0),
    ],
)
def test_reused_time_passes_at_once_and_overlaps_as_it_would(spent: Any, seconds: float) -> None:
    assert seconds <= passed(*spent) < seconds + 100


def test_reused_time_beside_real_work_is_not_added_to_it() -> None:
    assert passed([0.02, 0.02], busy_s=0.1) < 50
    assert 1000 <= passed([1000], busy_s=0.01) < 1100


# The chat model -----------------------------------------------------------------------------------------------------


def test_a_call_is_made_once_and_counted_for_each_method() -> None:
    async def both() -> tuple[Meter, Meter, int]:
        inner, memo = ScriptedChat({"rules": [REPLY]}), Memo()
        first, second = Meter(clock=Clock()), Meter(clock=Clock())
        one = await MeteredChat(inner, first, memo).complete(ASK)
        two = await MeteredChat(inner, second, memo).complete(ASK)
        assert one == two
        assert one.text == "Rome has seven hills."
        return first, second, len(inner.requests)

    first, second, made = run(both())
    assert made == 1
    assert calls_of(first) == [("generate", False, 3, None)]
    assert calls_of(second) == [("generate", True, 3, None)]
    assert second.calls[0].seconds == first.calls[0].seconds > 0
    assert second.clock is not first.clock


def test_a_stream_is_reused_in_one_piece_and_serves_whole_replies_too() -> None:
    async def both() -> tuple[list[Delta], list[Delta], Completion, int]:
        inner, memo = ScriptedChat({"rules": [REPLY]}), Memo()
        chat = MeteredChat(inner, Meter(clock=Clock()), memo)
        return await text_of(chat), await text_of(chat), await chat.complete(ASK), len(inner.requests)

    streamed, again, whole, made = run(both())
    assert made == 1
    assert len(streamed) > 2
    assert "".join(delta.text for delta in streamed) == "Rome has seven hills."
    assert again == [Delta(text="Rome has seven hills.", completion=streamed[-1].completion)]
    assert whole == streamed[-1].completion


@pytest.mark.parametrize(
    ("other", "made"),
    [
        (ASK, 1),
        (replace(ASK, seed=8), 2),
        (replace(ASK, stage="sample"), 2),
        (replace(ASK, max_tokens=10), 2),
        (replace(ASK, messages=(Message(role="system", content="Hills?"),)), 2),
        (replace(ASK, json_schema={"type": "object"}), 2),
        (replace(ASK, temperature=0.8), 2),
    ],
)
def test_only_the_same_request_is_reused(other: ChatRequest, made: int) -> None:
    async def both() -> int:
        inner = ScriptedChat({"rules": [REPLY]})
        chat = MeteredChat(inner, Meter(clock=Clock()), Memo())
        await chat.complete(ASK)
        await chat.complete(other)
        return len(inner.requests)

    assert run(both()) == made


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"seed": 7, "temperature": 0.7}, True),
        ({"seed": 0, "temperature": None}, True),
        ({"seed": None, "temperature": 0.0}, True),
        ({"seed": None, "temperature": 0.7}, False),
        ({"seed": None, "temperature": None}, False),
    ],
)
def test_a_reply_is_reused_only_where_it_would_come_again(change: dict[str, Any], expected: bool) -> None:
    async def both() -> int:
        inner = ScriptedChat({"rules": [REPLY]})
        chat = MeteredChat(inner, Meter(clock=Clock()), Memo())
        for _ in range(2):
            await chat.complete(replace(ASK, **change))
        return len(inner.requests)

    assert repeatable(replace(ASK, **change)) is expected
    assert run(both()) == (1 if expected else 2)


def test_without_a_memo_every_call_is_made() -> None:
    async def both() -> tuple[int, Meter]:
        inner, meter = ScriptedChat({"rules": [REPLY]}), Meter(clock=Clock())
        chat = MeteredChat(inner, meter, None)
        await chat.complete(ASK)
        await text_of(chat)
        return len(inner.requests), meter

    made, meter = run(both())
    assert made == 2
    assert calls_of(meter) == [("generate", False, 3, None)] * 2


def test_failures_are_counted_and_not_kept() -> None:
    async def both() -> tuple[Meter, str]:
        inner = ScriptedChat({"rules": [{"error": {"status": 429, "body": "slow down"}, "times": 1}, REPLY]})
        meter = Meter(clock=Clock())
        chat = MeteredChat(inner, meter, Memo())
        with pytest.raises(RateLimited, match="slow down"):
            await chat.complete(ASK)
        return meter, (await chat.complete(ASK)).text

    meter, text = run(both())
    assert text == "Rome has seven hills."
    assert [c.error is None for c in meter.calls] == [False, True]
    assert str(meter.calls[0].error).startswith("RateLimited: scripted: rules[0]: status 429")


def test_a_stream_that_is_not_read_to_its_end_is_not_kept() -> None:
    async def both() -> tuple[Meter, int]:
        inner, meter = ScriptedChat({"rules": [REPLY]}), Meter(clock=Clock())
        chat = MeteredChat(inner, meter, Memo())
        stream = chat.stream(ASK)
        assert (await anext(stream)).text == "Rome"
        await stream.aclose()  # type: ignore[attr-defined]
        await chat.complete(ASK)
        return meter, len(inner.requests)

    meter, made = run(both())
    assert made == 2
    assert calls_of(meter) == [("generate", False, None, STOPPED), ("generate", False, 3, None)]


def test_who_asks_for_what_is_being_made_waits_for_it() -> None:
    async def together() -> tuple[list[str], int, list[bool]]:
        inner, memo = Slow(), Memo()
        meters = [Meter(clock=Clock()) for _ in range(3)]
        tasks = [asyncio.create_task(MeteredChat(inner, m, memo).complete(ASK)) for m in meters]
        await asyncio.sleep(0.01)
        inner.go.set()
        texts = [(await task).text for task in tasks]
        return texts, inner.calls, [c.reused for m in meters for c in m.calls]

    assert run(together()) == (["reply 1"] * 3, 1, [False, True, True])


def test_who_waits_for_a_call_that_fails_makes_it() -> None:
    async def together() -> tuple[list[str], int]:
        inner, memo = Slow(failing=1), Memo()
        tasks = [asyncio.create_task(MeteredChat(inner, Meter(clock=Clock()), memo).complete(ASK)) for _ in range(3)]
        await asyncio.sleep(0.01)
        inner.go.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        return [r.text if isinstance(r, Completion) else str(r) for r in results], inner.calls

    assert run(together()) == (["too many", "reply 2", "reply 2"], 2)


def test_who_waits_for_a_call_that_is_cancelled_makes_it() -> None:
    async def together() -> tuple[str, int]:
        inner, memo = Slow(), Memo()
        first, second = (
            asyncio.create_task(MeteredChat(inner, Meter(clock=Clock()), memo).complete(ASK)) for _ in range(2)
        )
        await asyncio.sleep(0.01)
        first.cancel()
        inner.go.set()
        return (await second).text, inner.calls

    assert run(together()) == ("reply 2", 2)


def test_a_memo_forgets_what_was_not_used_for_longest() -> None:
    async def asked() -> int:
        inner = ScriptedChat({"rules": [REPLY]})
        chat = MeteredChat(inner, Meter(clock=Clock()), Memo(max_calls=2))
        for seed in (1, 2, 1, 3, 1, 2):  # 3 drives out 2
            await chat.complete(replace(ASK, seed=seed))
        return len(inner.requests)

    assert run(asked()) == 4


def test_a_method_takes_as_long_as_if_it_had_made_its_calls_itself() -> None:
    async def timed() -> tuple[float, float]:
        memo = Memo()
        inner = ScriptedChat({"rules": [{**REPLY, "first_token_s": 0.05}]})
        first, second = Meter(clock=Clock()), Meter(clock=Clock())
        await MeteredChat(inner, first, memo).complete(ASK)
        made = first.clock.now()
        second = Meter(clock=Clock())
        await MeteredChat(inner, second, memo).complete(ASK)
        return made, second.clock.now()

    made, reused = run(timed())
    assert reused >= 0.05
    assert made >= 0.05


# Labels -------------------------------------------------------------------------------------------------------------


def test_a_label_scorer_stays_one_and_its_scores_are_made_once() -> None:
    async def both() -> tuple[list[tuple[float, ...]], int, Meter]:
        inner, meter = ScriptedChat({"rules": [{"logprobs": {"A": -0.1}}]}), Meter(clock=Clock())
        chat = metered_chat(inner, meter, Memo())
        assert isinstance(chat, LabelScorer)
        assert chat.count_tokens("Rome has hills.") == 4
        asked = replace(ASK, seed=None)
        scores = [await chat.label_logprobs(asked, labels) for labels in (["A", "B"], ["A", "B"], ["B", "A"])]
        return scores, len(inner.requests), meter

    scores, made, meter = run(both())
    assert scores == [(-0.1, -math.inf), (-0.1, -math.inf), (-math.inf, -0.1)]
    assert made == 2
    assert calls_of(meter) == [
        ("generate", False, None, None),
        ("generate", True, None, None),
        ("generate", False, None, None),
    ]


def test_a_chat_model_that_scores_no_labels_does_not_look_as_if() -> None:
    async def made() -> MeteredChat | None:
        return metered_chat(Slow(), Meter(clock=Clock()), Memo())

    chat = run(made())
    assert isinstance(chat, ChatModel)
    assert not isinstance(chat, LabelScorer | MeteredScorer)
    assert chat.name == "slow"
