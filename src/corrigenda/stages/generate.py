"""Stage 1: the answer as the model gives it, stored unedited (paper, 'Initial answer generation')."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from corrigenda.ports import ChatModel
from corrigenda.prompts import Prompts
from corrigenda.types import ChatRequest, Delta, Message

TEMPERATURE = 0.7
"""The paper's nucleus sampling."""
TOP_P = 0.9
MAX_TOKENS = 256
"""The paper's cap on the answer, in tokens."""


def request(
    question: str,
    prompts: Prompts,
    *,
    temperature: float = TEMPERATURE,
    top_p: float = TOP_P,
    max_tokens: int = MAX_TOKENS,
    seed: int | None = None,
) -> ChatRequest:
    """Return the request for an answer to `question`; `max_tokens` in the model's tokens."""
    return ChatRequest(
        stage="generate",
        messages=(
            Message(role="system", content=prompts.get("generate", "system")),
            Message(role="user", content=question),
        ),
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        seed=seed,
    )


async def generate(chat: ChatModel, ask: ChatRequest) -> AsyncIterator[Delta]:
    """Yield the answer as it is made; the last delta carries the completion. Raises BackendError."""
    stream = chat.stream(ask)
    # Closing matters: a caller that stops early (a deadline) must not leave the model working.
    async with aclosing(stream) as deltas:  # type: ignore[type-var]  # every stream here is an async generator
        async for delta in deltas:
            yield delta
