"""A limit to the calls at once, waits and retries; time is virtual, but for the tests over a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from tests.fake_openai import FakeOpenAI, answer, error
from tests.virtual_time import run_virtual

from corrigenda.backends.adaptive import AdaptiveChat, adaptive, passing
from corrigenda.backends.chat_openai import OpenAIChat
from corrigenda.backends.scripts import error_for_status
from corrigenda.errors import BackendError, BadReply, RateLimited, RequestRefused, TimedOut, Unauthorized, Unreachable
from corrigenda.types import ChatRequest, Completion, Delta, Message


def asked(stage: str = "recall") -> ChatRequest:
    return ChatRequest(stage=stage, messages=(Message(role="user", content="How many hills has Rome?"),))


def failure(status: int | None, retry_after_s: float | None = None) -> BackendError:
    made = error_for_status(status, f"status {status}")
    made.retry_after_s = retry_after_s
    return made


class Server:
    """Takes a second per call, or what `seconds` says for the calls at once; fails as it is told to, in order."""

    name = "openai:server"

    def __init__(self, *outcomes: BackendError | None, seconds: Callable[[int], float] = lambda _: 1.0) -> None:
        self.outcomes = list(outcomes)
        self.seconds = seconds
        self.running = 0
        self.most = 0
        self.began: list[float] = []
        self.closed = 0

    async def complete(self, request: ChatRequest) -> Completion:
        outcome = self.outcomes.pop(0) if self.outcomes else None
        self.began.append(asyncio.get_running_loop().time())
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.seconds(self.running))
        finally:
            self.running -= 1
        if outcome is not None:
            raise outcome
        return Completion(text="Seven.")

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        completion = await self.complete(request)
        yield Delta(text="Sev")
        if self.outcomes and self.outcomes[0] is not None:
            raise self.outcomes.pop(0)  # type: ignore[misc]
        yield Delta(text="en.", completion=completion)

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        await self.complete(request)
        return tuple(-float(i + 1) for i in range(len(labels)))

    def count_tokens(self, text: str) -> int:
        return len(text)

    async def aclose(self) -> None:
        self.closed += 1


def test_no_more_calls_run_at_once_than_the_limit() -> None:
    async def work() -> None:
        server = Server()
        chat = adaptive(server, most=3, start=2)
        await asyncio.gather(*[chat.complete(asked()) for _ in range(40)])
        assert (server.most, chat.limit, chat.load.calls, chat.load.most_at_once) == (3, 3, 40, 3)

    run_virtual(work())


def test_streams_and_label_scores_take_places_too() -> None:
    async def work() -> None:
        server = Server()
        chat: Any = adaptive(server, most=1)

        async def streamed() -> str:
            return "".join([delta.text async for delta in chat.stream(asked())])

        found = await asyncio.gather(streamed(), chat.label_logprobs(asked(), ("A", "B")), chat.complete(asked()))
        assert [*found] == ["Seven.", (-1.0, -2.0), Completion(text="Seven.")]
        assert (server.most, server.began) == (1, [0.0, 1.0, 2.0])

    run_virtual(work())


def test_first_come_first_served_and_who_leaves_is_passed_over() -> None:
    async def work() -> None:
        server = Server()
        chat = adaptive(server, most=1)
        order: list[int] = []

        async def call(number: int) -> None:
            await chat.complete(asked())
            order.append(number)

        tasks = [asyncio.create_task(call(number)) for number in range(5)]
        await asyncio.sleep(0.5)
        tasks[2].cancel()
        await asyncio.wait(tasks)
        assert order == [0, 1, 3, 4]
        assert server.began == [0.0, 1.0, 2.0, 3.0]

    run_virtual(work())


def test_a_call_that_is_cancelled_gives_its_place_back() -> None:
    async def work() -> None:
        server = Server()
        chat = adaptive(server, most=1)
        first = asyncio.create_task(chat.complete(asked()))
        second = asyncio.create_task(chat.complete(asked()))
        third = asyncio.create_task(chat.complete(asked()))
        await asyncio.sleep(0.25)
        first.cancel()
        await asyncio.wait({first})
        second.cancel()  # it has just been given the place
        assert await third == Completion(text="Seven.")
        assert (second.cancelled(), chat.load.most_at_once) == (True, 1)

    run_virtual(work())


@pytest.mark.parametrize("outcome", [429, 500, 503, 504, 408, 409, None])
def test_a_failure_that_may_pass_is_tried_again(outcome: int | None) -> None:
    async def work() -> None:
        server = Server(failure(outcome), failure(outcome))
        chat = adaptive(server)
        assert await chat.complete(asked()) == Completion(text="Seven.")
        assert (chat.load.calls, chat.load.retries) == (3, 2)
        first, second = server.began[1] - 1, server.began[2] - server.began[1] - 1
        assert 0.375 <= first <= 0.5, "half a second, less up to a quarter"
        assert 0.75 <= second <= 1.0, "twice that"

    run_virtual(work())


@pytest.mark.parametrize("outcome", [BadReply("no JSON"), RequestRefused("no", 400), Unauthorized("no key")])
def test_a_failure_that_stays_is_not(outcome: BackendError) -> None:
    async def work() -> None:
        server = Server(outcome)
        with pytest.raises(type(outcome), match=str(outcome)):
            await adaptive(server).complete(asked())
        assert len(server.began) == 1

    run_virtual(work())


def test_retries_are_bounded() -> None:
    async def work() -> None:
        server = Server(*[failure(503)] * 9)
        with pytest.raises(BackendError, match="status 503"):
            await adaptive(server, retries=2).complete(asked())
        assert len(server.began) == 3

    run_virtual(work())


def test_while_the_server_wants_to_be_left_alone_no_call_begins() -> None:
    async def work() -> None:
        server = Server(failure(429, 30.0))
        chat = adaptive(server, start=4)
        first = asyncio.create_task(chat.complete(asked()))
        await asyncio.sleep(5)
        second = asyncio.create_task(chat.complete(asked()))
        assert [await first, await second] == [Completion(text="Seven.")] * 2
        assert server.began == [0.0, 31.0, 31.0]
        assert (chat.load.overloads, chat.limit) == (1, 2)

    run_virtual(work())


def test_a_server_that_wants_to_be_left_alone_for_too_long_is_not_waited_for() -> None:
    async def work() -> None:
        server = Server(failure(429, 3600.0))
        chat = adaptive(server)
        with pytest.raises(RateLimited, match="status 429"):
            await chat.complete(asked())
        assert await chat.complete(asked()) == Completion(text="Seven.")
        assert server.began == [0.0, 1.0]

    run_virtual(work())


def test_too_many_and_time_outs_lower_the_limit_and_other_failures_do_not() -> None:
    async def work() -> None:
        told: list[int] = []
        for outcome in (failure(429), TimedOut("no answer"), failure(529), failure(500), Unreachable("no connection")):
            await adaptive(Server(outcome), start=10, on_limit=told.append).complete(asked())
        assert told == [7, 7, 7]

    run_virtual(work())


def test_a_stream_is_asked_for_again_only_before_it_has_begun() -> None:
    async def work() -> None:
        chat = adaptive(Server(failure(503)))
        assert [delta.text async for delta in chat.stream(asked())] == ["Sev", "en."]
        broken = Server(None, Unreachable("stream ended early"))
        chat = adaptive(broken)
        deltas = chat.stream(asked())
        assert (await anext(deltas)).text == "Sev"
        with pytest.raises(Unreachable, match="stream ended early"):
            await anext(deltas)
        assert (len(broken.began), chat.load.retries) == (1, 0)

    run_virtual(work())


def test_it_learns_what_a_server_takes() -> None:
    """600 calls to a server that does 12 at a time and answers 429 beyond: nothing fails, and the limit is near 12."""

    class Strict(Server):
        async def complete(self, request: ChatRequest) -> Completion:
            if self.running >= 12:
                raise failure(429)
            return await super().complete(request)

    async def work() -> None:
        server = Strict()
        chat = adaptive(server, most=64, retries=6)
        await asyncio.gather(*[chat.complete(asked()) for _ in range(600)])
        assert (server.most, len(server.began)) == (12, 600)
        assert 8 <= chat.limit <= 16
        assert chat.load.retries < 60
        assert asyncio.get_running_loop().time() < 2 * 600 / 12

    run_virtual(work())


def test_what_the_inner_model_is_stays_visible() -> None:
    async def work() -> None:
        server = Server()
        chat: Any = adaptive(server)
        assert (chat.name, chat.count_tokens("abc")) == ("openai:server", 3)
        await chat.aclose()
        assert server.closed == 1

    run_virtual(work())


@pytest.mark.parametrize("more", [{"retries": -1}, {"longest_wait_s": -1.0}])
def test_settings_out_of_range_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="retries and the wait must be at least 0"):
        AdaptiveChat(Server(), **more)


def test_which_failures_may_pass() -> None:
    statuses = (None, 400, 401, 404, 408, 409, 422, 429, 500, 502, 503, 529)
    found = [status for status in statuses if passing(error_for_status(status, "x"))]
    assert found == [None, 408, 409, 429, 500, 502, 503, 529]
    assert not passing(BackendError("the server redirects"))


RETRY_AFTER = {
    "seconds": ({"Retry-After": "7"}, 7.0),
    "milliseconds": ({"retry-after-ms": "250", "Retry-After": "7"}, 0.25),
    "a date that has passed": ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    "nonsense": ({"Retry-After": "soon"}, None),
    "negative": ({"Retry-After": "-3"}, None),
    "nothing": ({}, None),
}


@pytest.mark.parametrize(("headers", "seconds"), RETRY_AFTER.values(), ids=RETRY_AFTER)
def test_how_long_a_server_wants_to_be_left_alone(
    server: FakeOpenAI, headers: dict[str, str], seconds: float | None
) -> None:
    async def work() -> BackendError:
        server.script = [error(429, {"error": {"message": "too many"}}, **headers)]
        chat = OpenAIChat("m", base_url=server.base_url, max_retries=0)
        try:
            with pytest.raises(RateLimited, match="too many") as caught:
                await chat.complete(asked())
            return caught.value
        finally:
            await chat.aclose()

    found = asyncio.run(work())
    assert (found.status, found.retry_after_s) == (429, seconds)


def test_over_a_socket(server: FakeOpenAI) -> None:
    async def work() -> None:
        server.script = [error(429, {"error": {"message": "too many"}}, retry_after_ms="20"), answer("Seven.")]
        chat = adaptive(OpenAIChat("m", base_url=server.base_url, max_retries=0), start=8)
        try:
            assert (await chat.complete(asked())).text == "Seven."
            assert (chat.load.calls, chat.load.overloads, chat.limit) == (2, 1, 5)
        finally:
            await chat.aclose()

    asyncio.run(work())
