"""An answer that leaves sentence by sentence, each as soon as it is checked, and corrected first where contradicted.

Nothing that was released is taken back. A sentence is decided over the scores of the sentences up to it, so that how
the answer arrives makes no difference; the report at the end holds the final decision over all scores, and each
claim's `released` says by which verdict and which threshold its sentence left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from corrigenda.errors import InputError
from corrigenda.finish import corrected, decided, finish, report_of, without_answer
from corrigenda.guards import told
from corrigenda.lookup import LookedUp, decide_again, look_up
from corrigenda.pipeline import begin, generate_to_scores
from corrigenda.run import Options, Run, Tools
from corrigenda.stages.correct import flagged_sentences, settle_unrepaired
from corrigenda.stages.entail import ScoredClaim
from corrigenda.status import late_verdicts
from corrigenda.text import apply_edits
from corrigenda.types import (
    ChatRequest,
    Claim,
    Completion,
    Decision,
    Edit,
    Reference,
    Released,
    Report,
    Retrieval,
    Sentence,
    Span,
)
from corrigenda.windows import is_blank

__all__ = ["DecisionMode", "Release", "ask_releasing"]

DecisionMode = Literal["incremental", "whole"]
"""`incremental`: a sentence leaves as soon as it is checked. `whole`: everything leaves at the end, as with `ask`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """A piece of the final answer that may be shown. The pieces' texts concatenate to the report's `final_answer`."""

    text: str
    """May be empty, in the last release (and where a sentence was removed)."""
    claims: tuple[Claim, ...] = ()
    """The claims of the sentences in it, with the verdicts that they leave by."""
    report: Report | None = None
    """The report; in the last release, and only there."""
    completion: Completion | None = None
    """What the chat model said at the end (finish reason, usage, refusal); in the last release. None where its reply
    broke off or the time limit came first."""


async def ask_releasing(
    request: ChatRequest | None,
    question: str,
    tools: Tools,
    options: Options,
    *,
    decision: DecisionMode = "incremental",
    references: Sequence[Reference] | None = None,
) -> AsyncGenerator[Release, None]:
    """Answer and check as `pipeline.ask` does, and yield the final answer as it becomes certain; the report comes last.

    `request` is what the chat model gets (a conversation, with its own sampling settings); None: `question` alone,
    with the settings of `options`. The reference is recalled from `question`, unless `references` are given.
    `Options.correct=False` only checks. Closing the iterator cancels the model's call and all else that runs.

    Raises, at the first step, InputError when the question is blank or there is no chat model, and BackendError when
    not even the beginning of an answer could be had. ReasoningLeaked may come later: what was released then was
    no answer. Every other failure is in the report.
    """
    if decision not in get_args(DecisionMode):
        raise InputError(f"decision must be one of {', '.join(get_args(DecisionMode))}, got {decision!r}")
    run = begin(question, tools, options, hasty=decision == "incremental")
    if decision == "whole":
        completion = await generate_to_scores(run, question, request, references)
        report = without_answer(run, completion) if is_blank(run.answer) else await finish(run)
        yield Release(text=report.final_answer, claims=report.claims, report=report, completion=completion)
        return
    pieces: asyncio.Queue[Release | None] = asyncio.Queue()
    # A task of its own: the caller may stop between two steps, in any task, and nothing may be left running then.
    work = asyncio.create_task(_answer(run, question, request, references, pieces.put_nowait))
    work.add_done_callback(lambda _: pieces.put_nowait(None))
    try:
        while (piece := await pieces.get()) is not None:
            yield piece
        yield work.result()
    finally:
        work.cancel()
        await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # looked at, so that it does not count as never retrieved


async def _answer(
    run: Run,
    question: str,
    request: ChatRequest | None,
    references: Sequence[Reference] | None,
    send: Callable[[Release], None],
) -> Release:
    """Make the report, hand on all releases but the last one, and return that."""
    releaser = _Releaser(run, send)
    completion = await generate_to_scores(run, question, request, references, releaser.follow)
    return releaser.last(completion)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Settled:
    """A sentence that is checked, corrected where that was needed, and may leave."""

    sentence: Sentence
    first: int
    """Index of its first claim among those of the answer."""
    found: LookedUp
    """Its claims as they leave, and how they were decided."""
    edits: tuple[Edit, ...] = ()
    """What the correction proposed; the claims are indices into those of the answer."""


