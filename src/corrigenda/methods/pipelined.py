"""What `nli-fixed` and `corrigenda` share: a task put through the pipeline under a policy."""

from __future__ import annotations

from dataclasses import replace

from corrigenda.methods.common import examined, is_flagged, question_of, unexamined
from corrigenda.methods.protocol import Judged, Kit, Outcome, Task
from corrigenda.pipeline import Options, Tools, ask, check
from corrigenda.policies import Policy
from corrigenda.stages.decompose import Decomposition, Warn
from corrigenda.types import AtomicClaim, Claim, Report, Sentence, Status
from corrigenda.windows import visible


class WholeClaim:
    """A decomposer that makes the answer one claim, word for word: for claims that are given as such (FEVER)."""

    async def decompose(self, answer: str, question: str | None = None) -> Decomposition:
        """Return the answer, without the white space at its ends, as its only sentence and claim."""
        span = visible(answer)
        sentence = Sentence(index=0, span=span, text=span.text_of(answer))
        return Decomposition(sentences=(sentence,), claims=_as_claim(sentence), method="whole")

    async def decompose_sentence(
        self, sentence: Sentence, context: str = "", warn: Warn | None = None
    ) -> tuple[AtomicClaim, ...]:
        """Return the sentence as its only claim."""
        return _as_claim(sentence)


def _as_claim(sentence: Sentence) -> tuple[AtomicClaim, ...]:
    return (AtomicClaim(text=sentence.text, span=sentence.span, sentence=sentence.index),)


async def run_pipeline(task: Task, kit: Kit, policy: Policy, method: str) -> Outcome:
    """Do the task with the seven stages, decided by `policy`.

    A question alone is asked (recall beside generate); contexts take the place of recall. Raises InputError and
    BackendError as `corrigenda.pipeline` does.
    """
    tools = Tools(
        chat=kit.chat,
        entailer=kit.entailer,
        policy=policy,
        decomposer=WholeClaim() if task.whole else kit.decomposer,
        prompts=kit.prompts,
        explain=getattr(kit.entailer, "explain", None),
    )
    options = Options(
        language=kit.language,
        references=kit.references,
        temperature=kit.temperature,
        top_p=kit.top_p,
        max_answer_tokens=kit.max_answer_tokens,
        max_reference_tokens=kit.max_reference_tokens,
        seed=kit.seed,
        correct=task.correct,
    )
    if task.answer is None and task.contexts is None and not task.whole:
        return outcome_of(await ask(question_of(task, method), tools, options))
    answer = await examined(task, kit, method)
    if answer.blank and (nothing := unexamined(answer)) is not None:
        return nothing
    report = await check(answer.text, tools, options, question=task.question, references=task.contexts)
    outcome = outcome_of(report)
    return replace(outcome, warnings=(*answer.warnings, *outcome.warnings))


def outcome_of(report: Report) -> Outcome:
    """Return a report as an outcome: a claim's score is P(contradiction) of the window that decided, in [0, 1].

    The answer's score is the highest of its claims'. It is flagged when a claim is contradicted; None where the
    report failed without one.
    """
    verdicts = tuple(_judged(claim) for claim in report.claims)
    flagged = is_flagged(verdicts)
    return Outcome(
        answer=report.answer,
        final_answer=report.final_answer,
        verdicts=verdicts,
        flagged=None if report.status is Status.FAILED and not flagged else flagged,
        score=max((v.score for v in verdicts if v.score is not None), default=None),
        report=report,
        warnings=report.warnings,
    )


def _judged(claim: Claim) -> Judged:
    return Judged(
        text=claim.text,
        verdict=claim.verdict,
        score=None if claim.scores is None else claim.scores.contradiction,
        signed=claim.signed,
        span=claim.span,
        sentence=claim.sentence,
        reason=claim.reason,
    )
