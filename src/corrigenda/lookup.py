"""Between stages 5 and 6: passages for the claims that the reference leaves in doubt; see `stages.retrieve`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from corrigenda.concurrency import Late
from corrigenda.guards import require_finite, told
from corrigenda.run import Run
from corrigenda.stages import retrieve
from corrigenda.stages.decide import PASSAGE, as_claim, decide, verdict_at
from corrigenda.stages.entail import Scored, ScoredClaim, score_texts
from corrigenda.types import (
    Claim,
    Decision,
    Evidence,
    Passage,
    Retrieval,
    RetrievedPassage,
    TokenUsage,
    Verdict,
)

LATE = "the time limit was reached; the claims that passages were to be looked up for keep their verdicts"


@dataclass(frozen=True, kw_only=True)
class LookedUp:
    """The claims after their passages were read; without a retriever, as they were."""

    claims: tuple[Claim, ...]
    decision: Decision | None
    entries: tuple[Retrieval, ...] = ()
    scored: tuple[ScoredClaim, ...] = ()
    """The claims with the scores that decide them now."""
    base: int = 0
    """How many references all claims share; passages stand behind them."""

    def grounds(self, claims: Sequence[Claim]) -> tuple[int, ...]:
        """Return the indices of the references that a rewrite for these claims is checked against.

        They are those that the claims were decided by: all that all claims share, or the passages of a claim that
        a passage decided. So passages for one claim have no say in the correction of another.
        """
        found: set[int] = set()
        for claim in claims:
            own = claim.evidence is not None and claim.evidence.reference >= self.base
            found |= self._passages(claim) if own else set(range(self.base))
        return tuple(sorted(found))

    def _passages(self, claim: Claim) -> set[int]:
        entries = [entry for entry in self.entries if self.claims[entry.claim] is claim]
        return {passage.reference for entry in entries for passage in entry.passages}


async def score(run: Run, texts: Sequence[str], references: Sequence[int]) -> list[Scored]:
    """Score hypotheses against the references with these indices; evidence names them by these."""
    scored = await score_texts(
        texts,
        [run.references[index] for index in references],
        run.tools.entailer,
        language=run.language,
        cache=run.windows,
    )

    def placed(evidence: Evidence | None) -> Evidence | None:
        return None if evidence is None else replace(evidence, reference=references[evidence.reference])

    return [replace(s, evidence=placed(s.evidence), counter_evidence=placed(s.counter_evidence)) for s in scored]


async def look_up(
    run: Run, scored: Sequence[ScoredClaim], claims: tuple[Claim, ...], decision: Decision | None
) -> LookedUp:
    """Look passages up for the claims in doubt, and decide these again. Failures become warnings; nothing is lost.

    `claims` are what `decision` made of `scored`, one for one: all of the answer's, or those of one sentence.
    """
    base = len(run.references) - len(run.passages)
    before = LookedUp(claims=claims, decision=decision, scored=tuple(scored), base=base)
    indices = retrieve.doubtful(claims) if run.tools.retriever is not None and run.problem is None else ()
    if not indices:
        return before
    async with run.looking:
        known, passages = run.references, dict(run.passages)
        try:
            return await _looked_up(run, before, indices)
        except Exception as exc:  # a policy of the caller's own may raise anything
            run.trace.warn(f"retrieve: {told(exc)}; the claims keep their verdicts")
            run.references, run.passages = known, passages
            return before


def decide_again(run: Run, found: LookedUp, claims: tuple[Claim, ...], decision: Decision | None) -> LookedUp:
    """Return what was looked up with its claims decided by `decision`, which made `claims` without the passages."""
    before = replace(found, claims=claims, decision=decision)
    entries = [replace(e, before=claims[e.claim].verdict, before_signed=claims[e.claim].signed) for e in found.entries]
    return _decided(run, before, found.scored, entries)


async def _looked_up(run: Run, before: LookedUp, indices: Sequence[int]) -> LookedUp:
    """Do as `look_up` for the claims with these indices."""
    claims, decision = before.claims, before.decision
    queries = [retrieve.query(claims[index], run.question) for index in indices]
    found = await _search(run, queries)
    if found is None:
        return before
    entries = []
    scored = list(before.scored)
    for index, query, passages in zip(indices, queries, _referenced(run, found), strict=True):
        one = await _score_one(run, scored[index], passages)
        reaches = decision is None or _verdict(run, one, decision) in (Verdict.SUPPORTED, Verdict.CONTRADICTED)
        decides = False
        if one.scores is not None:
            scored[index], decides = retrieve.settle(scored[index], one, reaches=reaches, recalled=run.recalled)
        entries.append(
            Retrieval(
                claim=index,
                query=query,
                passages=passages,
                signed=one.signed,
                decides=decides,
                before=claims[index].verdict,
                before_signed=claims[index].signed,
                after=claims[index].verdict,
                after_signed=claims[index].signed,
                reason=one.failure or one.reason,
            )
        )
    return _decided(run, before, scored, entries)


async def _search(run: Run, queries: Sequence[str]) -> list[list[Passage]] | None:
    """Return the passages per query; None, with a warning, when that fails or comes too late."""
    assert run.tools.retriever is not None
    try:
        with run.trace.stage("retrieve"):
            run.trace.count("retrieve", TokenUsage())
            work = retrieve.look_up(queries, run.tools.retriever, run.options.retrieve_k)
            return await run.deadline.bound(work)
    except Late:
        run.trace.warn(f"retrieve: {LATE}")
    except Exception as exc:  # a retriever of the caller's own may raise anything
        run.trace.warn(f"retrieve: {told(exc)}; no passages were used")
    return None


def _referenced(run: Run, found: Sequence[Sequence[Passage]]) -> list[tuple[RetrievedPassage, ...]]:
    """Add the passages to the report's references, each once, and return them per query as the report names them."""
    places = run.passages
    for passages in found:
        for passage in passages:
            if (passage.id, passage.text) not in places:
                places[passage.id, passage.text] = len(run.references)
                run.references = (*run.references, passage.reference)
    return [
        tuple(RetrievedPassage(id=p.id, title=p.title, score=p.score, reference=places[p.id, p.text]) for p in passages)
        for passages in found
    ]


