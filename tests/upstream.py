"""A chat model that streams what a test tells it, piece by piece, and what leaves the pipeline meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from corrigenda.errors import Unreachable
from corrigenda.pipeline import Options, Tools
from corrigenda.policies import Bounded, Policy
from corrigenda.ports import ChatModel, Entailer
from corrigenda.releasing import DecisionMode, Release, ask_releasing
from corrigenda.types import (
    ChatRequest,
    Completion,
    Delta,
    Entailment,
    Pair,
    PairFailure,
    Passage,
    Reference,
    Report,
    Verdict,
)

Step = str | asyncio.Event | Exception
"""A piece of the answer; what is waited for before the next one; or how the stream breaks."""


class Upstream:
    """Streams `steps`; completes recall with `reference` and corrections with what `rewrite` makes of the sentence."""

    name = "upstream"

    def __init__(
        self,
        *steps: Step,
        reference: str = "The reference.",
        rewrite: Callable[[str], str] = lambda sentence: sentence,
        completion: Completion | None = None,
        recall_waits: asyncio.Event | None = None,
    ) -> None:
        self.steps = steps
        self.reference = reference
        self.rewrite = rewrite
        self.completion = completion
        self.recall_waits = recall_waits
        self.requests: list[ChatRequest] = []
        self.running = 0
        """Calls that have begun and not ended."""

    async def complete(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        self.running += 1
        try:
            await asyncio.sleep(0)
            if request.stage == "correct":
                sentence = request.messages[-1].content.partition("<sentence>\n")[2].partition("\n</sentence>")[0]
                return Completion(text=self.rewrite(sentence))
            if self.recall_waits is not None:
                await self.recall_waits.wait()
            return Completion(text=self.reference)
        finally:
            self.running -= 1

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        self.requests.append(request)
        self.running += 1
        said = ""
        try:
            for step in self.steps:
                await asyncio.sleep(0)
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, asyncio.Event):
                    await step.wait()
                else:
                    said += step
                    yield Delta(text=step)
            yield Delta(completion=self.completion or Completion(text=said))
        finally:
            self.running -= 1

    async def aclose(self) -> None:
        return None


class Verifier:
    """Scores each pair by `score`, which may raise; holds calls back until `opened`, if that is given."""

    name = "verifier"
    max_tokens = 10_000

    def __init__(self, score: Callable[[Pair], Sequence[float]], opened: asyncio.Event | None = None) -> None:
        self.score = score
        self.opened = opened
        self.calls: list[list[str]] = []

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        self.calls.append([pair.hypothesis for pair in pairs])
        await asyncio.sleep(0)
        if self.opened is not None:
            await self.opened.wait()
        found = [self.score(pair) for pair in pairs]
        return [Entailment(entailment=e, neutral=n, contradiction=c) for e, n, c in found]

    async def aclose(self) -> None:
        return None


def tools(chat: ChatModel | None, entailer: Entailer, policy: Policy | None = None, **more: Any) -> Tools:
    return Tools(chat=chat, entailer=entailer, policy=policy or Bounded(), **({"decomposer": "deterministic"} | more))


def releases(
    made: Tools, *, question: str = "How many hills has Rome?", decision: DecisionMode = "incremental", **more: Any
) -> AsyncGenerator[Release, None]:
    """Ask; `more` holds `request`, `references`, and whatever `Options` takes."""
    request: ChatRequest | None = more.pop("request", None)
    references: Sequence[Reference] | None = more.pop("references", None)
    options = Options(**({"language": "en"} | more))
    return ask_releasing(request, question, made, options, decision=decision, references=references)


async def taken(pieces: AsyncGenerator[Release, None]) -> list[Release]:
    async with aclosing(pieces):
        return [piece async for piece in pieces]


def released(made: Tools, **more: Any) -> list[Release]:
    """Return all the releases of one answer."""
    return asyncio.run(taken(releases(made, **more)))


def report_of(pieces: Sequence[Release]) -> Report:
    """Return the report of releases, after checking what holds for all of them."""
    assert [piece.report is None for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    report = pieces[-1].report
    assert report is not None
    assert "".join(piece.text for piece in pieces) == report.final_answer
    return report


async def settle() -> None:
    """Let everything run that can run without more being given."""
    for _ in range(200):
        await asyncio.sleep(0)


class Shelf:
    """Finds a passage for Lyon and one for Rome, and remembers what it was asked; breaks where it is told to."""

    name = "shelf"

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.queries: list[str] = []

    async def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        self.queries += queries
        await asyncio.sleep(0)
        if self.broken:
            raise Unreachable("no index")
        lyon, rome = Passage(id="l", text="Lyon is in France."), Passage(id="r", text="Rome has 7 hills.", title="Rome")
        return [[lyon, rome] if "Lyon" in query else [rome] for query in queries]

    async def aclose(self) -> None:
        return None


ENTAIL, NEUTRAL, CONTRADICT = (0.98, 0.01, 0.01), (0.01, 0.98, 0.01), (0.01, 0.01, 0.98)
DELTAS = ("Rome has ", "5 hi", "lls. It is", " in Italy.")


def hills(pair: Pair) -> Sequence[float]:
    return CONTRADICT if "5 hills" in pair.hypothesis else ENTAIL


def seven(sentence: str) -> str:
    return sentence.replace("5 hills", "seven hills")


def asked(*steps: Step, **more: Any) -> Upstream:
    return Upstream(*steps, rewrite=seven, **more)


def texts(pieces: Sequence[Release]) -> list[str]:
    return [piece.text for piece in pieces]


def left_by(report: Report) -> list[Verdict]:
    """Return the verdicts by which the claims left."""
    return [claim.released.verdict for claim in report.claims if claim.released is not None]
