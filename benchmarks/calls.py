"""Calls and tokens of the chat model per answer: `corrigenda` and four published methods on the same answers.

    python -m benchmarks.calls

The models are scripted: each says what the method needs to do its work to the end, and every request and reply is
counted. A token is a word or a mark, as `corrigenda.backends.chat_scripted.pieces` cuts them; prompts count in full.
Nothing is computed by a model, so this says what a method costs, and nothing about how well it does.

An answer has 4 or 17 sentences, of which none, one or three are wrong. Each method runs as its paper has it, as far as
`docs/methods.md` says: 20 samples for `selfcheckgpt`, and its own defaults for the others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.measured import Result, command, goal, table

from corrigenda.backends.chat_scripted import ScriptedChat, pieces
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.backends.retrieve_memory import MemoryRetriever
from corrigenda.bench.latency import QUESTION, REFERENCE, SPLITS, answer_of
from corrigenda.methods import make
from corrigenda.methods.protocol import Kit, Outcome, Task
from corrigenda.prompts import load
from corrigenda.sentences import split_sentences
from corrigenda.types import ChatRequest, Completion, Delta, Passage

GOAL_CALLS = 3
"""Calls of `corrigenda` per answer, without one for each sentence that is corrected."""
WRONG: Mapping[str, str] = {
    "founded it in 1070": "founded it in 1570",
    "between seven mountains": "between twelve mountains",
    "is a large port city": "is a small port city",
}
"""What is said rightly, and how the wrong answers say it; all three are in the short answer."""
SYSTEMS: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "corrigenda": ("corrigenda", {}, "auto"),
    "corrigenda, claims by rule": ("corrigenda", {}, "deterministic"),
    "selfcheckgpt, N = 20": ("selfcheckgpt", {"n": 20}, "auto"),
    "factscore": ("factscore", {}, "auto"),
    "cove": ("cove", {}, "auto"),
    "self-refine": ("self-refine", {}, "auto"),
}
"""Name in the table → method, its options, and what splits the answer into claims."""
CORRECTING = ("corrigenda", "cove", "self-refine")


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """An answer as the model gives it, and as it would be right."""

    right: str
    wrong: int
    """How many of its sentences are wrong."""

    @property
    def answer(self) -> str:
        """The answer that is examined."""
        text = self.right
        for said, instead in list(WRONG.items())[: self.wrong]:
            text = text.replace(said, instead)
        return text


CASES = tuple(Case(right=answer_of(tokens), wrong=wrong) for tokens in (42, 200) for wrong in (0, 1, 3))


class Counting:
    """A chat model that notes what each request and its reply come to; see `corrigenda.ports.ChatModel`."""

    def __init__(self, inner: ScriptedChat) -> None:
        """Wrap a scripted model."""
        self._inner = inner
        self.calls: Counter[str] = Counter()
        self.prompt_tokens = 0
        self.completion_tokens = 0

    @property
    def name(self) -> str:
        """The wrapped model's name."""
        return self._inner.name

    async def complete(self, request: ChatRequest) -> Completion:
        """Count the request and the reply."""
        self._asked(request)
        completion = await self._inner.complete(request)
        self.completion_tokens += len(pieces(completion.text))
        return completion

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        """Count the request, and the reply at its end."""
        self._asked(request)
        async for delta in self._inner.stream(request):
            if delta.completion is not None:
                self.completion_tokens += len(pieces(delta.completion.text))
            yield delta

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        """Count the request and one token: a label is read off the first one."""
        self._asked(request)
        self.completion_tokens += 1
        return await self._inner.label_logprobs(request, labels)

    def count_tokens(self, text: str) -> int:
        """Return the number of pieces in `text`."""
        return self._inner.count_tokens(text)

    async def aclose(self) -> None:
        """Do nothing; there is nothing to free."""

    def _asked(self, request: ChatRequest) -> None:
        self.calls[request.stage] += 1
        self.prompt_tokens += sum(len(pieces(message.content)) for message in request.messages)


def chat_rules(case: Case) -> list[dict[str, Any]]:
    """Return what the chat model says in each stage of each method."""
    sentences = [s.text for s in split_sentences(case.answer, "en")]
    right = [s.text for s in split_sentences(case.right, "en")]
    changed = [(was, better) for was, better in zip(sentences, right, strict=True) if was != better]
    rules: list[dict[str, Any]] = [
        {"stage": "generate", "reply": case.answer},
        {"stage": "recall", "reply": REFERENCE},
        {"stage": "sample", "reply": case.right},
        *(
            {"stage": "decompose", "contains": s, "reply": json.dumps({"claims": list(SPLITS.get(s, ()))})}
            for s in sentences
        ),
        *({"stage": "correct", "contains": f"<sentence>\n{was}\n", "reply": better} for was, better in changed),
        *(
            {"stage": "verify", "contains": f"<fact>\n{_fact(was)}", "logprobs": {"True": -4.6, "False": -0.01}}
            for was, _ in changed
        ),
        {"stage": "verify", "contains": "<fact>", "logprobs": {"True": -0.01, "False": -4.6}},
        {"stage": "plan", "reply": json.dumps({"questions": [_question(i, s) for i, s in enumerate(sentences, 1)]})},
        {"stage": "verify", "reply": "It lies on the west coast of Norway, and it was founded in 1070."},
        *({"stage": "compare", "contains": f"<sentence>\n{was}\n", "reply": "INCONSISTENT"} for was, _ in changed),
        {"stage": "compare", "reply": "CONSISTENT"},
        {"stage": "revise", "reply": case.right},
    ]
    if changed:
        told = " ".join(f"It is wrong that {was}" for was, _ in changed)
        rules.append({"stage": "feedback", "reply": told, "times": 1})
    return [*rules, {"stage": "feedback", "reply": "NOTHING TO FIX"}, {"stage": "refine", "reply": case.right}]


