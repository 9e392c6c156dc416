"""`cove`: Chain-of-Verification, factored, with a cross-check of its own and a revision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from corrigenda.concurrency import together
from corrigenda.errors import BackendError, ConfigError, ParseError
from corrigenda.methods.common import (
    block,
    chat_of,
    concluded,
    examined,
    language_of,
    on_answer,
    read_answer,
    unexamined,
    usable,
)
from corrigenda.methods.cove_replies import (
    CONSISTENT,
    INCONSISTENT,
    PARTIALLY,
    PLAN_SCHEMA,
    Question,
    label_of,
    plan_of,
)
from corrigenda.methods.protocol import Judged, Kit, NeededInput, Outcome, Task, Traits
from corrigenda.methods.wording import wording
from corrigenda.ports import ChatModel
from corrigenda.replies import is_abstention, is_refusal, shorten
from corrigenda.sentences import split_sentences
from corrigenda.types import ChatRequest, Message, Reference, Sentence, Verdict
from corrigenda.windows import is_blank, visible

T = TypeVar("T")

_VERDICTS: Mapping[str, tuple[Verdict, float]] = {
    CONSISTENT: (Verdict.SUPPORTED, 0.0),
    INCONSISTENT: (Verdict.CONTRADICTED, 1.0),
    PARTIALLY: (Verdict.CONTRADICTED, 0.5),
}
NOT_KNOWN = "the model does not answer the verification question"
PLAN_LIMIT = 8_000
"""Code points of sentences that the plan is made from; further ones get no question."""
_WORD_TOKENS = 8
"""Cap on a reply that is one word, in tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What came of a verification question."""

    question: Question
    answer: str | None = None
    """The model's answer to it, given without sight of the answer under test."""
    label: str | None = None
    """CONSISTENT, INCONSISTENT or PARTIALLY; None where nothing was compared."""
    failure: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cove:
    """Dhuliawala et al. 2023, 'Chain-of-Verification' (Findings of ACL 2024, arXiv:2309.11495), factor + revise.

    The answer is made as `base` makes it. The model plans verification questions (stage `plan`, one call), answers
    each of them in a context of its own that holds nothing of the answer (stage `verify`: factored), says of each
    whether the answer's sentence is consistent with what it found (stage `compare`: the cross-check), and, when one is
    not, revises the answer (stage `revise`).

    A verdict per verification question, on the sentence that it checks: CONSISTENT is supported; INCONSISTENT is
    contradicted (score 1), PARTIALLY too (score 0.5), since a part of the sentence is; a question that the model
    cannot answer leaves its sentence unverified. The answer is flagged when one is contradicted; its score is the
    mean of its verdicts'.

    What differs from the paper is in `traits.differs`. Raises ConfigError for an option out of range.
    """

    questions: int = 6
    """At most that many verification questions, from 1 to 50."""
    retries: int = 1
    """How often a plan or a comparison that cannot be read is asked for again; from 0 to 10."""

    name: ClassVar[str] = "cove"
    traits: ClassVar[Traits] = Traits(
        paper="Dhuliawala et al. 2023, Chain-of-Verification Reduces Hallucination in Large Language Models, Findings "
        "of ACL 2024, arXiv:2309.11495 (factored, factor + revise).",
        retrieval=False,
        claim_level=True,
        adaptive=False,
        corrects=True,
        calls="2 + 2q + r (q questions planned; r = 1 when a sentence is inconsistent, else 0)",
        differs=(
            "The prompts are ours, for chat models, with one example or a few; the paper gives several examples to "
            "LLaMA 65B.",
            "The answer is the one that all methods of a run share, sampled; the paper decodes greedily.",
            "At most 6 questions by default; the paper sets no bound.",
            "The plan names the sentence that a question checks, and that sentence is compared; the paper's plan "
            "copies the fact out of the answer.",
            "A question that repeats the sentence it checks is left out.",
            "A question that the model says it cannot answer is not compared: its sentence is unverified.",
            "The answer is revised only when a sentence is inconsistent, and the revision sees those checks alone; the "
            "paper always revises.",
            "With contexts, the verification questions are answered by them; the paper uses the model's knowledge.",
            "An answer that refuses or says that it does not know is not checkable, and nothing is planned.",
        ),
    )
    needs: ClassVar[tuple[NeededInput, ...]] = ("chat",)

    def __post_init__(self) -> None:
        """Check the options."""
        if not 1 <= self.questions <= 50:
            raise ConfigError(f"cove: questions must be from 1 to 50, got {self.questions!r}")
        if not 0 <= self.retries <= 10:
            raise ConfigError(f"cove: retries must be from 0 to 10, got {self.retries!r}")

    async def run(self, task: Task, kit: Kit) -> Outcome:
        """Plan, verify, compare and revise.

        When the plan fails, the verdict is `failed` and the answer stands; when one question's check fails, that
        verdict is. Raises InputError, and BackendError when there is no answer because the model failed.
        """
        chat = chat_of(kit, self.name)
        answer = await examined(task, kit, self.name)
        nothing = None if task.whole else unexamined(answer)
        if nothing is not None:
            return nothing
        sentences, warnings = _sentences(task, answer.text, kit)
        warnings = [*answer.warnings, *warnings]
        try:
            plan = _plan_request(task, sentences, self.questions, kit)
            questions = await self._read(chat, plan, "plan_again", lambda r: plan_of(r, sentences, self.questions))
        except BackendError as exc:
            judged = on_answer(answer.text, Verdict.FAILED, reason=str(exc))
            return concluded(answer.text, answer.text, (judged,), warnings=[*warnings, f"plan: {exc}"])
        contexts = usable(task.contexts)
        checks = await together([self._check(chat, question, answer.text, contexts, kit) for question in questions])
        verdicts = [_judged(check, answer.text, whole=task.whole) for check in checks]
        final = answer.text
        wrong = [c for c in checks if c.label in (INCONSISTENT, PARTIALLY)]
        if wrong and task.correct:
            final, why = await _revised(chat, task, answer.text, wrong, kit)
            warnings += why
        scores = [v.score for v in verdicts if v.score is not None]
        return concluded(
            answer.text,
            final,
            verdicts,
            score=math.fsum(scores) / len(scores) if scores else None,
            details={"checks": [_listed(check) for check in checks]},
            warnings=warnings,
        )

    async def _check(
        self, chat: ChatModel, question: Question, answer: str, contexts: Sequence[Reference], kit: Kit
    ) -> Check:
        """Answer a verification question, and compare; a failure is a value."""
        try:
            found = await chat.complete(verification_request(question.text, contexts, kit))
            said = found.text.strip()
            if is_blank(said) or is_refusal(said, kit.prompts) or is_abstention(said, kit.prompts):
                return Check(question=question, answer=said)
            compare = _compare_request(question, said, answer, kit)
            label = await self._read(chat, compare, "compare_again", label_of)
        except BackendError as exc:
            return Check(question=question, failure=str(exc))
        return Check(question=question, answer=said, label=label)

    async def _read(self, chat: ChatModel, request: ChatRequest, again: str, read: Callable[[str], T]) -> T:
        """Return what `read` makes of the reply; one that it refuses is asked for again, a few times.

        Raises ParseError when none can be read, and BackendError when the model fails.
        """
        ask, problem = request, ParseError("no reply")
        for _ in range(1 + self.retries):
            reply = (await chat.complete(ask)).text
            try:
                return read(reply)
            except ParseError as exc:
                problem = exc
            said = Message(role="assistant", content=shorten(reply.strip(), 1000) or "-")
            asked = Message(role="user", content=wording().get("cove", again))
            ask = replace(request, messages=(*request.messages, said, asked))
        raise problem


