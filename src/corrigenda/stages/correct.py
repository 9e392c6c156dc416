"""Stage 6: contradicted claims + reference → rewritten sentences, each checked before it is accepted.

One request per sentence, whatever the number of its contradicted claims; all requests run at the same time;
all rewrites are put to the same verifier in one call. A rewrite goes in only when the verifier finds everything
entailed that it states anew, firmly enough, and when it still makes the sentence's supported claims and brings no
markup of its own; anything else leaves the sentence as it was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from corrigenda.concurrency import together
from corrigenda.errors import CorrigendaError
from corrigenda.policies import TOLERANCE
from corrigenda.ports import ChatModel
from corrigenda.prompts import Prompts
from corrigenda.replies import unwrap_rewrite
from corrigenda.rewrites import foreign_markup, lost_claim
from corrigenda.sentences import split_sentences
from corrigenda.stages.entail import Scored
from corrigenda.text import fit_rewrite, removal_spans
from corrigenda.types import AtomicClaim, ChatRequest, Claim, Completion, Edit, Message, Sentence, Span, Verdict

Unrepaired = Literal["keep", "hedge", "remove"]
Recheck = Callable[[Sequence[tuple["Flagged", str]]], Awaitable[Sequence[Scored]]]
"""Scores hypotheses, each with the sentence whose rewrite states it, against the references that decided that
sentence's claims, with the report's verifier."""
Split = Callable[[Sentence, str], Sequence[AtomicClaim]]
"""Splits the rewrite of a sentence into claims that stand alone in that sentence's place, without a model."""

NO_MODEL = "not rewritten: no chat model was given (set --llm)"
CALL_FAILED = "not rewritten, the chat model failed"
NO_TIME = "not rewritten: the time limit was reached"


@dataclass(frozen=True, kw_only=True, slots=True)
class Flagged:
    """A sentence with the contradicted claims that it makes."""

    sentence: Sentence
    claims: tuple[int, ...]
    """Indices into the report's claims."""


def flagged_sentences(sentences: Sequence[Sentence], claims: Sequence[Claim]) -> tuple[Flagged, ...]:
    """Return the sentences that hold contradicted claims, in order, each once."""
    by_sentence: dict[int, list[int]] = {}
    for index, claim in enumerate(claims):
        if claim.verdict is Verdict.CONTRADICTED:
            by_sentence.setdefault(claim.sentence, []).append(index)
    known = {s.index: s for s in sentences}
    return tuple(Flagged(sentence=known[i], claims=tuple(found)) for i, found in sorted(by_sentence.items()))


def request(flagged: Flagged, claims: Sequence[Claim], prompts: Prompts) -> ChatRequest:
    """Return the request for one rewrite. It holds the deciding windows, the claims and the sentence, no more."""
    about = [claims[i] for i in flagged.claims]
    windows = dict.fromkeys(c.evidence.text for c in about if c.evidence is not None)
    example = {name: prompts.get("correct", f"example_{name}") for name in ("reference", "claims", "sentence")}
    material = {
        "reference": "\n".join(windows),
        "claims": "\n".join(f"- {c.text}" for c in about),
        "sentence": flagged.sentence.text,
    }
    return ChatRequest(
        stage="correct",
        messages=(
            Message(role="system", content=prompts.get("correct", "system")),
            Message(role="user", content=prompts.fill("correct", "user", **example).strip()),
            Message(role="assistant", content=prompts.get("correct", "example_reply")),
            Message(role="user", content=prompts.fill("correct", "user", **material).strip()),
        ),
        temperature=0.0,
        # A rewrite is about as long as its sentence; a token is rarely shorter than two characters.
        max_tokens=64 + len(flagged.sentence.text) // 2,
    )


async def correct(
    flagged: Sequence[Flagged],
    claims: Sequence[Claim],
    chat: ChatModel | None,
    prompts: Prompts,
    *,
    recheck: Recheck,
    split: Split,
    needed: float,
) -> tuple[Edit, ...]:
    """Return one edit per flagged sentence, accepted or not, with the reason. Never raises BackendError.

    `needed` is the P(entailment), from 0 to 1, from which on the verifier's word for a rewrite counts.
    """
    if chat is None:
        return tuple(refused(f, NO_MODEL) for f in flagged)
    proposals = await together([_propose(f, claims, chat, prompts) for f in flagged])
    stated = [
        _to_check(split(f.sentence, p.after), f, claims) if p.accepted and p.after is not None else []
        for f, p in zip(flagged, proposals, strict=True)
    ]
    asked = [(f, text) for f, texts in zip(flagged, stated, strict=True) for text in texts]
    scored = await recheck(asked) if asked else []
    edits = []
    position = 0
    for proposal, texts in zip(proposals, stated, strict=True):
        part = scored[position : position + len(texts)]
        edits.append(_judge(proposal, part, needed) if proposal.accepted else proposal)
        position += len(texts)
    return tuple(edits)


def _to_check(parts: Sequence[AtomicClaim], flagged: Flagged, claims: Sequence[Claim]) -> list[str]:
    """Return what a rewrite states anew, as hypotheses: all its claims but those that the sentence made already.

    A claim of the sentence that was not contradicted may stay as it is, checkable or not. Whatever else the
    rewrite says, in whatever form, is put to the verifier. At least one text is returned.
    """
    own = {c.text for c in claims if c.sentence == flagged.sentence.index and c.verdict is not Verdict.CONTRADICTED}
    return [part.text for part in parts if part.text not in own] or [part.text for part in parts]


