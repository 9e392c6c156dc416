"""`self-check`: a second look at the answer by the same model, without NLI."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from corrigenda.errors import BackendError, ConfigError, ParseError
from corrigenda.methods.common import (
    block,
    chat_of,
    concluded,
    examined,
    material,
    on_answer,
    read_answer,
    unexamined,
    usable,
)
from corrigenda.methods.protocol import Judged, Kit, NeededInput, Outcome, Task, Traits
from corrigenda.methods.wording import wording
from corrigenda.ports import ChatModel
from corrigenda.replies import shorten
from corrigenda.types import ChatRequest, Completion, Message, Verdict

_WORDS = {
    "correct": Verdict.SUPPORTED,
    "supported": Verdict.SUPPORTED,
    "incorrect": Verdict.CONTRADICTED,
    "contradicted": Verdict.CONTRADICTED,
    "unknown": Verdict.UNVERIFIED,
    "not enough information": Verdict.UNVERIFIED,
}
ANSWER_WORDS = ("correct", "incorrect")
CLAIM_WORDS = ("supported", "contradicted", "unknown", "not enough information")
_TURNS: tuple[Literal["user", "assistant"], ...] = ("user", "assistant")
_WORD_TOKENS = 8
"""Cap on a reply that is one word, in tokens."""


def verdict_of(reply: str, words: tuple[str, ...]) -> tuple[Verdict, str]:
    """Return the verdict that a reply opens with, and what follows it.

    One of `words` must come first, whatever its case and the marks around it. `correct` must also end there (at a
    line's end, a full stop, a colon, a dash or the like): `Correct answer: …` is no verdict. Raises ParseError for
    anything else.
    """
    marks = r"*_\"'“”‘’`)\]"
    ended = rf"(?=[{marks}]*\s*(?:[.:,;!–—-]|\n|\Z))"
    known = "|".join(word.replace(" ", r"[\s_-]+") + (ended if word == "correct" else "") for word in words)
    match = re.match(rf"[\s#>(\[{marks}]*({known})\b[{marks}]*", reply, re.IGNORECASE)
    if match is None:
        asked = ", ".join(word.upper() for word in words)
        raise ParseError(f"the reply does not begin with one of {asked}: {shorten(reply)!r}")
    word = re.sub(r"[\s_-]+", " ", match.group(1).lower())
    return _WORDS[word], reply[match.end() :].lstrip(" \t\r\n.:,;!–—-*_")


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfCheck:
    """The paper's second look without NLI (its Table 4): the model is shown the answer and judges it.

    It sees the question and the contexts where there are any. It replies CORRECT, or INCORRECT and the answer with
    its mistakes corrected; a reply in another form is asked for again, and after that the answer is `unverified`.
    A claim that is given as such (FEVER) is judged SUPPORTED, CONTRADICTED or UNKNOWN, and never rewritten. Contexts
    are shown whole: where they are more than the model reads at once, the check has failed.

    The paper does not give its prompt; ours is in `wording.toml`. Raises ConfigError for an option out of range.
    """

    retries: int = 2
    """How often a reply that cannot be read is asked for again; from 0 to 10."""

    name: ClassVar[str] = "self-check"
    traits: ClassVar[Traits] = Traits(
        paper="The paper's second look by the same model, without NLI (Table 4).",
        retrieval=False,
        claim_level=False,
        adaptive=False,
        corrects=True,
        calls="2, and up to 2 more when a reply cannot be read",
        differs=(
            "The paper gives no prompt and no form of reply; both are ours.",
            "The paper has no result for FEVER; here a claim is judged in one word and never rewritten.",
            "An answer that refuses or says that it does not know is not checkable, and there is no second look.",
        ),
    )
    needs: ClassVar[tuple[NeededInput, ...]] = ("chat",)

    def __post_init__(self) -> None:
        """Check the option."""
        if not 0 <= self.retries <= 10:
            raise ConfigError(f"self-check: retries must be from 0 to 10, got {self.retries!r}")

    async def run(self, task: Task, kit: Kit) -> Outcome:
        """Take the second look.

        When it fails, the verdict is `failed` and the answer stands. Raises InputError, and BackendError when
        there is no answer because the model failed.
        """
        chat = chat_of(kit, self.name)
        answer = await examined(task, kit, self.name)
        nothing = None if task.whole else unexamined(answer)
        if nothing is not None:
            return nothing
        warnings = list(answer.warnings)
        request = _claim_request(task, answer.text, kit) if task.whole else _answer_request(task, answer.text, kit)
        words = CLAIM_WORDS if task.whole else ANSWER_WORDS
        replies: list[str] = []
        try:
            verdict, rest, completion = await self._look(chat, request, words, replies)
        except ParseError as exc:
            judged = on_answer(answer.text, Verdict.UNVERIFIED, reason=str(exc))
            return _concluded(answer.text, answer.text, judged, replies, warnings)
        except BackendError as exc:
            judged = on_answer(answer.text, Verdict.FAILED, reason=str(exc))
            return _concluded(answer.text, answer.text, judged, replies, [*warnings, f"verify: {exc}"])
        final = answer.text
        if verdict is Verdict.CONTRADICTED and task.correct and not task.whole:
            new, why = read_answer(replace(completion, text=rest), answer.text, kit.prompts)
            final = answer.text if new is None else new
            if new is None:
                warnings.append(f"verify: the answer was not corrected: {why}")
        return _concluded(answer.text, final, on_answer(answer.text, verdict), replies, warnings)

    async def _look(
        self, chat: ChatModel, request: ChatRequest, words: tuple[str, ...], replies: list[str]
    ) -> tuple[Verdict, str, Completion]:
        """Return the verdict, what follows it, and the reply. Raises ParseError when no reply can be read."""
        ask = request
        problem = ParseError("no reply")
        for _ in range(1 + self.retries):
            completion = await chat.complete(ask)
            replies.append(completion.text)
            try:
                return (*verdict_of(completion.text, words), completion)
            except ParseError as exc:
                problem = exc
            again = wording().get("self-check", "again_claim" if words is CLAIM_WORDS else "again_answer")
            said = Message(role="assistant", content=completion.text.strip() or "-")
            ask = replace(request, messages=(*request.messages, said, Message(role="user", content=again)))
        raise problem


def _concluded(answer: str, final: str, judged: Judged, replies: list[str], warnings: list[str]) -> Outcome:
    return concluded(answer, final, (judged,), details={"replies": replies}, warnings=warnings)


def _answer_request(task: Task, answer: str, kit: Kit) -> ChatRequest:
    """Return the request for a second look at an answer; for its verdict alone where nothing is corrected."""
    texts = wording()
    by = "by_context" if usable(task.contexts) else "by_knowledge"
    ask = texts.fill("self-check", "ask" if task.correct else "ask_word", by=texts.get("self-check", by))
    examples = [
        Message(role=role, content=texts.get("self-check", f"example_{kind}_{role}").strip())
        for kind in ("right", "wrong")
        for role in _TURNS
    ]
    shown = material(question=task.question, answer=answer, contexts=task.contexts)
    return ChatRequest(
        stage="verify",
        messages=(
            Message(role="system", content=texts.get("self-check", "system").strip()),
            *(examples if task.correct else ()),
            Message(role="user", content=f"{shown}\n\n{ask}"),
        ),
        temperature=0.0,
        max_tokens=_WORD_TOKENS + kit.max_answer_tokens if task.correct else _WORD_TOKENS,
        seed=kit.seed,
    )


def _claim_request(task: Task, claim: str, kit: Kit) -> ChatRequest:
    """Return the request for a verdict on a claim, by the evidence where there is some."""
    texts = wording()
    evidence = usable(task.contexts)
    shown = [block("evidence", context.text) for context in evidence]
    if task.question is not None:
        shown.insert(0, block("question", task.question))
    ask = texts.get("self-check", "ask_evidence" if evidence else "ask_claim")
    return ChatRequest(
        stage="verify",
        messages=(
            Message(role="system", content=texts.get("self-check", "system_claim").strip()),
            Message(role="user", content="\n".join([*shown, block("claim", claim), "", ask])),
        ),
        temperature=0.0,
        max_tokens=_WORD_TOKENS,
        seed=kit.seed,
    )
