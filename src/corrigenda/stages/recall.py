"""Stage 3: the reference, recalled by the same model from the question alone, in a fresh context.

Nothing of the answer can reach this stage: its functions do not take one. That is what keeps the check from
confirming the answer's own mistakes (paper, 'Isolated reference construction'), and it also lets recall run
beside generate, so that it adds no time of its own.
"""

from __future__ import annotations

import asyncio

from corrigenda.errors import BackendError, BadReply
from corrigenda.ports import ChatModel
from corrigenda.prompts import Prompts
from corrigenda.types import ChatRequest, Message, Reference

MAX_TOKENS = 96
"""About twice the mean length of the paper's answers (42 tokens): a longer reference costs more than the answer."""
SAMPLING_TEMPERATURE = 0.7
"""Used when several references are drawn; a single one is decoded greedily, as the most likely recollection."""


def request(
    question: str,
    prompts: Prompts,
    *,
    max_tokens: int = MAX_TOKENS,
    temperature: float = 0.0,
    seed: int | None = None,
) -> ChatRequest:
    """Return the request for one reference; `max_tokens` in the model's tokens."""
    return ChatRequest(
        stage="recall",
        messages=(
            Message(role="system", content=prompts.get("recall", "system")),
            Message(role="user", content=prompts.fill("recall", "user", question=question)),
        ),
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
    )


async def recall(
    question: str,
    chat: ChatModel,
    prompts: Prompts,
    *,
    references: int = 1,
    max_tokens: int = MAX_TOKENS,
    seed: int | None = None,
) -> tuple[tuple[Reference, ...], tuple[str, ...]]:
    """Return `references` independent references and warnings. Raises BackendError when none could be had.

    The references are drawn at the same time, each in its own context, with its own seed. One that fails or is
    empty is left out with a warning, as long as another one is there.
    """
    temperature = 0.0 if references == 1 else SAMPLING_TEMPERATURE
    asks = [
        request(
            question,
            prompts,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=None if seed is None else seed + i,
        )
        for i in range(references)
    ]
    results = await asyncio.gather(*(chat.complete(ask) for ask in asks), return_exceptions=True)
    found: list[Reference] = []
    problems: list[BackendError] = []
    for result in results:
        if isinstance(result, BackendError):
            problems.append(result)
        elif isinstance(result, BaseException):
            raise result
        elif not result.text.strip():
            problems.append(BadReply(f"recall gave an empty reference (finish reason {result.finish_reason!r})"))
        else:
            found.append(
                Reference(text=result.text.strip(), source="recall", truncated=result.finish_reason == "length")
            )
    if not found and problems:
        raise problems[0]
    return tuple(found), tuple(f"recall: a reference is missing: {problem}" for problem in problems)
