"""A chat model with given replies, and decomposers run on a whole answer, for the tests of the decompose stage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from corrigenda.prompts import load
from corrigenda.sentences import split_sentences
from corrigenda.stages.decompose import (
    Decomposer,
    Decomposition,
    DeterministicDecomposer,
)
from corrigenda.types import AtomicClaim, ChatRequest, Completion, Delta

EN, IT = load("en"), load("it")


COMPOUND = "Rome, the capital of Italy, was founded in 753 BC."


class Chat:
    """A chat model that gives the replies (or raises the errors) it was made with, and keeps the requests."""

    name = "chat"

    def __init__(self, *replies: str | Exception) -> None:
        self.replies = list(replies)
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return Completion(text=reply)

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        raise NotImplementedError
        yield

    async def aclose(self) -> None:
        return


def reply(*claims: tuple[int, str]) -> str:
    return json.dumps({"claims": [{"sentence": n, "text": t} for n, t in claims]})


def decompose(decomposer: Decomposer, answer: str, question: str | None = None) -> Decomposition:
    return asyncio.run(decomposer.decompose(answer, question))


def by_rules(answer: str, language: str = "en") -> list[tuple[str, str | None]]:
    found = decompose(DeterministicDecomposer(load(language)), answer)
    return [(c.text, c.reason) for c in found.claims]


def stream(decomposer: Decomposer, answer: str) -> tuple[list[AtomicClaim], list[str]]:
    warnings: list[str] = []

    async def run() -> list[AtomicClaim]:
        claims: list[AtomicClaim] = []
        for sentence in split_sentences(answer):
            claims += await decomposer.decompose_sentence(sentence, answer, warnings.append)
        return claims

    return asyncio.run(run()), warnings
