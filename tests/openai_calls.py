"""Short ways to call an OpenAIChat in tests; each closes what it opened."""

import asyncio
from typing import Any

from corrigenda.backends.chat_openai import OpenAIChat
from corrigenda.types import ChatRequest, Completion, Delta, Message
from tests.fake_openai import FakeOpenAI

KEY = "sk-a-secret-of-this-test"
SCHEMA = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": {"type": "string"}}},
    "required": ["claims"],
    "additionalProperties": False,
}
"""Closed, as OpenAI's strict mode wants it."""


def request(**settings: Any) -> ChatRequest:
    return ChatRequest(stage="generate", messages=(Message(role="user", content="How many hills?"),), **settings)


def chat_for(server: FakeOpenAI, **settings: Any) -> OpenAIChat:
    return OpenAIChat("m", base_url=server.base_url, **{"max_retries": 0, "timeout_s": 5, **settings})


def complete(chat: OpenAIChat, asked: ChatRequest | None = None) -> Completion:
    async def work() -> Completion:
        try:
            return await chat.complete(asked or request())
        finally:
            await chat.aclose()

    return asyncio.run(work())


def stream(chat: OpenAIChat, into: list[Delta] | None = None) -> list[Delta]:
    deltas: list[Delta] = [] if into is None else into

    async def work() -> None:
        try:
            async for delta in chat.stream(request()):
                deltas.append(delta)
        finally:
            await chat.aclose()

    asyncio.run(work())
    return deltas
