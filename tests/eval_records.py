"""Records of an evaluation, written tersely, for the tests of what is computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from corrigenda.evals.records import Call, Judgement, PairCalls, Record
from corrigenda.methods.protocol import Judged, Outcome
from corrigenda.types import Claim, Entailment, Evidence, Reference, Report, Span, Status, Verdict

S, C, U, N, F = (
    Verdict.SUPPORTED,
    Verdict.CONTRADICTED,
    Verdict.UNVERIFIED,
    Verdict.NOT_CHECKABLE,
    Verdict.FAILED,
)


def near(value: Any) -> Any:
    """`pytest.approx` as a value of any type, so that it may stand in a record."""
    return pytest.approx(value)


def judged(correct: bool | None, *, abstained: bool = False) -> Judgement:
    return Judgement(correct=correct, reason="as the test says", abstained=abstained)


def call(stage: str = "generate", seconds: float = 1.0, tokens: tuple[int, int] | None = (10, 5), **more: Any) -> Call:
    prompt, completion = tokens or (None, None)
    return Call(stage=stage, seconds=seconds, prompt_tokens=prompt, completion_tokens=completion, **more)


def verdict(said: Verdict, score: float | None = None, *, sentence: int | None = 0, text: str = "A claim.") -> Judged:
    return Judged(text=text, verdict=said, score=score, sentence=sentence)


def outcome(*verdicts: Judged, flagged: bool | None = None, answer: str = "A.", final: str | None = None) -> Outcome:
    """An outcome flagged by its verdicts, unless the test says otherwise; its score is their highest."""
    if flagged is None and verdicts:
        flagged = any(v.verdict is C for v in verdicts)
    scores = [v.score for v in verdicts if v.score is not None]
    return Outcome(
        answer=answer,
        final_answer=answer if final is None else final,
        verdicts=verdicts,
        flagged=flagged,
        score=max(scores, default=None),
    )


def record(item: object, method: str = "m", *, made: Outcome | None = None, **more: Any) -> Record:
    """A record that is ok when it has an outcome (`made`), failed when it has none."""
    fields: dict[str, Any] = {
        "dataset": "d",
        "kind": "claim",
        "group": "",
        "repeat": 0,
        "seed": 0,
        "status": "failed" if made is None else "ok",
        "reason": "it broke" if made is None else None,
        "pairs": PairCalls(),
    }
    return Record(item=str(item), method=method, outcome=made, **(fields | more))


def claim(item: object, label: Verdict, said: Verdict | None, score: float | None = None, **more: Any) -> Record:
    """A record of one claim with its gold label and the method's verdict; None: the item failed."""
    return record(item, label=label, made=None if said is None else outcome(verdict(said, score)), **more)


def question(
    item: object,
    before: bool | None,
    after: bool | None,
    *,
    flagged: bool | None = None,
    changed: bool | None = None,
    **more: Any,
) -> Record:
    """A record of one question, judged before and after; changed where the two differ, unless the test says."""
    changed = before != after if changed is None else changed
    made = outcome(flagged=flagged, final="B." if changed else None)
    return record(item, kind="question", made=made, before=judged(before), after=judged(after), **more)


def scored(signed: float | None, text: str = "A claim.", *, said: Verdict = U, sentence: int = 0) -> Claim:
    """A claim of a report with this signed score; None: its check failed."""
    if signed is None:
        return Claim(text=text, span=None, sentence=sentence, verdict=F, reason="the check broke")
    scores = Entailment(entailment=max(0.0, signed), neutral=1 - abs(signed), contradiction=max(0.0, -signed))
    return Claim(text=text, span=None, sentence=sentence, verdict=said, scores=scores, signed=signed)


def report(*claims: Claim, answer: str = "A.", reference: str = "", final: str | None = None) -> Report:
    return Report(
        question=None,
        answer=answer,
        final_answer=answer if final is None else final,
        status=Status.UNVERIFIED,
        claims=claims,
        references=(Reference(text=reference, source="recall"),) if reference else (),
    )


def reported(*claims: Claim, **more: Any) -> Outcome:
    """An outcome with a report, as the pipeline's methods give it."""
    made = report(*claims, **more)
    verdicts = tuple(
        Judged(
            text=c.text,
            verdict=c.verdict,
            score=None if c.scores is None else c.scores.contradiction,
            signed=c.signed,
            sentence=c.sentence,
        )
        for c in claims
    )
    return Outcome(
        answer=made.answer,
        final_answer=made.final_answer,
        verdicts=verdicts,
        flagged=any(v.verdict is C for v in verdicts),
        report=made,
    )


def evidence(text: str, scores: Sequence[float] = (0.1, 0.8, 0.1)) -> Evidence:
    entailment, neutral, contradiction = scores
    return Evidence(
        reference=0,
        span=Span(0, len(text)),
        text=text,
        scores=Entailment(entailment=entailment, neutral=neutral, contradiction=contradiction),
    )
