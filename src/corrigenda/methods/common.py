"""What the methods share: the answer that is examined, samples, material as data, and reading answers back.

Whatever a method puts into a request of its own besides its wording (questions, answers, contexts, passages, a
model's own feedback) goes through `block`: it stands between markers, and nothing in it can close them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from corrigenda.checkable import ABSTENTION, REFUSAL
from corrigenda.concurrency import together
from corrigenda.errors import BackendError, BadReply, InputError
from corrigenda.methods.protocol import Judged, Kit, Outcome, Task
from corrigenda.ports import ChatModel
from corrigenda.prompts import Prompts
from corrigenda.replies import is_abstention, is_refusal, unwrap_rewrite
from corrigenda.stages import generate as generation
from corrigenda.text import detect_language
from corrigenda.types import ChatRequest, Completion, Reference, Verdict
from corrigenda.windows import is_blank, visible

MARKERS = (
    "question",
    "answer",
    "context",
    "claim",
    "sentence",
    "evidence",
    "feedback",
    "passage",
    "reference",
    "fact",
    "check",
)
"""The names of the markers that material may stand between."""
_OPENING = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(MARKERS)})s?\b)", re.IGNORECASE)
_GUARDED = re.compile(_OPENING.pattern.replace("<", "‹", 1), re.IGNORECASE)
_ANSWER_START = re.compile(r"\A\s*<answer>", re.IGNORECASE)
_ANSWER_END = re.compile(r"</answer>", re.IGNORECASE)
_STRIDE = 1000
_PARAGRAPHS = re.compile(r"\n[ \t\r]*\n")
_ANNOUNCED = re.compile(
    r"[*_#\s]*(?:(?:sure|certainly|of course|okay)\s*[,!.:]?\s*)?(?:here(?:\s+is|['’]s)\s+)?(?:(?:the|an?|my)\s+)?"
    r"(?:corrected|improved|revised|refined|rewritten|updated|better|new|final)\s+(?:answer|version|response)"
    r"(?:\s+of\s+the\s+answer)?[*_]*\s*[:：][*_]*\s*",
    re.IGNORECASE,
)
"""`Here is the corrected answer:` and the like, which our English requests invite."""


def as_data(text: str) -> str:
    """Return a text that can neither open nor close a marker: the `<` before a marker's name becomes `‹`."""
    return _OPENING.sub("‹", text)


def block(marker: str, text: str) -> str:
    """Return `text` as data between `<marker>` and `</marker>`, each on a line of its own.

    Raises ValueError for a marker that `as_data` would not guard.
    """
    if marker not in MARKERS:
        raise ValueError(f"unknown marker {marker!r}; there are {', '.join(MARKERS)}")
    return f"<{marker}>\n{as_data(text).strip()}\n</{marker}>"


def material(*, question: str | None, answer: str, contexts: Sequence[Reference] | None) -> str:
    """Return a question (when there is one), contexts (those that are not blank) and an answer, in this order."""
    parts = [] if question is None else [block("question", question)]
    parts += [block("context", c.text) for c in usable(contexts)]
    return "\n".join([*parts, block("answer", answer)])


def usable(contexts: Sequence[Reference] | None) -> tuple[Reference, ...]:
    """Return the contexts that have something in them."""
    return tuple(c for c in contexts or () if not is_blank(c.text))


def chat_of(kit: Kit, method: str) -> ChatModel:
    """Return the kit's chat model. Raises InputError when there is none."""
    if kit.chat is None:
        raise InputError(f"the method {method!r} needs a chat model here; name one with --llm")
    return kit.chat


def question_of(task: Task, method: str) -> str:
    """Return the task's question. Raises InputError when there is none, or it is blank."""
    if task.question is None or is_blank(task.question):
        raise InputError(f"the method {method!r} needs a question; this task has none")
    return task.question


def language_of(kit: Kit, text: str) -> str:
    """Return the language whose sentences are looked for in `text`: the kit's, or, for `auto`, the one it is in."""
    return detect_language(text) if kit.language == "auto" else kit.language


