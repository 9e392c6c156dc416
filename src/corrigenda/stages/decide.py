"""Stage 5: one verdict per claim, from the scores of the whole answer. Pure: the rule itself is a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from corrigenda.policies import TOLERANCE, Decided, Fixed, Policy
from corrigenda.stages.entail import ScoredClaim
from corrigenda.types import Claim, Decision, Entailment, Evidence, Verdict

_REASONS: Mapping[Verdict, str] = {
    Verdict.SUPPORTED: "entails it",
    Verdict.CONTRADICTED: "contradicts it",
}
REFERENCE = "the reference"
PASSAGE = "a retrieved passage"


Explain = Callable[[Evidence, str], str | None]
"""Says in words why a window decides a claim, where more than the three probabilities is known."""


def decide(
    scored: Sequence[ScoredClaim], policy: Policy, explain: Explain | None = None, since: int = 0
) -> tuple[tuple[Claim, ...], Decided]:
    """Return the report's claims, in order, from index `since` on, and how they were decided, all of them.

    Only claims that were put to the verifier enter the decision: a claim that is not checkable keeps that
    verdict, one that there was nothing (or no time) to check against is `unverified`, and one whose check broke
    is `failed` and stays in the list.
    """
    judged = [s for s in scored if s.scores is not None or s.failure is not None]
    decided = policy.decide([s.signed for s in judged])
    verdicts = {id(s): verdict for s, verdict in zip(judged, decided.verdicts, strict=True)}
    return tuple(as_claim(s, verdicts.get(id(s)), explain) for s in scored[since:]), decided


def verdict_at(score: float, decision: Decision, policy: Policy) -> Verdict:
    """Return the verdict on one more signed score under the threshold of a decision that stands already.

    A policy whose threshold depends on the scores isn't asked to set another one; one whose threshold doesn't
    (`fixed`, `conformal`) decides as it would have. Raises what a policy of the caller's own raises.
    """
    alone = policy.decide([score])
    if decision.tau is None or alone.decision.tau == decision.tau:
        return alone.verdicts[0]
    if decision.tau > 1 + TOLERANCE:
        return Verdict.UNVERIFIED
    return Fixed(threshold=min(max(decision.tau, 0.0), 1.0)).decide([score]).verdicts[0]


def as_claim(
    scored: ScoredClaim, verdict: Verdict | None, explain: Explain | None = None, by: str = REFERENCE
) -> Claim:
    """Return a claim with its verdict for the report; `by` names in words what decided it.

    A `verdict` of None: the claim was not decided on, and is `unverified` or `not_checkable`.
    """
    claim = scored.claim
    if verdict is None:
        verdict = Verdict.UNVERIFIED if claim.checkable else Verdict.NOT_CHECKABLE
    return Claim(
        text=claim.text,
        span=claim.span,
        sentence=claim.sentence,
        verdict=verdict,
        reason=scored.failure or scored.reason if scored.scores is None else _reason(scored, verdict, explain, by),
        scores=scored.scores,
        signed=scored.signed,
        evidence=scored.evidence,
        counter_evidence=scored.counter_evidence,
    )


def _reason(scored: ScoredClaim, verdict: Verdict, explain: Explain | None, by: str) -> str:
    assert scored.scores is not None
    assert scored.evidence is not None
    special = explain(scored.evidence, scored.claim.text) if explain is not None else None
    extra = [text for text in (special, scored.reason) if text]
    base = _plain_reason(scored.scores, verdict, by)
    return f"{base} ({'; '.join(extra)})" if extra else base


def _plain_reason(scores: Entailment, verdict: Verdict, by: str) -> str:
    if verdict is not Verdict.UNVERIFIED:
        return f"{by} {_REASONS[verdict]}"
    if scores.label == "neutral":
        return f"{by} neither entails nor contradicts it"
    return f"{scores.label} of {abs(scores.signed):.3f} does not reach the threshold"


def with_verdict(claim: Claim, verdict: Verdict, by: str = REFERENCE) -> Claim:
    """Return a claim of a report with another verdict on the same scores; what else its reason says stays."""
    if claim.scores is None or verdict is claim.verdict:
        return claim
    before = _plain_reason(claim.scores, claim.verdict, by)
    rest = (claim.reason or "").removeprefix(before) if (claim.reason or "").startswith(before) else ""
    return replace(claim, verdict=verdict, reason=_plain_reason(claim.scores, verdict, by) + rest)
