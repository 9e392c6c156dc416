"""What one row's calls of chat models cost, counted where they are really made, behind every cache.

A `Ledger` is opened for a row, in the row's own task; the calls that this task and those that it starts make to a
counted chat model are noted in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from corrigenda.batch.rows import Spent
from corrigenda.ports import ChatModel, LabelScorer
from corrigenda.trace import MeteredChat
from corrigenda.types import ChatRequest, TokenUsage

MOST_TOKENS = 1 << 40
"""Of one call: more is a server's mistake, and would not fit the state."""


class Ledger:
    """The calls of one row, by stage."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.spent: dict[str, Spent] = {}

    def note(self, stage: str, usage: TokenUsage) -> None:
        """Count one call."""
        prompt, completion = _meant(usage.prompt_tokens), _meant(usage.completion_tokens)
        spent = Spent(
            calls=1,
            prompt_tokens=prompt or 0,
            completion_tokens=completion or 0,
            unreported=int(prompt is None or completion is None),
        )
        self.spent[stage] = self.spent.get(stage, Spent()) + spent


def _meant(tokens: int | None) -> int | None:
    """Return a number of tokens; None where none was reported, or one that no call can have."""
    return tokens if tokens is not None and 0 <= tokens <= MOST_TOKENS else None


_ROW: ContextVar[Ledger | None] = ContextVar("corrigenda_batch_row", default=None)


@contextmanager
def ledger() -> Iterator[Ledger]:
    """Count the calls that are made while one row is worked on, in this task and those that it starts."""
    opened = Ledger()
    token = _ROW.set(opened)
    try:
        yield opened
    finally:
        _ROW.reset(token)


def _note(stage: str, usage: TokenUsage) -> None:
    row = _ROW.get()
    if row is not None:
        row.note(stage, usage)


class CountedChat(MeteredChat):
    """A chat model whose calls are counted in the row's ledger; failed and abandoned ones too, tokens unknown."""

    def __init__(self, inner: ChatModel) -> None:
        """Wrap `inner`, which is not changed."""
        super().__init__(inner, _note)

    async def aclose(self) -> None:
        """Close the wrapped model."""
        await self._inner.aclose()


class CountedScorer(CountedChat):
    """The same for a chat model that can also score labels; each scoring is a call whose tokens are not known."""

    def __init__(self, inner: ChatModel, scorer: LabelScorer) -> None:
        """Wrap `inner`, which `scorer` is too."""
        super().__init__(inner)
        self._scorer = scorer

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        """Score with the wrapped model and count the call."""
        try:
            return await self._scorer.label_logprobs(request, labels)
        finally:
            _note(request.stage, TokenUsage())

    def count_tokens(self, text: str) -> int:
        """Count with the wrapped model."""
        return self._scorer.count_tokens(text)


def counted(inner: ChatModel) -> CountedChat:
    """Return `inner` counted, as a LabelScorer where it is one."""
    return CountedScorer(inner, inner) if isinstance(inner, LabelScorer) else CountedChat(inner)