# The answer that is examined ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Examined:
    """The answer that a method looks at."""

    text: str
    nothing: str | None = None
    """Why there is nothing in it to check: it is a refusal, or says that it does not know; else None."""
    warnings: tuple[str, ...] = ()

    @property
    def blank(self) -> bool:
        """Whether the model gave no answer at all."""
        return is_blank(self.text)


def base_request(question: str, kit: Kit) -> ChatRequest:
    """Return the request for the answer, the same as the pipeline's, so that all methods examine one answer."""
    return generation.request(
        question,
        kit.prompts,
        temperature=kit.temperature,
        top_p=kit.top_p,
        max_tokens=kit.max_answer_tokens,
        seed=kit.seed,
    )


async def examined(task: Task, kit: Kit, method: str) -> Examined:
    """Return the task's answer, or generate one.

    Raises InputError when the task has neither an answer nor a question, or a blank one, and BackendError when
    the model fails.
    """
    if task.answer is not None:
        if is_blank(task.answer):
            raise InputError("the answer is empty; give its text")
        return _examined(task.answer, kit.prompts)
    if task.whole:
        raise InputError("a claim that is to be verified as it is must be given as the task's answer")
    return reply_examined(await chat_of(kit, method).complete(base_request(question_of(task, method), kit)), kit)


def reply_examined(completion: Completion, kit: Kit) -> Examined:
    """Return a reply to the question as the answer to look at."""
    warnings: list[str] = []
    if completion.finish_reason == "length":
        warnings.append(f"the answer was cut off at its cap of {kit.max_answer_tokens} tokens")
    if is_blank(completion.text):
        refused = completion.refusal is not None or completion.finish_reason in ("refusal", "content_filter")
        warnings.append("the model refused to answer" if refused else "the model gave an empty answer")
    return _examined(completion.text, kit.prompts, warnings)


def _examined(text: str, prompts: Prompts, warnings: Sequence[str] = ()) -> Examined:
    nothing = REFUSAL if is_refusal(text, prompts) else ABSTENTION if is_abstention(text, prompts) else None
    return Examined(text=text, nothing=nothing, warnings=tuple(warnings))


def unexamined(answer: Examined) -> Outcome | None:
    """Return the outcome for an answer in which there is nothing to check; None when there is something.

    Without any answer the method says nothing (`flagged` is None); a refusal is not checkable and not flagged.
    """
    if answer.blank:
        return Outcome(answer=answer.text, final_answer=answer.text, warnings=answer.warnings)
    if answer.nothing is None:
        return None
    verdict = on_answer(answer.text, Verdict.NOT_CHECKABLE, reason=answer.nothing)
    return concluded(answer.text, answer.text, (verdict,), warnings=answer.warnings)


# Verdicts -----------------------------------------------------------------------------------------------------------


def on_answer(answer: str, verdict: Verdict, *, score: float | None = None, reason: str | None = None) -> Judged:
    """Return a verdict on the answer as a whole, for methods that do not look at its claims one by one."""
    span = visible(answer)
    return Judged(text=span.text_of(answer), verdict=verdict, score=score, span=span, reason=reason)


def is_flagged(verdicts: Sequence[Judged]) -> bool | None:
    """Return whether a verdict is `contradicted`; None when every check that was due failed, so that none can tell."""
    found = {v.verdict for v in verdicts} - {Verdict.NOT_CHECKABLE}
    return None if found == {Verdict.FAILED} else Verdict.CONTRADICTED in found


def concluded(
    answer: str,
    final_answer: str,
    verdicts: Sequence[Judged],
    *,
    score: float | None = None,
    details: dict[str, object] | None = None,
    warnings: Sequence[str] = (),
) -> Outcome:
    """Return an outcome that is flagged by its verdicts. Without a `score` it has its verdicts' highest one."""
    scores = [v.score for v in verdicts if v.score is not None]
    return Outcome(
        answer=answer,
        final_answer=final_answer,
        verdicts=tuple(verdicts),
        flagged=is_flagged(verdicts),
        score=score if score is not None else max(scores, default=None),
        details=details or {},
        warnings=tuple(dict.fromkeys(warnings)),
    )


