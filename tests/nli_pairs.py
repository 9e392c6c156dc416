"""For the tests of the chat verifier: pairs and their scores in short, a scorer of labels, and calibrations."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from corrigenda.backends.nli_chat_scheme import SecondLook, parse_calibrations
from corrigenda.types import ChatRequest, Entailment, Pair, PairFailure

EMBEDDED = "local:qwen2.5-coder-1.5b-instruct"

SCHEME_DATA: dict[str, Any] = {
    "system": "One word.",
    "turn": "Text: {premise}\nStatement: {hypothesis}",
    "answers": {"entailment": ["True", "true"], "neutral": ["Unknown"], "contradiction": ["False"]},
    "examples": [["A cat sleeps.", "An animal sleeps.", "entailment"]],
}
SECOND_DATA: dict[str, Any] = {
    "system": "Look again.",
    "turn": 'Read """{premise}""". Then """{hypothesis}"""?',
    "answers": {"entailment": ["Yes"], "neutral": ["Maybe"], "contradiction": ["No"]},
    "examples": [],
}
LOOK = {"direction": 1, "known": 1, "strength": 0}
CONSTANTS = {"bias": 0, "agree": 1, "differ": 1, "looks": [LOOK]}
MODEL_DATA: dict[str, Any] = {
    "model": "local:tiny",
    "sha256": "ab" * 32,
    "scheme": "s",
    "constants": CONSTANTS,
    "fitted_on": None,
    "measured": [],
}
TWICE_DATA: dict[str, Any] = MODEL_DATA | {
    "second": {"scheme": "t", "constants": CONSTANTS | {"looks": [LOOK, LOOK]}, "below": 0.8}
}
SCHEMES_DATA = {"s": SCHEME_DATA, "t": SECOND_DATA}
PLAIN, TWICE = parse_calibrations({"schemes": SCHEMES_DATA, "models": [MODEL_DATA, TWICE_DATA]})
"""One look; and a second one where the first gives no class 0.8. Both change nothing in what the model says."""


def second_look() -> SecondLook:
    """Return the second look of TWICE."""
    assert TWICE.second is not None
    return replace(TWICE.second)


def pair(premise: str, hypothesis: str) -> Pair:
    return Pair(premise=premise, hypothesis=hypothesis)


def write_pairs(path: Path, rows: Sequence[tuple[str, object, str]]) -> Path:
    """Write claims, evidence and labels as the JSONL file that `calibrate-nli --data` reads."""
    lines = [json.dumps({"claim": claim, "evidence": evidence, "label": label}) for claim, evidence, label in rows]
    path.write_text("\n".join(lines) + "\n\n")
    return path


def numbers(result: Entailment | PairFailure) -> tuple[float, float, float]:
    assert isinstance(result, Entailment), result
    return result.entailment, result.neutral, result.contradiction


def logs(*probabilities: float) -> tuple[float, ...]:
    return tuple(math.log(p) if p else -math.inf for p in probabilities)


LogProbs = tuple[float, ...] | Exception
Rule = Callable[[str], LogProbs]


class Labels:
    """A LabelScorer that answers by a function of the last turn and keeps what it was asked."""

    name = "local:tiny"

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.requests: list[ChatRequest] = []
        self.labels: list[tuple[str, ...]] = []
        self.under_way = 0
        self.most_under_way = 0

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        self.requests.append(request)
        self.labels.append(tuple(labels))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        answer = self.rule(request.messages[-1].content)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    @property
    def asked(self) -> list[str]:
        return [request.messages[-1].content for request in self.requests]
