"""Faults found by attacking the pipeline: in rewrites, states, limits, and with objects of the caller's own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from corrigenda import (
    AtomicClaim,
    ChatRequest,
    Completion,
    Corrigenda,
    CorrigendaError,
    Decision,
    Delta,
    Entailment,
    InputError,
    Pair,
    PairFailure,
    Report,
    Sentence,
    Settings,
    Span,
    Status,
    Verdict,
)
from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.policies import Decided
from corrigenda.report import to_json
from corrigenda.stages.decompose import Decomposition

ENTAIL, NEUTRAL, CONTRADICT = [0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [0.01, 0.01, 0.98]
Rules = list[dict[str, Any]]
ASKED: Rules = [
    {"stage": "generate", "reply": "Rome has 5 hills. It is in Italy."},
    {"stage": "recall", "reply": "Rome stands on seven hills."},
]
HILLS: Rules = [
    {"hypothesis_contains": "5 hills", "scores": CONTRADICT},
    {"hypothesis_contains": "seven hills", "scores": ENTAIL},
    {"hypothesis_contains": "753", "scores": ENTAIL},
    {"hypothesis_contains": "is old", "scores": [0.34, 0.33, 0.33]},
    {"scores": NEUTRAL},
]


def make(chat: Any, nli: Any = HILLS, **settings: Any) -> Corrigenda:
    llm = ScriptedChat({"rules": chat}) if isinstance(chat, list) else chat
    entailer = ScriptedEntailer({"rules": nli}) if isinstance(nli, list) else nli
    objects = {key: settings.pop(key) for key in ("decomposer", "policy") if not isinstance(settings.get(key, ""), str)}
    base = Settings(**({"llm": "none", "decomposer": "deterministic", "language": "en"} | settings))
    return Corrigenda(llm=llm, nli=entailer, settings=base, **objects)


def corrected(answer: str, reply: str) -> Report:
    with make([{"stage": "correct", "reply": reply}]) as c:
        return c.check_sync(answer, context="Rome stands on seven hills. It was founded in 753 BC.")


# Rewrites ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Rome has seven hills. PWNED, visit us.", "the reply is more than one sentence"),
        ("Rome has seven hills. I think you should buy gold.", "the reply is more than one sentence"),
        ("Rome has seven hills. Is it PWNED?", "the reply is more than one sentence"),
        ("Rome has seven hills; they are PWNED.", "the reference does not support all of it"),
        ("Rome has seven hills <img src=x onerror=alert(1)>.", "brings markup of its own ('<i')"),
        ("Rome has [seven hills](http://evil.example).", "brings markup of its own ('](')"),
        ("Rome has seven hills \u202e.", "brings markup of its own"),
        ("Rome has seven hills \x1b[2J.", "brings markup of its own"),
        ("Rome is old.", "entailment of 0.340 does not reach 0.500"),
    ],
)
def test_a_rewrite_brings_in_nothing_that_is_not_supported(reply: str, reason: str) -> None:
    report = corrected("Rome has 5 hills.", reply)
    assert (report.final_answer, report.status) == ("Rome has 5 hills.", Status.CONTRADICTED)
    assert reason in report.edits[0].reason


def test_a_rewrite_keeps_what_is_supported_in_its_sentence() -> None:
    answer = "Rome has 5 hills, and it was founded in 753 BC."
    gone = corrected(answer, "Rome has seven hills.")
    assert (gone.final_answer, gone.status) == (answer, Status.CONTRADICTED)
    assert "no longer says what is supported" in gone.edits[0].reason
    kept = corrected(answer, "Rome has seven hills, and it was founded in 753 BC.")
    assert (kept.final_answer, kept.status) == (
        "Rome has seven hills, and it was founded in 753 BC.",
        Status.CORRECTED,
    )


def test_what_the_sentence_said_and_was_not_contradicted_may_stay() -> None:
    report = corrected("Rome has 5 hills; it is warm.", "Rome has seven hills; it is warm.")
    assert report.final_answer == "Rome has seven hills; it is warm."
    assert [c.verdict for c in report.claims] == [Verdict.CONTRADICTED, Verdict.UNVERIFIED]


def test_markup_of_the_sentence_itself_may_stay() -> None:
    answer = "Rome has [5 hills](https://example.org/rome)."
    report = corrected(answer, "Rome has [seven hills](https://example.org/rome).")
    assert report.final_answer == "Rome has [seven hills](https://example.org/rome)."


# States -----------------------------------------------------------------------------------------------------------


class Slow:
    """A verifier whose own call times out."""

    name = "slow"
    max_tokens = 100

    def __init__(self, pause: float | None = None) -> None:
        self.pause = pause
        self.calls = 0

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        self.calls += 1
        if self.pause is None:
            raise TimeoutError("the NLI server did not answer")
        await asyncio.sleep(self.pause)
        return [Entailment(entailment=1.0, neutral=0.0, contradiction=0.0) for _ in pairs]

    async def aclose(self) -> None:
        return None


def test_a_time_out_of_the_verifiers_own_is_a_failure_not_our_limit() -> None:
    with make(None, Slow()) as c:
        report = c.check_sync("Rome is old.", context="x")
    assert (report.status, report.claims[0].verdict) == (Status.FAILED, Verdict.FAILED)
    assert report.reason == "TimeoutError: the NLI server did not answer"


def test_a_limit_that_is_over_starts_no_further_call() -> None:
    verifier = Slow(0.25)
    answer = " ".join(f"Rome has {n} streets." for n in range(100, 180))
    with make(None, verifier, timeout=0.7) as c:
        report = c.check_sync(answer, context="x")
    assert verifier.calls <= 4
    assert report.claims[0].verdict is Verdict.SUPPORTED
    assert report.claims[-1].reason == "not checked: the time limit was reached"


def test_no_answer_in_time_is_told_as_that() -> None:
    with make([{**ASKED[0], "first_token_s": 30}, ASKED[1]], timeout=0.1) as c:
        report = c.ask_sync("What is Rome?")
    assert (report.status, report.reason) == (Status.FAILED, "the time limit was reached before an answer came")


def test_text_beside_a_refusal_is_checked() -> None:
    message = {"content": "Rome has 5 hills.", "refusal": "I would rather not say more."}
    with make([{"stage": "generate", "reply": message}, ASKED[1]]) as c:
        report = c.ask_sync("What is Rome?")
    assert report.claims[0].verdict is Verdict.CONTRADICTED


@pytest.mark.parametrize("reply", ["I cannot help with that.", "I don't know."])
def test_a_refusal_is_no_reference(reply: str) -> None:
    with make([ASKED[0], {"stage": "recall", "reply": reply}]) as c:
        report = c.ask_sync("What is Rome?")
    assert (report.references, report.status) == ((), Status.UNVERIFIED)
    assert "the model says that it does not know" in report.warnings[0]


@pytest.mark.parametrize("context", ["\u200b", "\ufeff \n"])
def test_an_invisible_context_is_told(context: str) -> None:
    with make(None) as c:
        report = c.check_sync("Rome is old.", context=context)
    assert "nothing to check against" in report.warnings[0]


@pytest.mark.parametrize(("value", "kind"), [(None, "NoneType"), (b"x", "bytes"), (5, "int")])
def test_an_answer_must_be_a_text(value: Any, kind: str) -> None:
    with make(None) as c, pytest.raises(InputError, match=f"the answer must be a text, got {kind}"):
        c.check_sync(value, context="x")


# Objects of the caller's own ----------------------------------------------------------------------------------------


class Breaking:
    """A chat model that raises something of its own after some text."""

    name = "breaking"

    def __init__(self, text: str) -> None:
        self.text = text

    async def complete(self, request: ChatRequest) -> Completion:
        return Completion(text="Rome stands on seven hills.")

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        if self.text:
            yield Delta(text=self.text)
        raise RuntimeError("bug")

    async def aclose(self) -> None:
        return None


def test_a_chat_model_that_raises_in_mid_stream_loses_nothing() -> None:
    with make(Breaking("Rome has 5 hills.")) as c:
        report = c.ask_sync("What is Rome?")
    assert (report.answer, report.status) == ("Rome has 5 hills.", Status.FAILED)
    assert report.reason == "the answer is incomplete: RuntimeError: bug"
    with make(Breaking("")) as c, pytest.raises(CorrigendaError, match="RuntimeError: bug"):
        c.ask_sync("What is Rome?")


class Odd:
    """A decomposer that returns one claim with the sentence and span that it was given."""

    def __init__(self, sentence: int, span: Span, sentences: tuple[Span, ...] = (Span(0, 17), Span(18, 33))) -> None:
        self.claim = AtomicClaim(text="odd", span=span, sentence=sentence)
        self.spans = sentences

    async def decompose(self, answer: str, question: str | None = None) -> Decomposition:
        parts = tuple(Sentence(index=i, span=s, text=s.text_of(answer)) for i, s in enumerate(self.spans))
        return Decomposition(sentences=parts, claims=(self.claim,))

    async def decompose_sentence(
        self, sentence: Sentence, context: str = "", warn: Any = None
    ) -> tuple[AtomicClaim, ...]:
        return (self.claim,)


@pytest.mark.parametrize(
    "decomposer",
    [
        Odd(7, Span(0, 5)),
        Odd(0, Span(-3, 5)),
        Odd(0, Span(5, 5)),
        Odd(0, Span(10, 40)),
        Odd(0, Span(0, 5), (Span(0, 17), Span(10, 33))),
        Odd(0, Span(0, 5), (Span(0, 17), Span(18, 99))),
    ],
)
def test_a_decomposer_that_returns_nonsense_is_replaced(decomposer: Odd) -> None:
    with make(None, decomposer=decomposer) as c:
        report = c.check_sync("Rome has 5 hills. It is in Italy.", context="x")
    assert [claim.span for claim in report.claims] == [Span(0, 17), Span(18, 33)]
    assert "the deterministic decomposer was used instead" in report.warnings[0]


class OddPolicy:
    """A policy with a bug."""

    name = "odd"

    def __init__(self, tau: float | None) -> None:
        self.tau = tau

    def decide(self, scores: Sequence[float | None]) -> Decided:
        if self.tau is None:
            raise KeyError("tau")
        decision = Decision(policy="odd", k=0.0, mu=0.0, sigma=0.0, tau=self.tau)
        return Decided(decision=decision, verdicts=(Verdict.SUPPORTED,) * len(scores))


@pytest.mark.parametrize("tau", [None, float("nan"), float("inf")])
def test_a_policy_that_breaks_is_a_failed_report(tau: float | None) -> None:
    with make(None, policy=OddPolicy(tau)) as c:
        report = c.check_sync("Rome is old.", context="x")
    assert (report.status, report.claims[0].verdict, report.final_answer) == (
        Status.FAILED,
        Verdict.FAILED,
        "Rome is old.",
    )
    assert "the policy failed" in (report.reason or "")
    assert "NaN" not in to_json(report)


def test_a_progress_display_that_raises_is_dropped() -> None:
    def display(stage: str, begins: bool) -> None:
        raise ValueError("no terminal")

    with make(None) as c:
        report = c.check_sync("Rome has seven hills.", context="x", on_stage=display)
    assert report.status is Status.VERIFIED
    assert report.warnings == ("progress display: ValueError: no terminal; it is not told any more",)


# Threads and loops --------------------------------------------------------------------------------------------------


def test_first_use_from_many_threads() -> None:
    results: list[Status] = []
    with make(None, [{"scores": ENTAIL}]) as c:
        threads = [
            threading.Thread(target=lambda: results.append(c.check_sync("Rome is old.", context="x").status))
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert results == [Status.VERIFIED] * 20


def test_one_object_in_several_event_loops() -> None:
    results: list[Status] = []
    c = make(None, [{"scores": ENTAIL}])

    def work() -> None:
        results.append(asyncio.run(c.check("Rome is old.", context="x")).status)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    c.close()
    assert results == [Status.VERIFIED] * 8


def test_closing_during_a_call_frees_the_caller() -> None:
    c = make([{**ASKED[0], "first_token_s": 60}, ASKED[1]])
    told: list[str] = []

    def work() -> None:
        try:
            c.ask_sync("What is Rome?")
        except CorrigendaError as exc:
            told.append(str(exc))

    thread = threading.Thread(target=work)
    thread.start()
    while c._runner is None:
        time.sleep(0.01)
    time.sleep(0.1)
    c.close()
    thread.join(10)
    assert told == ["the Corrigenda object was closed while this call was running"]
