"""Scripted models for the tests of the whole pipeline, and what they say."""

from __future__ import annotations

from typing import Any

from corrigenda import Corrigenda, Report, Settings, Verdict
from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_scripted import ScriptedEntailer

ENTAIL, NEUTRAL, CONTRADICT = [0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [0.01, 0.01, 0.98]
Rules = list[dict[str, Any]]
FIVE_HILLS: Rules = [{"hypothesis_contains": "5 hills", "scores": CONTRADICT}, {"scores": ENTAIL}]
REWRITE: dict[str, Any] = {"stage": "correct", "reply": "Rome has seven hills."}
S, C, U, N, F = (
    Verdict.SUPPORTED,
    Verdict.CONTRADICTED,
    Verdict.UNVERIFIED,
    Verdict.NOT_CHECKABLE,
    Verdict.FAILED,
)


def make(chat: list[dict[str, Any]] | None, nli: list[dict[str, Any]] = FIVE_HILLS, **settings: Any) -> Corrigenda:
    """Return the pipeline over scripted models, with deterministic claims unless the test says otherwise."""
    base = Settings(**({"llm": "none", "decomposer": "deterministic"} | settings))
    return Corrigenda(
        llm=None if chat is None else ScriptedChat({"rules": chat}),
        nli=ScriptedEntailer({"rules": nli}),
        settings=base,
    )


def check(answer: str, *, chat: list[dict[str, Any]] | None = None, **more: Any) -> Report:
    call: dict[str, Any] = {key: more.pop(key) for key in ("question", "context") if key in more}
    with make(chat, **more) as c:
        return c.check_sync(answer, **({"context": "Rome stands on seven hills."} | call))


def verdicts(report: Report) -> list[Verdict]:
    return [claim.verdict for claim in report.claims]


ANSWER = "Rome has 5 hills. It is in Italy."
ASKED: Rules = [
    {"stage": "generate", "reply": ANSWER, "usage": {"prompt_tokens": 20, "completion_tokens": 10}},
    {"stage": "recall", "reply": "Rome stands on seven hills.", "usage": {"prompt_tokens": 30, "completion_tokens": 7}},
    REWRITE,
]