async def _score_one(run: Run, scored: ScoredClaim, passages: Sequence[RetrievedPassage]) -> ScoredClaim:
    """Score a claim against its passages; what breaks or comes too late becomes its reason."""
    claim = scored.claim
    if not passages:
        return ScoredClaim(claim=claim, reason=retrieve.NOTHING_FOUND)
    try:
        with run.trace.stage("entail"):
            work = score(run, [claim.text], list(dict.fromkeys(p.reference for p in passages)))
            (found,) = await run.deadline.bound(work)
            run.trace.count("entail", TokenUsage())
    except Late:
        run.trace.warn(f"retrieve: {LATE}")
        return ScoredClaim(claim=claim, reason=LATE)
    except Exception as exc:  # a verifier of the caller's own may raise anything
        run.trace.warn(f"retrieve: {told(exc)}; a claim keeps its verdict")
        return ScoredClaim(claim=claim, failure=told(exc))
    return ScoredClaim(
        claim=claim,
        scores=found.scores,
        evidence=found.evidence,
        counter_evidence=found.counter_evidence,
        failure=found.failure,
        reason=found.reason,
    )


def _verdict(run: Run, scored: ScoredClaim, decision: Decision) -> Verdict | None:
    """Return the verdict on a claim under the report's threshold; None where it has no score."""
    return None if scored.signed is None else verdict_at(scored.signed, decision, run.tools.policy)


def _decided(run: Run, before: LookedUp, scored: Sequence[ScoredClaim], entries: Sequence[Retrieval]) -> LookedUp:
    """Decide the claims that were looked up, and no others, by the threshold that stands.

    Where there is none, since nothing could be scored without passages, the policy sets it from what they gave.
    """
    claims, decision = list(before.claims), before.decision
    if decision is None:
        fresh, decided = decide(scored, run.tools.policy, run.tools.explain)
        if any(claim.scores is not None for claim in fresh):
            require_finite(decided.decision)
            run.trace.warn(*decided.warnings)
            decision = decided.decision
            claims = list(fresh)
    done = []
    for entry in entries:
        one = scored[entry.claim]
        if entry.decides:
            verdict = claims[entry.claim].verdict if before.decision is None else _verdict(run, one, before.decision)
            claims[entry.claim] = as_claim(one, verdict, run.tools.explain, by=PASSAGE)
        else:
            claims[entry.claim] = replace(claims[entry.claim], counter_evidence=one.counter_evidence)
        now = claims[entry.claim]
        done.append(replace(entry, after=now.verdict, after_signed=now.signed))
    return replace(before, claims=tuple(claims), decision=decision, entries=tuple(done), scored=tuple(scored))
