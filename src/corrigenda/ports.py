"""What the pipeline needs from the outside: one small Protocol each.

Anything that has these methods will do; there is nothing to inherit from. `tests/conformance` holds one suite
per port, which every backend passes and which a new backend should be added to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, runtime_checkable

from corrigenda.types import ChatRequest, Completion, Delta, Entailment, Pair, PairFailure, Passage


@runtime_checkable
class ChatModel(Protocol):
    """A chat model. Safe for concurrent calls from one event loop. Never changes the request."""

    @property
    def name(self) -> str:
        """Name for reports, in the form of the `--llm` flag (`openai:gpt-4o-mini`). Holds no secret."""
        ...

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the whole reply. Raises BackendError (or a subclass); never returns None text."""
        ...

    def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        """Yield the reply as it is made; the last delta, and only that one, carries the completion.

        The deltas' texts concatenate to the completion's text. Closing the iterator cancels the call.
        Raises BackendError when the stream breaks; what was yielded before stands.
        """
        ...

    async def aclose(self) -> None:
        """Free connections, threads and memory. May be called twice."""
        ...


@runtime_checkable
class LabelScorer(Protocol):
    """A chat model that can also say how probable given first tokens of its reply are."""

    @property
    def name(self) -> str:
        """Name for reports."""
        ...

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        """Return the natural log-probability that the reply's first token is each of `labels`, in that order.

        Before any sampling settings. A label outside the tokens that the backend reports gets `-inf`.
        Consecutive requests that share a prefix may be read from a cache. Raises BackendError.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Return the number of the model's tokens in `text`, or an upper estimate where it can't be known."""
        ...


@runtime_checkable
class Entailer(Protocol):
    """A three-way natural language inference model (the verifier)."""

    @property
    def name(self) -> str:
        """Name for reports, in the form of the `--nli` flag."""
        ...

    @property
    def max_tokens(self) -> int:
        """How many tokens a premise and a hypothesis may have together, special tokens and prompt left out."""
        ...

    def count_tokens(self, text: str) -> int:
        """Return the number of this model's tokens in `text`."""
        ...

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        """Score every pair, in the order given; results do not depend on the company a pair is in.

        The caller makes sure that each pair fits `max_tokens`; a pair that does not is a PairFailure, never
        silently cut. Raises BackendError only when nothing could be scored at all.
        """
        ...

    async def aclose(self) -> None:
        """Free memory and threads. May be called twice."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """A collection of passages that can be searched."""

    @property
    def name(self) -> str:
        """Name for reports (`bm25:DIR`)."""
        ...

    async def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return, per query, the `k` best passages (fewer where there are no more), best first.

        A query with no match gets an empty list. Equal scores are in the order of the collection. Raises
        InputError when k is less than 1, BackendError when the index cannot be read.
        """
        ...

    async def aclose(self) -> None:
        """Free memory and files. May be called twice."""
        ...
