"""Between `decide` and `correct`: passages from outside for claims that the reference leaves in doubt.

Only these claims are looked up: those that are `unverified`, and those that are `contradicted` with less than
`CONFIDENT`. Each is scored by the same verifier against its own passages, and decided by the same threshold as the
others; no other claim changes. The paper names this as future work; the rule is ours.

Which evidence decides such a claim, its present one or the best of its passages:

1. A passage that is neutral decides nothing, unless there was no evidence at all.
2. The stronger evidence decides, whatever it says; of two that are equal, the present one.
3. Where they say opposite things and the present evidence was recalled by the model, a passage also decides that
   reaches the threshold by itself, even if it is the weaker: what the model remembers isn't independent of the
   model's answer, and the probability of the verifier says how sure the text is, not how true. A context that the
   user gave is as external as a passage, so there rule 2 holds alone.

The evidence that did not decide is kept as counter-evidence where it says the opposite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from corrigenda.errors import BackendError
from corrigenda.policies import TOLERANCE
from corrigenda.ports import Retriever
from corrigenda.stages.entail import NO_REFERENCE, ScoredClaim
from corrigenda.types import Claim, Evidence, Passage, Verdict
from corrigenda.windows import is_blank

CONFIDENT = 0.9
"""P(contradiction) from which on a contradiction is not looked up: a calibrated verifier is then right in nine of
ten cases, and a plain contradiction reaches it (`policies.DEFAULT_CEILING`). Below, a search costs less than a
wrong rewrite."""
PASSAGES = 3
"""Passages per claim. Each costs a pair of the verifier; the first ranks of BM25 hold most of what it finds."""
NOTHING_FOUND = "no passage was found"


def doubtful(claims: Sequence[Claim]) -> tuple[int, ...]:
    """Return the indices of the claims that passages are looked up for, in order.

    An unverified claim that was never put to the verifier counts when it lacked a reference, not when time was up.
    """

    def one(claim: Claim) -> bool:
        if claim.verdict is Verdict.UNVERIFIED:
            return claim.scores is not None or claim.reason == NO_REFERENCE
        return claim.verdict is Verdict.CONTRADICTED and abs(claim.signed or 0.0) < CONFIDENT - TOLERANCE

    return tuple(index for index, claim in enumerate(claims) if one(claim))


def query(claim: Claim, question: str | None) -> str:
    """Return what is searched for: the claim and, where there is one, the question, which names what `it` is."""
    return claim.text if question is None else f"{claim.text} {question}"


async def look_up(queries: Sequence[str], retriever: Retriever, k: int) -> list[list[Passage]]:
    """Return the passages per query, at most `k`, best first, without blank ones.

    Raises what the retriever raises, and BackendError when it does not give one list per query.
    """
    found = await retriever.search(queries, k)
    if len(found) != len(queries):
        raise BackendError(f"{retriever.name!r} gave {len(found)} lists of passages for {len(queries)} queries")
    return [[passage for passage in passages[:k] if not is_blank(passage.text)] for passages in found]


def settle(before: ScoredClaim, found: ScoredClaim, *, reaches: bool, recalled: bool) -> tuple[ScoredClaim, bool]:
    """Return a claim with the evidence that decides it, and whether that is one of its passages.

    `before` holds the present evidence and `found` that of the passages; their references are indices of one list.
    `reaches`: the passages would reach the threshold by themselves. `recalled`: the present evidence is the model's
    own recollection. See the module's docstring for the rule.
    """
    now, new = before.signed or 0.0, found.signed or 0.0
    decides = before.scores is None or abs(new) > abs(now) + TOLERANCE or (recalled and reaches and now * new < 0)
    best, other = (found, before) if decides else (before, found)
    return replace(best, claim=before.claim, counter_evidence=_opposite(best, other)), decides


def _opposite(best: ScoredClaim, other: ScoredClaim) -> Evidence | None:
    """Return the most confident evidence of either side that says the opposite of what decides."""
    if best.evidence is None or best.evidence.scores.label == "neutral":
        return best.counter_evidence
    against = [
        evidence
        for evidence in (best.counter_evidence, other.evidence, other.counter_evidence)
        if evidence is not None and evidence.scores.signed * best.evidence.scores.signed < 0
    ]
    return max(against, key=lambda evidence: abs(evidence.scores.signed), default=None)
