"""`factscore`: atomic facts, each judged against passages that are retrieved for it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from corrigenda.concurrency import together
from corrigenda.errors import BackendError, BadReply, ConfigError, ParseError, RequestRefused
from corrigenda.methods.common import block, chat_of, concluded, examined, language_of, unexamined
from corrigenda.methods.passages import Found, listed, passages_for, shown, told
from corrigenda.methods.pipelined import WholeClaim
from corrigenda.methods.protocol import Judged, Kit, NeededInput, Outcome, Task, Traits
from corrigenda.methods.wording import wording
from corrigenda.ports import ChatModel, LabelScorer
from corrigenda.replies import shorten
from corrigenda.stages.decompose import make_decomposer
from corrigenda.stages.entail import score_claims
from corrigenda.types import AtomicClaim, ChatRequest, Message, Verdict

JUDGES = ("chat", "nli")
LABELS = ("True", "False")
NO_PASSAGE = "not supported: no passage was found for it"
SUPPORTED = "the passages support it"
NOT_SUPPORTED = "the passages do not support it"
_MARKS = r"[\s*_#>\"'“”‘’`(\[]*"
_WORD_TOKENS = 8
"""Cap on a reply that is one word, in tokens."""


def is_true(reply: str) -> bool:
    """Return whether a reply says True rather than False.

    One of the two words must come first, whatever its case and the marks around it, and the other must not follow.
    Raises ParseError for anything else.
    """
    match = re.match(rf"{_MARKS}(true|false)\b(.*)", reply, re.IGNORECASE | re.DOTALL)
    if match is None or re.search(r"\b(?:true|false)\b", match[2].replace(match[1], ""), re.IGNORECASE):
        raise ParseError(f"the reply does not begin with True or False, or says both: {shorten(reply)!r}")
    return match[1].lower() == "true"


def penalty(facts: int, gamma: float) -> float:
    """Return the length penalty of an answer with `facts` facts (at least 1): exp(1 - γ/n) for n < γ, else 1."""
    return 1.0 if facts >= gamma else math.exp(1 - gamma / facts)


@dataclass(frozen=True, kw_only=True, slots=True)
class FactScore:
    """Min et al. 2023, 'FActScore' (EMNLP, arXiv:2305.14251): the share of an answer's atomic facts that are supported.

    The decompose stage splits the answer; for each fact the `k` best passages are retrieved, and the chat model reads
    them and says whether the fact is true (stage `verify`; "True or False?", the paper's retrieval + LLM). Where the
    model gives the probabilities of its first token, those of True and False decide, and the fact's score is P(False)
    / (P(True) + P(False)). With `judge="nli"` the verifier decides instead: supported is what a passage entails, and
    the score is 1 - P(entailment) of the window that decided.

    An answer with m of n facts supported has the precision m/n and the FActScore m/n · exp(1 - γ/n) for n < γ (m/n
    otherwise); both are in the details. An answer that abstains has neither. The answer's score here (higher: more
    hallucinated) comes from the precision, since the penalty is for saying little, not for saying what is false.
    Nothing is corrected.

    **FActScore knows supported and not supported only.** What is not supported gets the verdict `contradicted`, so
    that it is flagged: refuted and not found are one here.

    Passages come from the kit's retriever, or, without one, are the task's contexts. What else differs from the paper
    is in `traits.differs`. Raises ConfigError for an option out of range.
    """

    k: int = 5
    """Passages per fact, from 1 to 100; 5 in the paper."""
    judge: str = "chat"
    """Who judges the facts: `chat` (the chat model) or `nli` (the verifier)."""
    gamma: float = 10.0
    """γ of the length penalty, in facts, at least 0; 0 switches it off."""
    retries: int = 1
    """How often a reply that says neither True nor False is asked for again; from 0 to 10."""

    name: ClassVar[str] = "factscore"
    traits: ClassVar[Traits] = Traits(
        paper="Min et al. 2023, FActScore: Fine-grained Atomic Evaluation of Factual Precision in Long Form Text "
        "Generation, EMNLP, arXiv:2305.14251 (retrieval + LLM).",
        retrieval=True,
        claim_level=True,
        adaptive=False,
        corrects=False,
        calls="1 + d + n (n facts, d ≤ s sentences decomposed by the model; no n with judge=nli)",
        differs=(
            "Not supported gets the verdict `contradicted`: refuted and not found are one here, as in the paper.",
            "Facts come from our decompose stage; the paper splits every sentence with InstructGPT and examples.",
            "Passages are searched in the whole collection by the fact alone; the paper searches the Wikipedia article "
            "about the person that the answer is about, and names that person in the prompt.",
            "The judge is the run's chat model, asked in the form of a chat; the paper asks ChatGPT or LLaMA 7B tuned "
            "on instructions.",
            "A reply that says neither True nor False is asked for again, and then the fact has failed; the authors' "
            "code guesses from words such as `not` and `unknown`.",
            "A fact for which no passage is found is not supported, without a call.",
            "A fact whose check failed stays among the n facts.",
            "judge=nli is ours; the paper's other judge is a nonparametric model.",
            "Opinions, questions and filler are no facts.",
            "Whether an answer abstains is told by rule, from how its sentences open.",
        ),
    )
    needs: ClassVar[tuple[NeededInput, ...]] = ()

    def __post_init__(self) -> None:
        """Check the options."""
        if not 1 <= self.k <= 100:
            raise ConfigError(f"factscore: k must be from 1 to 100, got {self.k!r}")
        if self.judge not in JUDGES:
            raise ConfigError(f"factscore: judge must be one of {', '.join(JUDGES)}, got {self.judge!r}")
        if not (math.isfinite(self.gamma) and self.gamma >= 0):
            raise ConfigError(f"factscore: gamma must be at least 0, got {self.gamma!r}")
        if not 0 <= self.retries <= 10:
            raise ConfigError(f"factscore: retries must be from 0 to 10, got {self.retries!r}")

    async def run(self, task: Task, kit: Kit) -> Outcome:
        """Judge every fact of the answer.

        Raises InputError when there is neither a retriever nor a context, or no chat model where one is needed, and
        BackendError when the answer cannot be had or the retriever fails.
        """
        answer = await examined(task, kit, self.name)
        nothing = None if task.whole else unexamined(answer)
        if nothing is not None:
            return replace(nothing, details=self._details([], abstained=answer.nothing is not None))
        claims, warnings = await _facts(task, answer.text, kit)
        facts = [claim for claim in claims if claim.checkable]
        passages = await passages_for([f.text for f in facts], task, kit, k=self.k, method=self.name) if facts else []
        judged = await together([self._judged(f, p, kit) for f, p in zip(facts, passages, strict=True)])
        found = iter(judged)
        verdicts = [next(found) if c.checkable else _verdict(c, Verdict.NOT_CHECKABLE, c.reason) for c in claims]
        if self.judge == "chat":
            cut = [(shown(p).left_out, len(p)) for p in passages]
            warnings += told(sum(n for n, _ in cut), sum(n for _, n in cut))
        return concluded(
            answer.text,
            answer.text,
            verdicts,
            score=_doubt(judged),
            details=self._details(judged, abstained=False) | {"passages": [listed(p) for p in passages]},
            warnings=[*answer.warnings, *warnings],
        )

    def _details(self, judged: Sequence[Judged], *, abstained: bool) -> dict[str, Any]:
        n, supported = len(judged), sum(v.verdict is Verdict.SUPPORTED for v in judged)
        known = n and any(v.verdict is not Verdict.FAILED for v in judged)
        precision = supported / n if known else None
        return {
            "facts": n,
            "supported": supported,
            "precision": precision,
            "gamma": self.gamma,
            "factscore": None if precision is None else precision * penalty(n, self.gamma),
            "abstained": abstained,
        }

    async def _judged(self, fact: AtomicClaim, passages: Sequence[Found], kit: Kit) -> Judged:
        """Return the verdict on one fact; a failure is a verdict too."""
        if not passages:
            return replace(_verdict(fact, Verdict.CONTRADICTED, NO_PASSAGE), score=1.0)
        if self.judge == "nli":
            return await _entailed(fact, passages, kit)
        chat = chat_of(kit, self.name)
        try:
            doubt = await self._ask(_request(fact.text, passages, kit), chat)
        except BackendError as exc:
            return _verdict(fact, Verdict.FAILED, str(exc))
        if isinstance(doubt, bool):
            return _decided(fact, supported=not doubt)
        return replace(_decided(fact, supported=doubt < 0.5), score=doubt)

    async def _ask(self, request: ChatRequest, chat: ChatModel) -> float | bool:
        """Return P(False) where the model gives it, else whether its reply says False. Raises BackendError."""
        if isinstance(chat, LabelScorer):
            scores = await _label_scores(chat, request)
            if scores is not None:
                true, false = (math.exp(s - max(scores)) for s in scores)
                return false / (true + false)
        problem = ParseError("no reply")
        ask = request
        for _ in range(1 + self.retries):
            reply = (await chat.complete(ask)).text
            try:
                return not is_true(reply)
            except ParseError as exc:
                problem = exc
            again = Message(role="user", content=wording().get("factscore", "again"))
            said = Message(role="assistant", content=reply.strip() or "-")
            ask = replace(request, messages=(*request.messages, said, again))
        raise problem


async def _label_scores(chat: LabelScorer, request: ChatRequest) -> tuple[float, ...] | None:
    """Return the log-probabilities of True and False; None where the model does not tell either."""
    try:
        scores = await chat.label_logprobs(request, LABELS)
    except (BadReply, RequestRefused):
        return None  # a server that gives no log-probabilities; it can still be asked in words
    return scores if max(scores) > -math.inf else None


def _request(fact: str, passages: Sequence[Found], kit: Kit) -> ChatRequest:
    """Return the request for one fact. The best passage stands last, as in the authors' code."""
    texts = wording()
    user = [shown(passages, best_last=True).text, block("fact", fact), "", texts.get("factscore", "ask")]
    return ChatRequest(
        stage="verify",
        messages=(
            Message(role="system", content=texts.get("factscore", "system")),
            Message(role="user", content="\n".join(user)),
        ),
        temperature=0.0,
        max_tokens=_WORD_TOKENS,
        seed=kit.seed,
    )


