"""What the tests of the methods share: a kit over scripted models, and running a method on it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.methods import make
from corrigenda.methods.protocol import Kit, Outcome, Task
from corrigenda.prompts import load
from corrigenda.types import Passage, Reference, Verdict
from tests.scripted import FIVE_HILLS, Rules

QUESTION = "How many hills has Rome?"


class Passages:
    """A Retriever that finds the same passages, whatever is searched for; `queries` holds what was."""

    name = "passages"

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.queries: list[str] = []

    async def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        self.queries += queries
        found = [Passage(id=str(i), text=text, title=f"Passage {i}") for i, text in enumerate(self.texts)]
        return [found[:k] for _ in queries]

    async def aclose(self) -> None:
        return


def kit_of(chat: Rules | None, nli: Any = FIVE_HILLS, **settings: Any) -> Kit:
    """Return a kit: rules make scripted models; claims are made by rule and the seed is 1 unless the test says so."""
    defaults: dict[str, Any] = {"decomposer": "deterministic", "seed": 1, "prompts": load("en")}
    return Kit(
        chat=None if chat is None else ScriptedChat({"rules": chat}),
        entailer=ScriptedEntailer({"rules": nli} if isinstance(nli, list) else nli),
        **(defaults | settings),
    )


def do(method: str, task: Task, kit: Kit, **options: Any) -> Outcome:
    """Run a method on a task."""
    return asyncio.run(make(method, options).run(task, kit))


def requests_of(kit: Kit, stage: str | None = None) -> list[Any]:
    """Return the requests that the scripted chat model got, of one stage or of all."""
    assert isinstance(kit.chat, ScriptedChat)
    return [r for r in kit.chat.requests if stage is None or r.stage == stage]


def pairs_of(kit: Kit) -> list[tuple[str, str]]:
    """Return the pairs that the scripted verifier got, in order, as (premise, hypothesis)."""
    assert isinstance(kit.entailer, ScriptedEntailer)
    return [(pair.premise, pair.hypothesis) for call in kit.entailer.calls for pair in call]


def contexts(*texts: str) -> tuple[Reference, ...]:
    return tuple(Reference(text=text, source="context") for text in texts)


def said(outcome: Outcome) -> list[tuple[str, Verdict]]:
    """Return the texts that were judged, each with its verdict."""
    return [(judged.text, judged.verdict) for judged in outcome.verdicts]
