"""The end of a report: stages 5 to 7 over what `corrigenda.run` has gathered, and the report itself.

As there, each stage turns its own failures into words and goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from corrigenda.concurrency import Late
from corrigenda.guards import require_finite, told
from corrigenda.lookup import LookedUp, look_up, score
from corrigenda.policies import DEFAULT_CEILING, DEFAULT_FLOOR, Fixed
from corrigenda.run import Run, unscored
from corrigenda.sentences import split_sentences
from corrigenda.stages import correct as correction
from corrigenda.stages.decide import decide
from corrigenda.stages.entail import Scored, ScoredClaim
from corrigenda.stages.reassemble import reassemble
from corrigenda.status import status_of
from corrigenda.types import (
    AtomicClaim,
    Claim,
    Completion,
    Decision,
    Edit,
    Report,
    Retrieval,
    Sentence,
    Status,
    TokenUsage,
)


async def finish(run: Run) -> Report:
    """Decide, correct what is contradicted, put the answer back together, and report it all."""
    claims, decision = decided(run, run.scored)
    looked_up = await look_up(run, run.scored, claims, decision)
    claims, decision = looked_up.claims, looked_up.decision
    edits: tuple[Edit, ...] = ()
    flagged = correction.flagged_sentences(run.sentences, claims)
    if flagged and run.options.correct:
        edits = await corrected(run, flagged, looked_up)
        edits = correction.settle_unrepaired(run.answer, edits, run.sentences, run.prompts, run.options.unrepaired)
    with run.trace.stage("reassemble"):
        final = reassemble(run.answer, edits)
    return report_of(run, final, claims, edits, decision, looked_up.entries)


def without_answer(run: Run, completion: Completion | None) -> Report:
    """Report that the model gave no answer to check."""
    status, reason = Status.FAILED, run.problem or "the model gave an empty answer"
    if completion is None:
        pass
    elif completion.refusal is not None or completion.finish_reason in ("refusal", "content_filter"):
        status, reason = Status.ABSTAINED, "the model refused to answer"
    elif completion.finish_reason == "length":
        reason = "the model reached its token cap before it gave a visible answer"
    return _report(run, run.answer, status, reason, (), (), None)


def decided(
    run: Run, scored: Sequence[ScoredClaim], since: int = 0, *, warn: bool = True
) -> tuple[tuple[Claim, ...], Decision | None]:
    """Return the claims from index `since` on with their verdicts, and how they were decided where any was scored.

    All of `scored` enters the decision. With `warn` the policy's warnings become the report's.
    """
    with run.trace.stage("decide"):
        try:
            claims, found = decide(scored, run.tools.policy, run.tools.explain, since)
            require_finite(found.decision)
        except Exception as exc:  # a policy of the caller's own may raise anything
            run.problem = f"the policy failed: {told(exc)}"
            failed = [unscored(s.claim, failure=run.problem) for s in scored]
            return decide(failed, Fixed(), since=since)[0], None
    if warn:
        run.trace.warn(*found.warnings)
    return claims, found.decision if any(s.scores is not None for s in scored) else None


async def corrected(run: Run, flagged: Sequence[correction.Flagged], looked_up: LookedUp) -> tuple[Edit, ...]:
    """Return one edit for each flagged sentence, accepted or not; their claims are indices into the looked-up ones."""
    claims, decision = looked_up.claims, looked_up.decision

    async def recheck(rewrites: Sequence[tuple[correction.Flagged, str]]) -> Sequence[Scored]:
        """Score what rewrites state against the references that decided the claims they repair."""
        scored: dict[int, Scored] = {}
        grounds: dict[tuple[int, ...], list[int]] = {}
        for place, (sentence, _) in enumerate(rewrites):
            grounds.setdefault(looked_up.grounds([claims[i] for i in sentence.claims]), []).append(place)
        for indices, places in grounds.items():
            run.trace.count("entail", TokenUsage())
            texts = [rewrites[place][1] for place in places]
            scored |= zip(places, await score(run, texts, indices), strict=True)
        return [scored[place] for place in range(len(rewrites))]

    def split(sentence: Sentence, rewrite: str) -> Sequence[AtomicClaim]:
        """Return the claims of a rewrite, made by rule, with their subjects named from what stands before it."""
        before = run.fallback.before(sentence, run.answer)
        return [c for part in split_sentences(rewrite, run.language) for c in run.fallback.claims(part, before)]

    tau = None if decision is None else decision.tau
    with run.trace.stage("correct"):
        try:
            work = correction.correct(
                flagged,
                claims,
                run.chat,
                run.prompts,
                recheck=recheck,
                split=split,
                # As firm as the report's own threshold, where that is neither negative nor out of reach.
                needed=min(max(tau or 0.0, DEFAULT_FLOOR), DEFAULT_CEILING),
            )
            edits = await run.deadline.bound(work)
            run.trace.warn(*(f"correct: {e.reason}" for e in edits if e.reason.startswith(correction.CALL_FAILED)))
            return edits
        except Late:
            return tuple(correction.refused(f, correction.NO_TIME) for f in flagged)
        except Exception as exc:  # as in the other stages
            return tuple(correction.refused(f, f"not rewritten: {told(exc)}") for f in flagged)


def report_of(
    run: Run,
    final: str,
    claims: tuple[Claim, ...],
    edits: tuple[Edit, ...],
    decision: Decision | None,
    retrieval: tuple[Retrieval, ...] = (),
) -> Report:
    """Return the report of an answer that was checked."""
    status, reason = status_of(claims, edits)
    if run.problem is not None:
        status, reason = Status.FAILED, run.problem
    return replace(_report(run, final, status, reason, claims, edits, decision), retrieval=retrieval)


def _report(
    run: Run,
    final: str,
    status: Status,
    reason: str | None,
    claims: tuple[Claim, ...],
    edits: tuple[Edit, ...],
    decision: Decision | None,
) -> Report:
    kind = run.tools.decomposer
    return Report(
        question=run.question,
        answer=run.answer,
        final_answer=final,
        status=status,
        reason=reason,
        claims=claims,
        references=run.references,
        decision=decision,
        edits=edits,
        timings=run.trace.merged_timings(),
        usage=run.trace.usage(),
        models={
            "chat": None if run.chat is None else run.chat.name,
            "verifier": run.tools.entailer.name,
            "decomposer": kind if isinstance(kind, str) else type(kind).__name__,
        }
        | ({} if run.tools.retriever is None else {"retriever": run.tools.retriever.name}),
        warnings=tuple(run.trace.warnings),
    )