def refused(flagged: Flagged, reason: str, after: str | None = None) -> Edit:
    """Return the edit that records that a sentence was not rewritten, and why."""
    return Edit(
        span=flagged.sentence.span,
        before=flagged.sentence.text,
        after=after,
        claims=flagged.claims,
        kind="rewrite",
        accepted=False,
        reason=reason,
    )


async def _propose(flagged: Flagged, claims: Sequence[Claim], chat: ChatModel, prompts: Prompts) -> Edit:
    """Return the model's rewrite as an edit; `accepted` means here that it deserves a check."""
    try:
        completion = await chat.complete(request(flagged, claims, prompts))
    except CorrigendaError as exc:  # not only while it is used: a model that is loaded now may be missing
        return refused(flagged, f"{CALL_FAILED}: {exc}")
    why, after = _read(completion, flagged.sentence.text, prompts)
    objection = why or _objection(flagged, claims, after, prompts.language)
    return replace(refused(flagged, objection or "", after or None), accepted=not objection)


def _read(completion: Completion, before: str, prompts: Prompts) -> tuple[str, str]:
    """Return why the reply holds no rewrite of the sentence `before` (or nothing), and the rewrite (or nothing)."""
    if completion.refusal is not None or completion.finish_reason in ("refusal", "content_filter"):
        return "not rewritten: the model refused", ""
    if completion.finish_reason == "length":
        return "not rewritten: the model's rewrite was cut off", ""
    rewrite = unwrap_rewrite(completion.text, prompts, source=before)
    if rewrite is None:
        return "not rewritten: the model gave an empty reply or a refusal", ""
    return "", fit_rewrite(before, rewrite)


def _objection(flagged: Flagged, claims: Sequence[Claim], after: str, language: str) -> str | None:
    """Return why a rewrite is not even worth the verifier's time, or None."""
    before = flagged.sentence.text
    if after == before:
        return "not rewritten: the model gave the sentence back unchanged"
    if len(after.split()) > 2 * len(before.split()) + 12:
        return "not rewritten: the reply is far longer than the sentence (chatter)"
    if len(split_sentences(after, language)) > max(1, len(split_sentences(before, language))):
        return "not rewritten: the reply is more than one sentence"
    markup = foreign_markup(before, after)
    if markup is not None:
        return f"not rewritten: the reply brings markup of its own ({markup!r})"
    kept = [c.text for c in claims if c.sentence == flagged.sentence.index and c.verdict is Verdict.SUPPORTED]
    lost = lost_claim(kept, before, after)
    return None if lost is None else f"not rewritten: the reply no longer says what is supported ({lost!r})"


def _judge(edit: Edit, scored: Sequence[Scored], needed: float) -> Edit:
    """Accept the rewrite only if the verifier agrees with all that it states anew."""
    problems = [s.failure or s.reason or "no score" for s in scored if s.scores is None]
    scores = [s.scores for s in scored if s.scores is not None]
    weakest = min((s.entailment for s in scores), default=0.0)
    if problems or not scores:
        why = problems[0] if problems else "it states nothing"
        reason = f"rewrite not accepted: it could not be checked ({why})"
    elif any(s.label == "contradiction" for s in scores):
        reason = "rewrite not accepted: the reference still contradicts it"
    elif any(s.label != "entailment" for s in scores):
        reason = "rewrite not accepted: the reference does not support all of it"
    elif weakest < needed - TOLERANCE:
        reason = f"rewrite not accepted: entailment of {weakest:.3f} does not reach {needed:.3f}"
    else:
        return replace(edit, reason="rewritten; the verifier finds it supported by the reference")
    return replace(edit, accepted=False, reason=reason)


def settle_unrepaired(
    answer: str,
    edits: Sequence[Edit],
    sentences: Sequence[Sentence],
    prompts: Prompts,
    unrepaired: Unrepaired,
) -> tuple[Edit, ...]:
    """Add what the user wants done with sentences that stay contradicted: nothing, a hedge, or removal.

    The refused rewrites stay in the list, and the hedges or removals follow, so that nothing is hidden.
    """
    if unrepaired == "keep":
        return tuple(edits)
    unrepaired_edits = [e for e in edits if not e.accepted]
    if unrepaired == "hedge":
        return (*edits, *(_hedged(e, prompts) for e in unrepaired_edits))
    by_span = {s.span: s for s in sentences}
    # Asked for together: neighbours that both go are one removal, with the white space between them.
    spans = removal_spans(answer, [by_span[e.span] for e in unrepaired_edits], sentences)
    return (*edits, *(_removed(span, [e for e in unrepaired_edits if span.contains(e.span)], answer) for span in spans))


def _hedged(edit: Edit, prompts: Prompts) -> Edit:
    after = prompts.fill("correct", "hedge", sentence=edit.before)
    return replace(edit, kind="hedge", after=after, accepted=True, reason="hedged: not repaired")


def _removed(span: Span, edits: Sequence[Edit], answer: str) -> Edit:
    return Edit(
        span=span,
        before=span.text_of(answer),
        after="",
        claims=tuple(i for e in edits for i in e.claims),
        kind="remove",
        accepted=True,
        reason="removed: not repaired",
    )