# What the model writes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """Further answers to the same question, drawn independently."""

    texts: tuple[str, ...]
    """Those that came, in the order of their indices; none is blank."""
    warnings: tuple[str, ...] = ()
    """One for each that did not come."""
    failures: tuple[BackendError, ...] = ()
    """What those calls raised that failed; a reply without text counts, a refusal does not."""


async def draw(question: str, kit: Kit, method: str, *, count: int, temperature: float, top_p: float) -> Draw:
    """Return up to `count` further answers, with the request of the answer itself but for these settings.

    Sample i (from 1) has the stage `sample` and the kit's seed plus 1000 i: no seed that the answer, another sample
    or a repeat of the run (which counts its seeds up) has. The calls run at the same time. One that fails is left
    out with a warning.
    """
    chat = chat_of(kit, method)
    plain = replace(base_request(question, kit), stage="sample", temperature=temperature, top_p=top_p)
    asks = [replace(plain, seed=None if kit.seed is None else kit.seed + _STRIDE * i) for i in range(1, count + 1)]
    replies = await together([_complete(chat, ask) for ask in asks])
    texts: list[str] = []
    warnings: list[str] = []
    failures: list[BackendError] = []
    for number, reply in enumerate(replies, 1):
        if isinstance(reply, BackendError):
            failures.append(reply)
            warnings.append(f"sample {number} of {count} is missing: {reply}")
        elif is_blank(reply.text):
            warnings.append(f"sample {number} of {count} is missing: the model refused to answer")
        else:
            texts.append(reply.text)
    return Draw(texts=tuple(texts), warnings=tuple(warnings), failures=tuple(failures))


async def _complete(chat: ChatModel, ask: ChatRequest) -> Completion | BackendError:
    """Return the reply, or the failure as a value: the other samples may still come."""
    try:
        completion = await chat.complete(ask)
    except BackendError as exc:
        return exc
    refused = completion.refusal is not None or completion.finish_reason in ("refusal", "content_filter")
    if is_blank(completion.text) and not refused:
        return BadReply(f"the model gave an empty answer (finish reason {completion.finish_reason!r})")
    return completion


def read_answer(completion: Completion, before: str, prompts: Prompts) -> tuple[str | None, str]:
    """Return the answer that a reply gives in place of `before`, or None and why there is none.

    An opening such as `Here is the corrected answer:` is removed, and, where `before` is one paragraph, whatever
    follows the first paragraph of the reply: small models explain themselves there.
    """
    if completion.refusal is not None or completion.finish_reason in ("refusal", "content_filter"):
        return None, "the model refused"
    if completion.finish_reason == "length":
        return None, "the new answer was cut off"
    return _answer_in(completion.text, before, prompts)


def _answer_in(text: str, before: str, prompts: Prompts) -> tuple[str | None, str]:
    announced = _ANNOUNCED.match(text)
    text = _without_marker(text[announced.end() :] if announced else text, before)
    paragraphs = [p for p in _PARAGRAPHS.split(text.strip()) if not is_blank(p)]
    for position, paragraph in enumerate(paragraphs):
        if is_refusal(paragraph, prompts) or is_abstention(paragraph, prompts):
            return None, "the model refused, or said that it does not know"
        first = unwrap_rewrite(paragraph, prompts, source=before)
        if first is not None:
            rest = paragraphs[position + 1 :] if _PARAGRAPHS.search(before.strip()) else []
            return "\n\n".join([first, *rest]), ""
    return None, "the model gave no new answer"


def _without_marker(text: str, before: str) -> str:
    """Return what stands between `<answer>` and `</answer>`, which models echo; the text as it is without them.

    A marker's name that stood in `before` itself gets back the `<` that `as_data` took from it.
    """
    inside = _ANSWER_END.split(_ANSWER_START.sub("", text), maxsplit=1)[0]
    return inside if as_data(before) == before else _GUARDED.sub("<", inside)
