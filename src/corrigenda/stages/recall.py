"""Stage 3: the reference, recalled by the same model from the question alone, in a fresh context.

Nothing of the answer can reach this stage: its functions do not take one. That is what keeps the check from
confirming the answer's own mistakes (paper, 'Isolated reference construction'), and it also lets recall run
beside generate, so that it adds no time of its own.
"""

from __future__ import annotations

from corrigenda.concurrency import together
from corrigenda.errors import BackendError, BadReply
from corrigenda.ports import ChatModel
from corrigenda.prompts import Prompts
from corrigenda.replies import is_abstention, is_refusal
from corrigenda.types import ChatRequest, Completion, Message, Reference

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
    """Return `references` independent references and warnings. Raises BackendError when every call failed.

    The references are drawn at the same time, each in its own context, with its own seed. One that fails, is
    empty, or in which the model says that it does not know, is left out with a warning; so there may be none.
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
    results = await together([_one(chat, ask) for ask in asks])
    found: list[Reference] = []
    warnings: list[str] = []
    failures = [result for result in results if isinstance(result, BackendError)]
    for result in results:
        if isinstance(result, BackendError):
            warnings.append(f"recall: a reference is missing: {result}")
        elif is_refusal(result.text, prompts) or is_abstention(result.text, prompts) or result.refusal is not None:
            warnings.append("recall: a reference is missing: the model says that it does not know, or refuses")
        else:
            text, truncated = result.text.strip(), result.finish_reason == "length"
            found.append(Reference(text=text, source="recall", truncated=truncated))
    if len(failures) == len(results):
        raise failures[0]
    return tuple(found), tuple(warnings)


async def _one(chat: ChatModel, ask: ChatRequest) -> Completion | BackendError:
    """Return the reply, or the failure as a value: the other references may still come."""
    try:
        completion = await chat.complete(ask)
    except BackendError as exc:
        return exc
    if not completion.text.strip() and completion.refusal is None:
        return BadReply(f"recall gave an empty reference (finish reason {completion.finish_reason!r})")
    return completion