async def _facts(task: Task, answer: str, kit: Kit) -> tuple[tuple[AtomicClaim, ...], list[str]]:
    """Return the answer's facts, in order, and warnings."""
    language = language_of(kit, answer)
    decomposer = WholeClaim() if task.whole else make_decomposer(kit.decomposer, kit.chat, kit.prompts, language)
    found = await decomposer.decompose(answer, task.question)
    return found.claims, list(found.warnings)


async def _entailed(fact: AtomicClaim, passages: Sequence[Found], kit: Kit) -> Judged:
    """Return what the verifier says of a fact: supported is what the window that decides entails."""
    references = [p.reference for p in passages]
    language = language_of(kit, passages[0].reference.text)
    (scored,) = await score_claims([fact], references, kit.entailer, language=language)
    if scored.scores is None:
        return _verdict(fact, Verdict.FAILED, scored.failure or scored.reason)
    decided = _decided(fact, supported=scored.scores.label == "entailment")
    return replace(decided, score=1 - scored.scores.entailment, signed=scored.signed)


def _decided(fact: AtomicClaim, *, supported: bool) -> Judged:
    if supported:
        return _verdict(fact, Verdict.SUPPORTED, SUPPORTED)
    return _verdict(fact, Verdict.CONTRADICTED, NOT_SUPPORTED)


def _verdict(claim: AtomicClaim, verdict: Verdict, reason: str | None) -> Judged:
    return Judged(text=claim.text, verdict=verdict, span=claim.span, sentence=claim.sentence, reason=reason)


def _doubt(judged: Sequence[Judged]) -> float | None:
    """Return the mean over the facts that were decided of how much each is held not to be supported; None of none."""
    decided = [v for v in judged if v.verdict is not Verdict.FAILED]
    doubts = [v.score if v.score is not None else float(v.verdict is Verdict.CONTRADICTED) for v in decided]
    return math.fsum(doubts) / len(doubts) if doubts else None