def verification_request(question: str, contexts: Sequence[Reference], kit: Kit) -> ChatRequest:
    """Return the request that answers a verification question. Nothing of the answer can be in it: it takes none."""
    shown = [block("context", context.text) for context in contexts]
    system = "verify_context_system" if shown else "verify_system"
    return ChatRequest(
        stage="verify",
        messages=(
            Message(role="system", content=wording().get("cove", system)),
            Message(role="user", content="\n".join([*shown, block("question", question)])),
        ),
        temperature=0.0,
        max_tokens=kit.max_reference_tokens,
        seed=kit.seed,
    )


def _sentences(task: Task, answer: str, kit: Kit) -> tuple[tuple[Sentence, ...], list[str]]:
    """Return the sentences that the plan is made from, and a warning when they are not all."""
    if task.whole:
        span = visible(answer)
        return (Sentence(index=0, span=span, text=span.text_of(answer)),), []
    sentences = split_sentences(answer, language_of(kit, answer))
    room = PLAN_LIMIT
    for kept, sentence in enumerate(sentences):
        room -= len(sentence.text)
        if room < 0 and kept:
            return sentences[:kept], [f"cove: only the first {kept} of {len(sentences)} sentences were planned for"]
    return sentences, []


def _plan_request(task: Task, sentences: Sequence[Sentence], count: int, kit: Kit) -> ChatRequest:
    texts = wording()
    shown = [] if task.question is None else [block("question", task.question)]
    numbered = "\n".join(f"{i}. {' '.join(s.text.split())}" for i, s in enumerate(sentences, 1))
    shown += [block("answer", numbered), "", texts.fill("cove", "plan_ask", count=str(count))]
    return ChatRequest(
        stage="plan",
        messages=(
            Message(role="system", content=texts.get("cove", "plan_system").strip()),
            Message(role="user", content="\n".join(shown)),
        ),
        temperature=0.0,
        max_tokens=100 + 60 * count,
        seed=kit.seed,
        json_schema=PLAN_SCHEMA,
    )