class _Releaser:
    """Follows an answer sentence by sentence: decides, corrects, and hands on, in order."""

    def __init__(self, run: Run, send: Callable[[Release], None]) -> None:
        self._run = run
        self._send = send
        self._scored: list[ScoredClaim] = []
        self._settling: asyncio.Queue[asyncio.Task[_Settled] | int | None] = asyncio.Queue()  # an int: code up to there
        self._held: list[_Settled] = []  # sentences that go; what goes with them depends on what follows
        self._left: list[_Settled] = []
        self._position = 0  # up to where the answer has left
        self._texts: list[str] = []
        self._edits: list[Edit] = []
        self._released: list[Released] = []

    async def follow(self, group: asyncio.TaskGroup) -> None:
        """Decide each sentence over the scores up to it; correct and release it while the next ones come."""
        group.create_task(self._leave_in_order())
        while (part := await self._run.parts.get()) is not None:
            if part.sentence is None:
                self._settling.put_nowait(part.end)
                continue
            scored, first = await part.scored, len(self._scored)
            self._scored += scored
            claims, decision = decided(self._run, self._scored, first, warn=False)
            work = self._settle(part.sentence, first, scored, claims, decision)
            self._settling.put_nowait(group.create_task(work))
        self._settling.put_nowait(None)

    async def _settle(
        self,
        sentence: Sentence,
        first: int,
        scored: Sequence[ScoredClaim],
        claims: tuple[Claim, ...],
        decision: Decision | None,
    ) -> _Settled:
        found = await look_up(self._run, scored, claims, decision)
        flagged = flagged_sentences([sentence], found.claims) if self._run.options.correct else ()
        edits = await corrected(self._run, flagged, found) if flagged else ()
        edits = tuple(replace(edit, claims=tuple(first + i for i in edit.claims)) for edit in edits)
        return _Settled(sentence=sentence, first=first, found=found, edits=edits)

    async def _leave_in_order(self) -> None:
        while (work := await self._settling.get()) is not None:
            if isinstance(work, int):
                end, goes = work, bool(self._held)
            else:
                settled = await work
                self._held.append(settled)
                end = settled.sentence.span.end
                goes = self._run.options.unrepaired == "remove" and not all(edit.accepted for edit in settled.edits)
            if not goes:
                self._leave(end)

    def _leave(self, end: int) -> None:
        """Hand on the answer up to `end`, with the sentences that wait."""
        run, held = self._run, self._held
        edits: list[Edit] = []
        with run.trace.stage("reassemble"):
            proposed = [edit for settled in held for edit in settled.edits]
            if proposed:
                known = run.sentences[: held[-1].sentence.index + 1]
                unrepaired = run.options.unrepaired
                proposed = list(settle_unrepaired(run.answer[:end], proposed, known, run.prompts, unrepaired))
                edits = [self._of_the_rest(edit) for edit in proposed]
            text = self._rest(end, edits)
        now = run.trace.now()
        claims = []
        for settled in held:
            tau = None if settled.found.decision is None else settled.found.decision.tau
            for claim in settled.found.claims:
                self._released.append(Released(verdict=claim.verdict, tau=tau, at_s=now))
                claims.append(replace(claim, released=self._released[-1]))
        self._left += held
        self._held = []
        self._edits += edits
        self._send(Release(text=text, claims=tuple(claims)))

    def _of_the_rest(self, edit: Edit) -> Edit:
        """Return an edit that takes nothing from what has left; only a removal can reach that far."""
        if edit.span.start >= self._position:
            return edit
        span = Span(self._position, edit.span.end)
        return replace(edit, span=span, before=span.text_of(self._run.answer))

    def _rest(self, end: int, edits: Sequence[Edit] = ()) -> str:
        """Return the answer from where it has left up to `end`, edited, and count it as left."""
        start, self._position = self._position, end
        accepted = [
            (Span(e.span.start - start, e.span.end - start), e.after)
            for e in edits
            if e.accepted and e.after is not None
        ]
        self._texts.append(apply_edits(self._run.answer[start:end], accepted))
        return self._texts[-1]

    def last(self, completion: Completion | None) -> Release:
        """Hand on what waits, and return the last release, with the final decision over all scores."""
        run = self._run
        if self._held:
            self._leave(len(run.answer))
        text = self._rest(len(run.answer))
        if is_blank(run.answer):
            return Release(text=text, report=without_answer(run, completion), completion=completion)
        run.scored = self._scored
        claims, decision, entries = self._decide_all()
        claims = tuple(replace(c, released=r) for c, r in zip(claims, self._released, strict=True))
        run.trace.warn(*late_verdicts(claims))
        report = report_of(run, "".join(self._texts), claims, tuple(self._edits), decision, entries)
        return Release(text=text, report=report, completion=completion)

    def _decide_all(self) -> tuple[tuple[Claim, ...], Decision | None, tuple[Retrieval, ...]]:
        """Decide over all scores; claims that passages were looked up for keep the evidence that they left by."""
        run = self._run
        claims, decision = decided(run, self._scored)
        entries = tuple(
            replace(entry, claim=settled.first + entry.claim)
            for settled in self._left
            for entry in settled.found.entries
        )
        if not entries:
            return claims, decision, ()
        left = tuple(claim for settled in self._left for claim in settled.found.claims)
        scored = tuple(one for settled in self._left for one in settled.found.scored)
        found = LookedUp(claims=left, decision=decision, entries=entries, scored=scored, base=self._left[0].found.base)
        try:
            found = decide_again(run, found, claims, decision)
        except Exception as exc:  # a policy of the caller's own may raise anything
            run.trace.warn(f"retrieve: {told(exc)}; the claims keep the verdicts that they left by")
        return found.claims, found.decision, found.entries
