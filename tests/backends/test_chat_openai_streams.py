"""Streamed replies of an OpenAI-compatible server."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from tests.fake_openai import FakeOpenAI, Reply, answer, chunk, error, events
from tests.openai_calls import KEY, chat_for, request, stream

from corrigenda.backends.chat_openai import OpenAIChat
from corrigenda.errors import (
    BackendError,
    BadReply,
    RateLimited,
    TimedOut,
    Unreachable,
)
from corrigenda.types import Completion, Delta, TokenUsage

# Streams


def test_a_stream_cut_anywhere_gives_the_same_text(server: FakeOpenAI, shared_cases: dict[str, Any]) -> None:
    case = shared_cases["PC-31"]
    pieces = [bytes.fromhex(h) for h in case["input"]["chunks_hex"]]
    body = b"".join(pieces)
    for chunks in (pieces, [body], [body[i : i + 1] for i in range(len(body))]):
        server.script = [Reply(chunks=chunks, content_type="text/event-stream")]
        deltas = stream(chat_for(server))
        assert "".join(d.text for d in deltas) == case["expected"]["text"]
        assert deltas[-1].completion == Completion(text=case["expected"]["text"])
        assert [d.completion for d in deltas[:-1]] == [None] * (len(deltas) - 1)


def test_odd_events_are_harmless(server: FakeOpenAI, shared_cases: dict[str, Any]) -> None:
    case = shared_cases["PC-32"]
    body = case["input"]["body"]
    usage_event = next(part for part in body.split("\r\n\r\n") if '"usage"' in part) + "\r\n\r\n"
    usage = TokenUsage(prompt_tokens=24, completion_tokens=5)
    for text, expected in ((body, usage), (body.replace(usage_event, ""), TokenUsage())):
        server.script = [Reply(chunks=[text.encode()], content_type="text/event-stream")]
        deltas = stream(chat_for(server))
        assert [d.text for d in deltas] == ["Rome has ", "seven hills.", ""]
        assert deltas[-1].completion == Completion(text=case["expected"]["text"], usage=expected)


def test_stream_options_are_left_out_once_refused(server: FakeOpenAI) -> None:
    server.script = [
        error(400, {"error": {"message": "Unknown parameter: stream_options"}}),
        events(chunk("Hi"), chunk(finish_reason="stop")),
        events(chunk("Hi"), chunk(finish_reason="stop")),
    ]

    async def work() -> list[str]:
        chat = chat_for(server)
        texts = ["".join([d.text async for d in chat.stream(request())]) for _ in range(2)]
        await chat.aclose()
        return texts

    assert asyncio.run(work()) == ["Hi", "Hi"]
    assert [body.get("stream_options") for body in server.bodies] == [{"include_usage": True}, None, None]
    assert [body["stream"] for body in server.bodies] == [True] * 3


STREAMS: dict[str, tuple[Reply, Completion]] = {
    "reasoning fields and blocks are dropped": (
        events(
            chunk(reasoning_content="5 hills"), chunk(reasoning="5"), chunk("<thi"), chunk("nk>5 hills</th"),
            chunk("ink>\n\nSeven"), chunk("."), chunk(finish_reason="stop"),
        ),
        Completion(text="Seven."),
    ),
    "an unclosed block at the cap": (
        events(chunk("<think>5 hills"), chunk(finish_reason="length")),
        Completion(text="", finish_reason="length"),
    ),
    "a refusal": (
        events(chunk(refusal="I can"), chunk(refusal="not."), chunk(finish_reason="stop")),
        Completion(text="", finish_reason="refusal", refusal="I cannot."),
    ),
    "[DONE] without a finish reason": (events(chunk("Hi")), Completion(text="Hi", finish_reason="other")),
    "a finish reason without [DONE]": (
        events(chunk("Hi", finish_reason="stop"), done=False),
        Completion(text="Hi"),
    ),
    "cut after the finish reason": (
        events(chunk("Hi", finish_reason="stop"), done=False, cut=True),
        Completion(text="Hi"),
    ),
    "a last event without its blank line": (
        events(chunk("Hi"), 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}', done=False),
        Completion(text="Hi"),
    ),
    "a text that ends like a tag": (
        events(chunk("a <"), chunk("b <th"), chunk(finish_reason="stop")),
        Completion(text="a <b <th"),
    ),
    "other choices, and chunks of other forms": (
        events(
            "data: null\n\n", "data: []\n\n", "data:\n\n", "event: ping\ndata: {}\n\n", "retry: 5\n\n",
            {"choices": None}, {"choices": [None]}, {"choices": [{"delta": None}]},
            {"choices": [{"index": 1, "delta": {"content": "other"}}]},
            chunk("Hi"), chunk(finish_reason="stop"),
        ),
        Completion(text="Hi"),
    ),
    "parts instead of a text": (
        events({"choices": [{"delta": {"content": [{"type": "text", "text": "Hi"}]}, "finish_reason": "stop"}]}),
        Completion(text="Hi"),
    ),
    "characters that some readers take for ends of lines": (
        events('data: {"choices": [{"delta": {"content": "a\u2028b\u0085c"}, "finish_reason": "stop"}]}\n\n'),
        Completion(text="a\u2028b\u0085c"),
    ),
    "a surrogate pair in two halves, and lone ones": (
        events(
            'data: {"choices": [{"delta": {"content": "a\\ud83d"}}]}\n\n',
            'data: {"choices": [{"delta": {"content": "\\ude00b\\ude00", "refusal": "\\ud83d"}}]}\n\n',
            'data: {"choices": [{"delta": {"content": "\\ud800", "refusal": "\\ude00"}, "finish_reason": "stop"}]}\n\n',
        ),
        Completion(text="a😀b\ufffd\ufffd", refusal="😀"),
    ),
    "reasoning whose closing tag stands within a line": (
        events(chunk("The tag "), chunk("</think> ends it."), chunk(finish_reason="stop")),
        Completion(text="The tag </think> ends it."),
    ),
    "a server that does not stream": (answer("Hi", usage={"completion_tokens": 1}),
                                      Completion(text="Hi", usage=TokenUsage(completion_tokens=1))),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_odd_streams(server: FakeOpenAI, name: str) -> None:
    reply, expected = STREAMS[name]
    server.default = reply
    deltas = stream(chat_for(server))
    assert deltas[-1].completion == expected
    assert "".join(d.text for d in deltas) == expected.text
    assert sum(d.completion is not None for d in deltas) == 1


@pytest.mark.parametrize(
    "reply",
    [
        events(chunk("Rome has "), chunk("five"), done=False),
        events(chunk("Rome has "), chunk("five"), done=False, cut=True),
        events(chunk("Rome has "), chunk("five"), 'data: {"choices": [{"de', done=False),
        events(chunk("Rome has "), chunk("five"), 'data: {"choices": [{"de', done=False, cut=True),
    ],
)
def test_a_stream_that_is_cut_keeps_what_came_and_fails(server: FakeOpenAI, reply: Reply) -> None:
    server.default = reply
    deltas: list[Delta] = []
    with pytest.raises(Unreachable, match=r"stream ended early: .*127\.0\.0\.1"):
        stream(chat_for(server), deltas)
    assert deltas == [Delta(text="Rome has "), Delta(text="five")]
    assert len(server.received) == 1


@pytest.mark.parametrize("reply", [Reply(content_type="text/event-stream"), events(": hello\n\n", done=False)])
def test_a_stream_without_events_is_cut_too(server: FakeOpenAI, reply: Reply) -> None:
    server.default = reply
    with pytest.raises(Unreachable, match="stream ended early"):
        stream(chat_for(server))


@pytest.mark.parametrize(
    ("event", "kind", "message"),
    [
        ({"error": {"message": f"boom {KEY}"}}, BackendError, r"reported an error: boom \*\*\*"),
        ({"error": {"code": 429, "message": "slow"}}, RateLimited, "answered 429: slow"),
        ({"error": {"other": 1}}, BackendError, 'reported an error: {"other": 1}'),
        ('event: error\ndata: {"message": "boom"}\n\n', BackendError, "reported an error: boom"),
        ('event: error\ndata: "boom"\n\n', BackendError, "reported an error: boom"),
        ("data: {nonsense\n\n", BadReply, "answered with something else .*nonsense"),
    ],
)
def test_an_error_in_mid_stream(server: FakeOpenAI, event: Any, kind: type[BackendError], message: str) -> None:
    server.default = events(chunk("Rome"), event)
    deltas: list[Delta] = []
    with pytest.raises(kind, match=message) as caught:
        stream(chat_for(server, api_key=KEY), deltas)
    assert type(caught.value) is kind
    assert deltas == [Delta(text="Rome")]


def test_a_stream_that_stalls_is_timed_out(server: FakeOpenAI) -> None:
    server.default = events(chunk("Rome"), done=False, hold=True)
    deltas: list[Delta] = []
    with pytest.raises(TimedOut, match=r"within 0\.2 s"):
        stream(chat_for(server, timeout_s=0.2), deltas)
    assert deltas == [Delta(text="Rome")]


def test_closing_the_iterator_hangs_up(server: FakeOpenAI) -> None:
    server.default = events(chunk("Rome"), done=False, hold=True)

    async def work() -> Delta:
        chat = chat_for(server)
        deltas = chat.stream(request())
        async with aclosing(deltas):  # type: ignore[type-var]
            first = await anext(deltas)
        assert await asyncio.to_thread(server.hung_up.wait, 3)
        server.default = answer("Still here.")
        assert (await chat.complete(request())).text == "Still here."
        await chat.aclose()
        return first

    assert asyncio.run(work()) == Delta(text="Rome")


@pytest.mark.parametrize("streamed", [True, False])
def test_cancelling_hangs_up(server: FakeOpenAI, streamed: bool) -> None:
    server.default = Reply(hold=True)

    async def work() -> None:
        chat = chat_for(server)

        async def use() -> None:
            if streamed:
                async for _ in chat.stream(request()):
                    pass
            else:
                await chat.complete(request())

        task = asyncio.create_task(use())
        assert await asyncio.to_thread(server.asked.wait, 3)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert await asyncio.to_thread(server.hung_up.wait, 3)
        await chat.aclose()

    asyncio.run(work())


# Reasoning without its opening tag

ORPHAN = (
    chunk("It has 5"),
    chunk(" hills? No.\n</thi"),
    chunk("nk>\n\nSeven"),
    chunk("."),
    chunk(finish_reason="stop"),
)


def test_reasoning_that_was_given_out_is_an_error_and_the_next_reply_is_held_back(server: FakeOpenAI) -> None:
    server.default = events(*ORPHAN)

    async def work() -> tuple[list[str], str, list[Delta]]:
        chat = chat_for(server)
        texts: list[str] = []

        async def first() -> None:
            async for delta in chat.stream(request()):
                texts.append(delta.text)

        with pytest.raises(BadReply, match=r"openai:m at .* sent reasoning without the tag that opens it") as caught:
            await first()
        later = [delta async for delta in chat.stream(request())]
        await chat.aclose()
        return texts, str(caught.value), later

    texts, message, later = asyncio.run(work())
    assert texts == ["It has 5", " hills? No.\n</thi"]
    assert "--reasoning-parser" in message
    assert later == [Delta(text="Seven"), Delta(text="."), Delta(text="", completion=Completion(text="Seven."))]


@pytest.mark.parametrize(
    ("model", "chunks", "texts"),
    [
        ("DeepSeek-R1-Distill-Qwen-7B", ORPHAN, ["Seven", ".", ""]),
        ("Qwen/QwQ-32B", ORPHAN, ["Seven", ".", ""]),
        ("Qwen3-4B-Thinking-2507", ORPHAN, ["Seven", ".", ""]),
        ("deepseek-reasoner", (chunk(reasoning_content="5?"), chunk("Sev"), chunk("en.")), ["Sev", "en.", ""]),
        ("deepseek-reasoner", (chunk("<think>5?</think>\nSev"), chunk("en.")), ["Sev", "en.", ""]),
        ("deepseek-reasoner", (chunk("Sev"), chunk("en.")), ["Seven."]),
        ("gpt-r15", (chunk("Sev"), chunk("en.")), ["Sev", "en.", ""]),
    ],
)
def test_models_that_reason_are_held_back_until_it_is_known_where_they_begin(
    server: FakeOpenAI, model: str, chunks: Any, texts: list[str]
) -> None:
    server.default = events(*chunks, chunk(finish_reason="stop"))
    deltas = stream(OpenAIChat(model, base_url=server.base_url, max_retries=0, timeout_s=5))
    assert [d.text for d in deltas] == texts
    assert deltas[-1].completion == Completion(text="Seven.")


# Streams without an end


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        (chunk("Rome has 5 hills. " * 10), ("Rome has 5 hills. " * 300)[: 16 * 10 + 4000]),
        (chunk("ab"), "ab" * 1041),
        (chunk(""), ""),
        (chunk("<think>" + "x" * 1000), ""),
        (chunk(reasoning_content="x" * 1000), ""),
        (chunk("a" * 1_000_000), "a" * 4160),
    ],
    ids=["text", "short pieces", "nothing", "thoughts", "a field of thoughts", "one huge piece"],
)
def test_a_stream_without_an_end_is_ended_here(server: FakeOpenAI, piece: Any, shown: str) -> None:
    size = 3 if len(str(piece)) > 10_000 else 3000
    server.default = events(*[piece] * size, done=False, hold=True)

    async def work() -> list[Delta]:
        chat = chat_for(server)
        deltas = [delta async for delta in chat.stream(request(max_tokens=10))]
        await chat.aclose()
        return deltas

    deltas = asyncio.run(work())
    assert deltas[-1].completion == Completion(text=shown, finish_reason="length")
    assert "".join(d.text for d in deltas) == shown


@pytest.mark.parametrize("piece", [b"x" * 1_000_000, b"data: " + b"x" * 1_000_000 + b"\n"])
def test_an_event_without_an_end_is_refused(server: FakeOpenAI, piece: bytes) -> None:
    server.default = Reply(chunks=[piece] * 20, content_type="text/event-stream", hold=True)
    with pytest.raises(BadReply, match=r"127\.0\.0\.1:\d+ sends an event without an end"):
        stream(chat_for(server))


def test_a_broken_connection_is_not_told_as_a_server_that_is_not_running(server: FakeOpenAI) -> None:
    server.default = events(chunk("Rome has "), done=False, cut=True)
    with pytest.raises(Unreachable, match=r"^stream ended early: the connection to .* broke \(.*\); try again$"):
        stream(chat_for(server))
    server.default = events(chunk("Rome"), headers={"Content-Encoding": "gzip"})
    with pytest.raises(BadReply, match=r"^http://127.* sent a body that cannot be decompressed \(.*a proxy in between"):
        stream(chat_for(server))