def _fact(sentence: str) -> str:
    """Return how the claim of a wrong sentence begins: none of them is split."""
    return sentence.rstrip(".")[:20]


def _question(number: int, sentence: str) -> dict[str, Any]:
    words = sentence.rstrip(".").split()
    return {"sentence": number, "question": f"Is it known to be true that {' '.join(reversed(words))}?"}


def nli_rules(case: Case) -> list[dict[str, Any]]:
    """Return what the verifier says: what is wrong is contradicted, the rest entailed."""
    wrong = list(WRONG.values())[: case.wrong]
    return [
        *({"hypothesis_contains": text, "scores": [0.01, 0.01, 0.98]} for text in wrong),
        {"scores": [0.98, 0.01, 0.01]},
    ]


async def measured(system: str, case: Case) -> Result:
    """Run a method on a case, and return what it took. Raises SystemExit when it did not do its work to the end."""
    method, options, decomposer = SYSTEMS[system]
    chat = Counting(ScriptedChat({"rules": chat_rules(case)}))
    entailer = ScriptedEntailer({"rules": nli_rules(case)})
    passages = [Passage(id=str(i), text=s.text) for i, s in enumerate(split_sentences(case.right, "en"))]
    kit = Kit(
        chat=chat,
        entailer=entailer,
        prompts=load("en"),
        retriever=MemoryRetriever(passages),
        seed=1,
        decomposer=decomposer,
    )
    outcome = await make(method, options).run(Task(question=QUESTION), kit)
    _check(system, case, outcome)
    return {
        "calls": dict(chat.calls),
        "prompt_tokens": chat.prompt_tokens,
        "completion_tokens": chat.completion_tokens,
        "pairs": sum(len(call) for call in entailer.calls),
    }


def _check(system: str, case: Case, outcome: Outcome) -> None:
    final = case.right if SYSTEMS[system][0] in CORRECTING else case.answer
    if outcome.flagged != (case.wrong > 0) or outcome.final_answer != final:
        raise SystemExit(
            f"{system} on an answer with {case.wrong} wrong sentences did not end as its script has it: "
            f"flagged {outcome.flagged}, {outcome.final_answer!r}, {outcome.warnings!r}, "
            f"{[judged.reason for judged in outcome.verdicts]!r}"
        )


def run(arguments: argparse.Namespace) -> Result:
    """Run every method on every case."""
    del arguments
    return {
        "cases": [
            {
                "sentences": len(split_sentences(case.answer, "en")),
                "tokens": len(pieces(case.answer)),
                "wrong": case.wrong,
                "systems": {system: asyncio.run(measured(system, case)) for system in SYSTEMS},
            }
            for case in CASES
        ]
    }


def tables(result: Mapping[str, Any]) -> str:
    """Return a table for each case, and whether the goal was reached."""
    parts = []
    for case in result["cases"]:
        own = case["systems"]["corrigenda"]
        rows = [
            [
                f"`{name}`" if "," not in name else f"`{name.partition(',')[0]}`,{name.partition(',')[2]}",
                str(_calls(found)),
                f"{_calls(found) / _calls(own):.2f}",
                f"{found['prompt_tokens']:,}",
                f"{found['completion_tokens']:,}",
                f"{_tokens(found) / _tokens(own):.2f}",
                str(found["pairs"]),
            ]
            for name, found in case["systems"].items()
        ]
        head = ("method", "calls", "× corrigenda", "prompt tokens", "reply tokens", "× corrigenda", "pairs scored")
        wrong = {0: "none is wrong", 1: "one is wrong"}.get(case["wrong"], f"{case['wrong']} are wrong")
        parts += [f"**{case['sentences']} sentences ({case['tokens']} tokens), {wrong}**", table(head, rows)]
    return "\n\n".join([*parts, *_goals(result)])


def _goals(result: Mapping[str, Any]) -> list[str]:
    lines = []
    for name in (name for name, (method, _, _) in SYSTEMS.items() if method == "corrigenda"):
        over = [
            f"{case['sentences']} sentences, {case['wrong']} wrong: {_calls(found)}"
            for case in result["cases"]
            for found in (case["systems"][name],)
            if _calls(found) > GOAL_CALLS + case["wrong"]
        ]
        what = f"{name}: at most {GOAL_CALLS} calls and one for each sentence corrected"
        lines.append(goal(not over, f"{what} (over it: {'; '.join(over)})" if over else what))
    return lines


def _calls(found: Mapping[str, Any]) -> int:
    return sum(found["calls"].values())


def _tokens(found: Mapping[str, Any]) -> int:
    return int(found["prompt_tokens"] + found["completion_tokens"])


def _flags(parser: argparse.ArgumentParser) -> None:
    """Add nothing: there is nothing to choose."""
    del parser


main = command("calls", __doc__, _flags, run, tables)

if __name__ == "__main__":
    raise SystemExit(main())
