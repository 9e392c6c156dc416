"""Reports with retrieval on scripted models: a small shelf of passages and what the tests of it share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from corrigenda import Corrigenda, Report, Settings
from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.backends.retrieve_memory import MemoryRetriever
from corrigenda.types import (
    Passage,
)
from tests.scripted import CONTRADICT, ENTAIL, NEUTRAL, Rules

WEAK_CONTRADICTION = [0.1, 0.2, 0.7]
WEAK_ENTAILMENT = [0.7, 0.2, 0.1]
SHELF = (
    Passage(id="hills", title="Rome", text="Rome has 7 hills."),
    Passage(id="river", text="The Tiber runs through Rome."),
    Passage(id="blank", text=" "),
    Passage(id="lyon", title="Lyon", text="Lyon is in France."),
)


class Counting:
    """A retriever over a few passages that remembers what it was asked."""

    name = "counting"

    def __init__(self, passages: Sequence[Passage] = SHELF, error: Exception | None = None, wait: float = 0.0) -> None:
        self.inner = MemoryRetriever(passages)
        self.error = error
        self.wait = wait
        self.queries: list[str] = []
        self.closed = 0

    async def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        self.queries += queries
        await asyncio.sleep(self.wait)
        if self.error is not None:
            raise self.error
        return await self.inner.search(queries, k)

    async def aclose(self) -> None:
        self.closed += 1


def check(
    answer: str,
    nli: Rules,
    *,
    retriever: Counting | None = None,
    chat: Rules | None = None,
    question: str | None = None,
    context: str | None = "Rome stands on hills.",
    policy: Any = None,
    **settings: Any,
) -> Report:
    with Corrigenda(
        llm=None if chat is None else ScriptedChat({"rules": chat}),
        nli=ScriptedEntailer({"rules": nli}),
        retriever=retriever,
        policy=policy,
        settings=Settings(**({"llm": "none", "decomposer": "deterministic"} | settings)),
    ) as c:
        return c.check_sync(answer, question=question, context=context)


FIVE = "Rome has 5 hills. Rome is old. Rome is in Italy. Rome is in Spain. I love Rome!"
FIVE_NLI: Rules = [
    {"hypothesis_contains": "old", "scores": NEUTRAL},
    {"hypothesis_contains": "Spain", "scores": CONTRADICT},
    {"hypothesis_contains": "Italy", "scores": ENTAIL},
    {"premise_contains": "7 hills", "hypothesis_contains": "5 hills", "scores": CONTRADICT},
    {"premise_contains": "Tiber", "hypothesis_contains": "5 hills", "scores": NEUTRAL},
    {"hypothesis_contains": "5 hills", "scores": WEAK_CONTRADICTION},
]

SUPPORTED_OUTSIDE: Rules = [
    {"premise_contains": "7 hills", "hypothesis_contains": "7 hills", "scores": ENTAIL},
    {"premise_contains": "stands", "hypothesis_contains": "7 hills", "scores": WEAK_CONTRADICTION},
    {"scores": NEUTRAL},
]
