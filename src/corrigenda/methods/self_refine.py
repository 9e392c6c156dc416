"""`self-refine`: rounds of feedback on the answer and rewriting by it, all by the same model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from corrigenda.errors import BackendError, ConfigError
from corrigenda.methods.common import (
    Examined,
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
from corrigenda.replies import is_abstention, is_refusal
from corrigenda.types import ChatRequest, Message, Verdict
from corrigenda.windows import is_blank

_FEEDBACK_TOKENS = 160
"""Cap on a round's feedback, in tokens."""
_TURNS: tuple[Literal["user", "assistant"], ...] = ("user", "assistant")


def finds_nothing(feedback: str) -> bool:
    """Return whether feedback says that there is nothing to fix.

    It must open like one of the texts `nothing` of the wording (`NOTHING TO FIX` is what is asked for), whatever
    its case, and not go on with one of the `contrasts` (`…, but the year is wrong`).
    """
    texts = wording()
    opening = "|".join(re.escape(t).replace(r"\ ", r"\s+") for t in texts.words("self-refine", "nothing"))
    found = re.match(rf"[\s*_#>\"'“”‘’`(\[-]*(?:{opening})\b", feedback, re.IGNORECASE)
    contrast = "|".join(re.escape(t) for t in texts.words("self-refine", "contrasts"))
    return found is not None and not re.search(rf"\b(?:{contrast})\b", feedback[found.end() :], re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfRefine:
    """Madaan et al. 2023, 'Self-Refine' (NeurIPS, arXiv:2303.17651): feedback, rewrite by it, and again.

    The model is asked for the answer's factual mistakes, then for the answer without them, at most `rounds` times;
    it stops as soon as the feedback says that there is nothing to fix. The first feedback gives the verdict:
    mistakes found are `contradicted`, none are `supported`.

    What differs from the paper is in `traits.differs`. Raises ConfigError when the option is out of range.
    """

    rounds: int = 2
    """How many rounds of feedback and rewriting there are at most; from 1 to 10. The paper has up to 4."""

    name: ClassVar[str] = "self-refine"
    traits: ClassVar[Traits] = Traits(
        paper="Madaan et al. 2023, Self-Refine: Iterative Refinement with Self-Feedback, NeurIPS, arXiv:2303.17651.",
        retrieval=False,
        claim_level=False,
        adaptive=False,
        corrects=True,
        calls="2 to 1 + 2R (R rounds)",
        differs=(
            "At most 2 rounds by default; the paper has up to 4.",
            "The feedback is about factual mistakes alone; the paper's prompts are made for other tasks, with several "
            "solved examples each.",
            "A rewrite sees the last answer and the last feedback; in the paper it sees all rounds before it.",
            "Feedback and rewrites are decoded at temperature 0; the paper uses 0.7.",
            "The verdict, read from the first feedback, is ours: the paper flags nothing.",
            "A rewrite that is empty, cut off or a refusal is not taken, and ends the rounds.",
            "An answer that refuses or says that it does not know is not checkable and not refined.",
        ),
    )
    needs: ClassVar[tuple[NeededInput, ...]] = ("chat",)

    def __post_init__(self) -> None:
        """Check the option."""
        if not 1 <= self.rounds <= 10:
            raise ConfigError(f"self-refine: rounds must be from 1 to 10, got {self.rounds!r}")

    async def run(self, task: Task, kit: Kit) -> Outcome:
        """Refine the answer; without `correct`, ask for the first feedback alone.

        What fails in a round ends the rounds: the last good answer stands, with a warning. Raises InputError, and
        BackendError when there is no answer because the model failed.
        """
        chat = chat_of(kit, self.name)
        answer = await examined(task, kit, self.name)
        nothing = unexamined(answer)
        return nothing if nothing is not None else await self._refined(task, kit, chat, answer)

    async def _refined(self, task: Task, kit: Kit, chat: ChatModel, answer: Examined) -> Outcome:
        warnings = list(answer.warnings)
        rounds: list[dict[str, str | None]] = []
        verdicts: list[Judged] = []
        current = answer.text
        for _ in range(self.rounds):
            feedback, verdict, problem = await _feedback(chat, task, current, kit)
            verdicts.append(on_answer(answer.text, verdict, reason=problem))
            rounds.append({"feedback": feedback, "answer": None})
            if problem is not None:
                warnings.append(f"feedback: {problem}")
            if feedback is None or verdict is not Verdict.CONTRADICTED or not task.correct:
                break
            refined, why = await _refine(chat, task, current, feedback, kit)
            if refined is None:
                warnings.append(f"refine: the answer was not rewritten: {why}")
                break
            rounds[-1]["answer"] = current = refined
        return concluded(answer.text, current, verdicts[:1], details={"rounds": rounds}, warnings=warnings)


async def _feedback(chat: ChatModel, task: Task, answer: str, kit: Kit) -> tuple[str | None, Verdict, str | None]:
    """Return the feedback on an answer (None when there is none), the verdict it amounts to, and what went wrong."""
    try:
        completion = await chat.complete(_request("feedback", task, answer, kit, limit=_FEEDBACK_TOKENS))
    except BackendError as exc:
        return None, Verdict.FAILED, str(exc)
    text = completion.text.strip()
    refused = completion.refusal is not None or is_refusal(text, kit.prompts) or is_abstention(text, kit.prompts)
    if is_blank(text) or refused:
        return None, Verdict.UNVERIFIED, "the model gave no feedback"
    return text, Verdict.SUPPORTED if finds_nothing(text) else Verdict.CONTRADICTED, None


async def _refine(chat: ChatModel, task: Task, answer: str, feedback: str, kit: Kit) -> tuple[str | None, str]:
    """Return the answer rewritten by the feedback, or None and why there is none."""
    try:
        request = _request("refine", task, answer, kit, limit=kit.max_answer_tokens, feedback=feedback)
        completion = await chat.complete(request)
    except BackendError as exc:
        return None, str(exc)
    return read_answer(completion, answer, kit.prompts)


def _request(stage: str, task: Task, answer: str, kit: Kit, *, limit: int, feedback: str | None = None) -> ChatRequest:
    """Return the request for feedback on an answer, or, with feedback, for the answer rewritten by it."""
    texts = wording()
    shown = [material(question=task.question, answer=answer, contexts=task.contexts)]
    if feedback is not None:
        shown.append(block("feedback", feedback))
    by = texts.get("self-refine", "by_context" if usable(task.contexts) else "by_knowledge")
    ask = texts.fill("self-refine", f"{stage}_ask", by=by)
    return ChatRequest(
        stage=stage,
        messages=(
            Message(role="system", content=texts.get("self-refine", f"{stage}_system").strip()),
            *(
                Message(role=role, content=texts.get("self-refine", f"{stage}_example_{role}").strip())
                for role in _TURNS
            ),
            Message(role="user", content="\n".join([*shown, "", ask])),
        ),
        temperature=0.0,
        max_tokens=limit,
        seed=kit.seed,
    )
