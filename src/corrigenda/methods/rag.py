"""`rag`: the answer is made from retrieved passages, and its claims are verified against them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from corrigenda.errors import ConfigError
from corrigenda.methods.common import (
    Examined,
    base_request,
    block,
    chat_of,
    examined,
    question_of,
    reply_examined,
    unexamined,
)
from corrigenda.methods.passages import Found, listed, passages_for, shown, told
from corrigenda.methods.pipelined import run_pipeline
from corrigenda.methods.protocol import Kit, NeededInput, Outcome, Task, Traits
from corrigenda.methods.wording import wording
from corrigenda.policies import make_policy
from corrigenda.types import Message


@dataclass(frozen=True, kw_only=True, slots=True)
class Rag:
    """Lewis et al. 2020, 'Retrieval-Augmented Generation' (NeurIPS, arXiv:2005.11401), and the paper's verification.

    The `k` best passages for the question are retrieved, the answer is made from them (stage `answer`), and its claims
    are put through the pipeline's check with the passages as references: scored by the verifier, decided by the kit's
    policy, corrected where they are contradicted. An answer that is given is verified against the passages that its
    question finds (or the answer itself, without a question).

    Passages come from the kit's retriever, or, without one, are the task's contexts. What else differs is in
    `traits.differs`. Raises ConfigError for an option out of range.
    """

    k: int = 5
    """Passages per question, from 1 to 100; Lewis et al. use 5 or 10."""

    name: ClassVar[str] = "rag"
    traits: ClassVar[Traits] = Traits(
        paper="Lewis et al. 2020, Retrieval-Augmented Generation for Knowledge-Intensive NLP Tasks, NeurIPS, "
        "arXiv:2005.11401; verified as the paper's retrieval-augmented verification, of which it gives the latency.",
        retrieval=True,
        claim_level=True,
        adaptive=True,
        corrects=True,
        calls="1 + d + f (d ≤ s sentences decomposed by the model)",
        differs=(
            "The passages stand in the prompt of a chat model; Lewis et al. train a retriever and a generator together "
            "and sum over the passages.",
            "The retriever is the kit's (BM25 or memory); theirs is a dense one (DPR).",
            "Lewis et al. verify nothing. The paper measures the latency of its retrieval-augmented verification and "
            "does not describe it; this one is the pipeline's check with the passages in place of recall.",
            "The verdicts are those of the kit's policy; its threshold adapts under `paper` and `bounded` only.",
            "Where no passage is found the question is answered without any, and nothing can be verified.",
        ),
    )
    needs: ClassVar[tuple[NeededInput, ...]] = ()

    def __post_init__(self) -> None:
        """Check the option."""
        if not 1 <= self.k <= 100:
            raise ConfigError(f"rag: k must be from 1 to 100, got {self.k!r}")

    async def run(self, task: Task, kit: Kit) -> Outcome:
        """Retrieve, answer unless there is an answer, verify and correct.

        Raises InputError when there is neither a retriever nor a context, and BackendError when the retriever fails
        or there is no answer because the model failed.
        """
        given = task.answer is not None
        query = str(task.answer) if given and task.question is None else question_of(task, self.name)
        (passages,) = await passages_for([query], task, kit, k=self.k, method=self.name)
        details = {"passages": listed(passages)}
        if given or task.whole or not passages:
            answer = await examined(task, kit, self.name)
        else:
            answer = await self._answered(query, passages, kit)
        if answer.blank and (nothing := unexamined(answer)) is not None:
            return replace(nothing, details=details)
        outcome = await run_pipeline(
            replace(task, answer=answer.text, contexts=tuple(p.reference for p in passages)),
            kit,
            kit.fitted or make_policy(kit.policy, **kit.policy_options),
            self.name,
        )
        return replace(outcome, details=details, warnings=(*answer.warnings, *outcome.warnings))

    async def _answered(self, question: str, passages: Sequence[Found], kit: Kit) -> Examined:
        """Return the answer that the model makes from the passages. Raises BackendError."""
        texts, material = wording(), shown(passages)
        plain = base_request(question, kit)
        user = [material.text, block("question", question), "", texts.get("rag", "ask")]
        request = replace(
            plain,
            stage="answer",
            messages=(
                Message(role="system", content=texts.get("rag", "system")),
                Message(role="user", content="\n".join(user)),
            ),
        )
        answer = reply_examined(await chat_of(kit, self.name).complete(request), kit)
        return replace(answer, warnings=(*answer.warnings, *told(material.left_out, len(passages))))
