"""Stage 5: one verdict per claim, from the scores of the whole answer. Pure: the rule itself is a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from corrigenda.policies import Decided, Policy
from corrigenda.stages.entail import ScoredClaim
from corrigenda.types import Claim, Evidence, Verdict

_REASONS: Mapping[Verdict, str] = {
    Verdict.SUPPORTED: "the reference entails it",
    Verdict.CONTRADICTED: "the reference contradicts it",
}


Explain = Callable[[Evidence, str], str | None]
"""Says in words why a window decides a claim, where more than the three probabilities is known."""


def decide(
    scored: Sequence[ScoredClaim], policy: Policy, explain: Explain | None = None
) -> tuple[tuple[Claim, ...], Decided]:
    """Return the report's claims, in order, and how they were decided.

    Only claims that were put to the verifier enter the decision: a claim that is not checkable keeps that
    verdict, one that there was nothing (or no time) to check against is `unverified`, and one whose check broke
    is `failed` and stays in the list.
    """
    judged = [s for s in scored if s.scores is not None or s.failure is not None]
    decided = policy.decide([s.signed for s in judged])
    verdicts = {id(s): verdict for s, verdict in zip(judged, decided.verdicts, strict=True)}
    return tuple(_claim(s, verdicts.get(id(s)), explain) for s in scored), decided


def _claim(scored: ScoredClaim, verdict: Verdict | None, explain: Explain | None) -> Claim:
    claim = scored.claim
    if verdict is None:
        verdict = Verdict.UNVERIFIED if claim.checkable else Verdict.NOT_CHECKABLE
    return Claim(
        text=claim.text,
        span=claim.span,
        sentence=claim.sentence,
        verdict=verdict,
        reason=scored.failure or scored.reason if scored.scores is None else _reason(scored, verdict, explain),
        scores=scored.scores,
        signed=scored.signed,
        evidence=scored.evidence,
        counter_evidence=scored.counter_evidence,
    )


def _reason(scored: ScoredClaim, verdict: Verdict, explain: Explain | None) -> str:
    assert scored.scores is not None
    assert scored.evidence is not None
    special = explain(scored.evidence, scored.claim.text) if explain is not None else None
    if verdict is Verdict.UNVERIFIED:
        if scored.scores.label == "neutral":
            base = "the reference neither entails nor contradicts it"
        else:
            base = f"{scored.scores.label} of {abs(scored.scores.signed):.3f} does not reach the threshold"
    else:
        base = _REASONS[verdict]
    extra = [text for text in (special, scored.reason) if text]
    return f"{base} ({'; '.join(extra)})" if extra else base
