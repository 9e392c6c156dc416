"""The judge `chat`: a chat model says by one letter with which of two lists an answer agrees.

It is asked twice, with the lists in either order, since small models prefer one letter whatever they read. Where the
model reports log-probabilities those of the two letters are read and averaged; where it does not, both replies must
name the same list, or the answer is undecided.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources

from corrigenda.concurrency import together
from corrigenda.evals.judge import UNSTATED, abstention, failure, judgement, require_lists, stating
from corrigenda.evals.records import Judgement
from corrigenda.methods.common import block
from corrigenda.ports import ChatModel, LabelScorer
from corrigenda.prompts import Prompts
from corrigenda.types import ChatRequest, Message

LABELS = ("A", "B")
ATTEMPTS = 2
"""How often a model is asked whose reply is neither letter."""
MAX_TOKENS = 512
"""Cap on a reply, for models that reason before they answer."""


@cache
def wording() -> Prompts:
    """Return the judge's texts."""
    text = resources.files("corrigenda.evals").joinpath("wording.toml").read_text("utf-8")
    return Prompts(language="en", tables=tomllib.loads(text))


class ChatJudge:
    """A judge over a chat model. The model is shared with whoever made it, and not closed from here."""

    def __init__(self, model: ChatModel) -> None:
        """Ask `model`."""
        self._model = model

    @property
    def name(self) -> str:
        """`chat:MODEL`."""
        return f"chat:{self._model.name}"

    async def judge(
        self, question: str | None, answer: str, correct: Sequence[str], incorrect: Sequence[str]
    ) -> Judgement:
        """Ask in both orders. See `corrigenda.evals.judge.Judge`."""
        require_lists(correct, incorrect)
        if (found := abstention(answer)) is not None:
            return found
        accepted, rejected = stating(correct), stating(incorrect)
        if not accepted and not rejected:
            return judgement(None, UNSTATED)
        asks = [request(question, answer, accepted, rejected, swapped=swapped) for swapped in (False, True)]
        if isinstance(self._model, LabelScorer):
            return await self._by_probability(self._model, asks)
        first, second = await together([self._letter(self._model, ask) for ask in asks])
        if first is None or second is None:
            return failure("the judge's reply is neither A nor B", replies=[first, second])
        if first == second:
            return judgement(None, f"the judge names list {first} in both orders", replies=[first, second])
        agrees = first == "A"
        return judgement(agrees, _told(agrees), replies=[first, second])

    async def _by_probability(self, model: LabelScorer, asks: Sequence[ChatRequest]) -> Judgement:
        shares = []
        for ask, accepted in zip(asks, (0, 1), strict=True):
            weights = [math.exp(value) for value in await model.label_logprobs(ask, LABELS)]
            if not sum(weights) > 0:
                return failure("neither A nor B is among the judge's likely first words")
            shares.append(weights[accepted] / sum(weights))
        mean = sum(shares) / len(shares)
        return judgement(mean > 0.5, _told(mean > 0.5), accepted=mean, by_order=shares)

    async def _letter(self, model: ChatModel, ask: ChatRequest) -> str | None:
        for _ in range(ATTEMPTS):
            said = (await model.complete(ask)).text.strip().strip("*\"'`.()[] ").upper()
            if said in LABELS:
                return said
        return None


def _told(accepted: bool) -> str:
    return f"agrees with the {'accepted' if accepted else 'incorrect'} answers"


def request(
    question: str | None, answer: str, correct: Sequence[str], incorrect: Sequence[str], *, swapped: bool
) -> ChatRequest:
    """Return the request; list A holds the accepted answers, or, `swapped`, the incorrect ones."""
    texts = wording()
    lists = [(texts.get("judge", "accepted"), correct), (texts.get("judge", "incorrect"), incorrect)]
    (first_kind, first), (second_kind, second) = reversed(lists) if swapped else lists
    user = texts.fill(
        "judge",
        "user",
        question="" if question is None else block("question", _as_data(question)),
        answer=block("answer", _as_data(answer)),
        first_kind=first_kind,
        first=_listed(first),
        second_kind=second_kind,
        second=_listed(second),
    )
    return ChatRequest(
        stage="judge",
        messages=(Message(role="system", content=texts.get("judge", "system")), Message(role="user", content=user)),
        temperature=0.0,
        max_tokens=MAX_TOKENS,
    )


def _listed(answers: Sequence[str]) -> str:
    return "\n".join(f"- {' '.join(_as_data(answer).split())}" for answer in answers) or "(none)"


def _as_data(text: str) -> str:
    """Return a text that can open or close neither a list nor anything else of the request."""
    return text.replace("<", "‹")
