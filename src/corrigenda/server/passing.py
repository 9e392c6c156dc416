"""Passing a request through unverified, and saying so in the reply: beside `choices`, or on every piece of a stream."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

from corrigenda.backends.chat_openai import OpenAIChat
from corrigenda.backends.sse import Event, EventReader
from corrigenda.ports import ChatModel
from corrigenda.server.bodies import Exchange
from corrigenda.server.conversation import Plan, unsupported
from corrigenda.server.problems import ApiError
from corrigenda.server.served import Served
from corrigenda.server.stream import BEAT_S, HEAD_S, Pump, beat
from corrigenda.server.wire import Reply, finish_reason
from corrigenda.types import ChatRequest, Completion

_MOST_BYTES = 64_000_000
"""Of a reply in one piece, or of one event."""
_PARAMS = {"media": "messages", "no_question": "messages"}
"""What a request is refused for, where its reason is not the name of a field."""
_DONE = object()
_Headers = Mapping[str, str]


async def forward(
    exchange: Exchange,
    served: Served,
    chat: OpenAIChat,
    todo: Plan,
    beside: Mapping[str, Any],
    headers: _Headers,
    left_s: float,
) -> None:
    """Send the request as it came to an OpenAI-compatible upstream, under this server's key, and its reply back."""
    if not todo.stream:
        async with _within(left_s):
            answer = await _whole(chat, todo.body)
        served.text_sent()
        await exchange.reply(200, answer | {"corrigenda": dict(beside)}, headers)
        return
    async with _within(left_s), Pump(_events(chat, todo.body)) as pump:
        event = await pump.next(HEAD_S)
        await exchange.begin_events(headers)
        while event is not _DONE:
            if event is None:
                await beat(exchange)
            else:
                assert isinstance(event, dict)
                served.text_sent()
                await exchange.event(event | {"corrigenda": dict(beside)})
            event = await pump.next(BEAT_S)
        await exchange.done()


async def _whole(chat: OpenAIChat, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the upstream's reply. Raises BackendError, or ApiError where it is no JSON object."""
    raw = bytearray()
    async with aclosing(await chat.forward(body)) as chunks:
        async for chunk in chunks:
            raw += chunk
            if len(raw) > _MOST_BYTES:
                raise _nonsense("a reply without an end")
    return _object(bytes(raw), chat)


async def _events(chat: OpenAIChat, body: Mapping[str, Any]) -> AsyncGenerator[object, None]:
    """Yield the upstream's events, then `_DONE`. Raises as `_whole` does, and where the stream is cut."""
    reader, ended = EventReader(), False
    async with aclosing(await chat.forward(body)) as chunks:
        async for chunk in chunks:
            for event in reader.feed(chunk):
                if event.data.strip() == "[DONE]":
                    yield _DONE
                    return
                value = _chunk(event, chat)
                ended = ended or _finishes(value)
                yield value
            if reader.waiting > _MOST_BYTES:
                raise _nonsense("an event without an end")
    for event in reader.finish():
        if event.data.strip() != "[DONE]":
            value = _chunk(event, chat)
            ended = ended or _finishes(value)
            yield value
    if not ended:
        raise ApiError(
            502, "the upstream ended its stream before the reply was whole; try again", code="upstream_error"
        )
    yield _DONE


def _finishes(chunk: Mapping[str, Any]) -> bool:
    choices = chunk.get("choices")
    return isinstance(choices, list) and any(isinstance(c, Mapping) and c.get("finish_reason") for c in choices)


def _chunk(event: Event, chat: OpenAIChat) -> dict[str, Any]:
    """Return an event's JSON object. Raises as `_object` does, also where the event's name says that it is an error."""
    value = _object(event.data.encode("utf-8", "surrogatepass"), chat)
    if event.name == "error":
        raise _reported(value, chat)
    return value


def _object(raw: bytes, chat: OpenAIChat) -> dict[str, Any]:
    """Return a JSON object of the upstream's. Raises ApiError 502 for anything else, and for an error it reports."""
    try:
        value = json.loads(raw, parse_constant=lambda _: None, parse_float=_number)
    except (ValueError, RecursionError) as exc:
        raise _nonsense("something else than JSON") from exc
    if not isinstance(value, dict):
        raise _nonsense("JSON of another form than a chat completion")
    if value.get("error"):
        raise _reported(value["error"], chat)
    return value


def _reported(error: Any, chat: OpenAIChat) -> ApiError:
    said = error.get("message") if isinstance(error, Mapping) else error
    return ApiError(502, f"the upstream reported an error: {chat.hide(str(said))[:500]}", code="upstream_error")


def _number(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _nonsense(what: str) -> ApiError:
    return ApiError(502, f"the upstream sent {what}; check the address of it (--base-url)", code="upstream_error")


async def plain_reply(
    exchange: Exchange,
    served: Served,
    chat: ChatModel,
    todo: Plan,
    reply: Reply,
    beside: Mapping[str, Any],
    headers: _Headers,
    left_s: float,
) -> None:
    """Answer by a chat model that takes plain conversations alone. Raises ApiError 400 for more than that."""
    assert todo.passed is not None
    if todo.request is None:
        reason = todo.passed.partition(":")[0]
        raise unsupported(_PARAMS.get(reason, reason))
    if not todo.stream:
        async with _within(left_s):
            completion = await chat.complete(todo.request)
        served.text_sent()
        served.finish_reason = finish_reason(completion)
        await exchange.reply(200, reply.whole(completion.text, completion, beside), headers)
        return
    async with _within(left_s), Pump(_deltas(chat, todo.request)) as pump:
        piece = await pump.next(HEAD_S)
        await exchange.begin_events(headers)
        await exchange.event(reply.chunk({"role": "assistant", "content": ""}, corrigenda=dict(beside)))
        while not isinstance(piece, Completion):
            if piece is None:
                await beat(exchange)
            else:
                served.text_sent()
                await exchange.event(reply.chunk({"content": piece}, corrigenda=dict(beside)))
            piece = await pump.next(BEAT_S)
        if piece.refusal is not None:
            await exchange.event(reply.chunk({"refusal": piece.refusal}, corrigenda=dict(beside)))
        served.finish_reason = finish_reason(piece)
        await exchange.event(reply.chunk({}, served.finish_reason, corrigenda=dict(beside)))
        if todo.include_usage:
            await exchange.event(reply.usage_chunk(piece))
        await exchange.done()


async def _deltas(chat: ChatModel, request: ChatRequest) -> AsyncGenerator[str | Completion, None]:
    """Yield the texts of a reply, then its completion."""
    completion = Completion(text="")
    async with aclosing(chat.stream(request)) as deltas:  # type: ignore[type-var]
        async for delta in deltas:
            if delta.text:
                yield delta.text
            completion = delta.completion or completion
    yield completion


@asynccontextmanager
async def _within(left_s: float) -> AsyncIterator[None]:
    """Bound a block by the time that is left to a request. Raises ApiError 504."""
    clock = asyncio.timeout(left_s)
    try:
        async with clock:
            yield
    except TimeoutError as exc:
        if not clock.expired():
            raise
        raise ApiError(504, "the request's deadline came before the end of the reply", code="deadline") from exc
