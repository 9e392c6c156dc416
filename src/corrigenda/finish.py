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
from corrigenda.stages.entail import Scored
from corrigenda.stages.reassemble import reassemble
from corrigenda.status import status_of
from corrigenda.types import (
    AtomicClaim,
    Claim,
    Completion,
    Decision,
    Edit,
    Report,
    Sentence,
    Status,
    TokenUsage,
)


async def finish(run: Run) -> Report:
    """Decide, correct what is contradicted, put the answer back together, and report it all."""
    claims, decision = _decide(run)
    looked_up = await look_up(run, claims, decision)
    claims, decision = looked_up.claims, looked_up.decision
    edits: tuple[Edit, ...] = ()
    flagged = correction.flagged_sentences(run.sentences, claims)
    if flagged and run.options.correct:
        with run.trace.stage("correct"):
            edits = await _correct(run, flagged, claims, decision, looked_up)
    with run.trace.stage("reassemble"):
        final = reassemble(run.answer, edits)
    status, reason = status_of(claims, edits)
    if run.problem is not None:
        status, reason = Status.FAILED, run.problem
    report = _report(run, final, status, reason, claims, edits, decision)
    return replace(report, retrieval=looked_up.entries)


def without_answer(run: Run, completion: Completion) -> Report:
    """Report that the model gave no answer to check."""
    status, reason = Status.FAILED, run.problem or "the model gave an empty answer"
    if completion.refusal is not None or completion.finish_reason in ("refusal", "content_filter"):
        status, reason = Status.ABSTAINED, "the model refused to answer"
    elif completion.finish_reason == "length":
        reason = "the model reached its token cap before it gave a visible answer"
    return _report(run, run.answer, status, reason, (), (), None)


def _decide(run: Run) -> tuple[tuple[Claim, ...], Decision | None]:
    """Return the claims with their verdicts, and how they were decided where any was scored."""
    with run.trace.stage("decide"):
        try:
            claims, decided = decide(run.scored, run.tools.policy, run.tools.explain)
            require_finite(decided.decision)
        except Exception as exc:  # a policy of the caller's own may raise anything
            run.problem = f"the policy failed: {told(exc)}"
            failed = [unscored(s.claim, failure=run.problem) for s in run.scored]
            return decide(failed, Fixed())[0], None
    run.trace.warn(*decided.warnings)
    return claims, decided.decision if any(c.scores is not None for c in claims) else None


async def _correct(
    run: Run,
    flagged: Sequence[correction.Flagged],
    claims: Sequence[Claim],
    decision: Decision | None,
    looked_up: LookedUp,
) -> tuple[Edit, ...]:
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
    except Late:
        edits = tuple(correction.refused(f, correction.NO_TIME) for f in flagged)
    except Exception as exc:  # as in the other stages
        edits = tuple(correction.refused(f, f"not rewritten: {told(exc)}") for f in flagged)
    return correction.settle_unrepaired(run.answer, edits, run.sentences, run.prompts, run.options.unrepaired)


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