def _compare_request(question: Question, found: str, answer: str, kit: Kit) -> ChatRequest:
    texts = wording()
    stated = answer if question.sentence is None else question.sentence.text
    user = [block("sentence", stated), block("question", question.text), block("answer", found)]
    examples: list[Message] = []
    for kind in ("consistent", "inconsistent", "partially"):
        asked = f"{texts.get('cove', f'compare_{kind}').strip()}\n\n{texts.get('cove', 'compare_ask')}"
        examples += [Message(role="user", content=asked), Message(role="assistant", content=kind.upper())]
    return ChatRequest(
        stage="compare",
        messages=(
            Message(role="system", content=texts.get("cove", "compare_system")),
            *examples,
            Message(role="user", content="\n".join([*user, "", texts.get("cove", "compare_ask")])),
        ),
        temperature=0.0,
        max_tokens=_WORD_TOKENS,
        seed=kit.seed,
    )


async def _revised(
    chat: ChatModel, task: Task, answer: str, wrong: Sequence[Check], kit: Kit
) -> tuple[str, tuple[str, ...]]:
    """Return the revised answer, or the answer as it is and why."""
    texts = wording()
    shown = [] if task.question is None else [block("question", task.question)]
    shown.append(block("answer", answer))
    shown += [block("check", f"{c.question.text}\n{c.answer}") for c in wrong]
    request = ChatRequest(
        stage="revise",
        messages=(
            Message(role="system", content=texts.get("cove", "revise_system")),
            Message(role="user", content=texts.get("cove", "revise_example").strip()),
            Message(role="assistant", content=texts.get("cove", "revise_example_reply")),
            Message(role="user", content="\n".join([*shown, "", texts.get("cove", "revise_ask")])),
        ),
        temperature=0.0,
        # A token is rarely shorter than two characters.
        max_tokens=max(kit.max_answer_tokens, 64 + len(answer) // 2),
        seed=kit.seed,
    )
    try:
        new, why = read_answer(await chat.complete(request), answer, kit.prompts)
    except BackendError as exc:
        new, why = None, str(exc)
    return (answer, (f"revise: the answer was not revised: {why}",)) if new is None else (new, ())


def _judged(check: Check, answer: str, *, whole: bool) -> Judged:
    sentence = check.question.sentence
    span = visible(answer) if sentence is None else sentence.span
    verdict, score = (Verdict.UNVERIFIED, None) if check.label is None else _VERDICTS[check.label]
    if check.failure is not None:
        verdict = Verdict.FAILED
    told = (
        f"{check.question.text} {check.answer}: {check.label}" if check.label else f"{NOT_KNOWN}: {check.question.text}"
    )
    return Judged(
        text=span.text_of(answer),
        verdict=verdict,
        score=score,
        span=span,
        sentence=None if whole or sentence is None else sentence.index,
        reason=check.failure or told,
    )


def _listed(check: Check) -> dict[str, Any]:
    sentence = check.question.sentence
    return {
        "sentence": None if sentence is None else sentence.index,
        "question": check.question.text,
        "answer": check.answer,
        "label": check.label,
        "failure": check.failure,
    }
