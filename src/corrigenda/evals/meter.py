"""The models of a run as each method gets them: every call is counted and timed, and none is made twice.

Methods are compared on the same chat model, verifier and seed, so they ask much of the same: the first answer, the
reference, the claims of that answer against that reference. A `Memo` is shared over a run and answers what was asked
before with the same reply; a `Meter` notes what one method did on one item, and a `Clock` how long that takes when
every reused call counts with the time it took when it was made.

What is reused: label scores and pairs always; replies where the same request gives the same reply, which is where it
has a seed or asks for temperature 0. The request must be the same to the letter, the settings and the stage too.
Failures are never kept, and neither is a stream that was not read to its end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from corrigenda.errors import BackendError, BadReply
from corrigenda.evals.clock import Clock
from corrigenda.evals.memo import Memo, key_of
from corrigenda.evals.records import Call, PairCalls
from corrigenda.ports import ChatModel, Entailer, LabelScorer
from corrigenda.shelf import Claims, Kept, Shelf, repeatable
from corrigenda.types import ChatRequest, Completion, Delta, Entailment, Evidence, Pair, PairFailure, TokenUsage

T = TypeVar("T")


@dataclass(kw_only=True)
class Meter:
    """What one method did on one item."""

    clock: Clock
    pairs: PairCalls = field(default_factory=PairCalls)
    _calls: dict[int, Call] = field(default_factory=dict)
    _begun: int = 0

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the chat model that have ended, in the order in which they began."""
        return tuple(call for _, call in sorted(self._calls.items()))

    def begin(self) -> int:
        """Return the number of a call that begins."""
        self._begun += 1
        return self._begun

    def note(
        self,
        number: int,
        stage: str,
        seconds: float,
        usage: TokenUsage,
        *,
        reused: bool = False,
        error: str | None = None,
    ) -> None:
        """Note a call of the chat model that has ended."""
        call = Call(
            stage=stage,
            seconds=seconds,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            reused=reused,
            error=error,
        )
        self._calls[number] = call

    def note_pairs(self, pairs: int, seconds: float, *, reused: int = 0) -> None:
        """Note pairs that were scored, or taken from those scored before."""
        self.pairs = PairCalls(
            pairs=self.pairs.pairs + pairs,
            seconds=self.pairs.seconds + seconds,
            reused=self.pairs.reused + reused,
        )


@dataclass(kw_only=True)
class _Timed:
    """A call that is being made."""

    begun: float
    seconds: float | None = None
    usage: TokenUsage = field(default_factory=TokenUsage)

    def end(self, usage: TokenUsage) -> float:
        """Stop the time and return it; what the caller does with the reply is not the call's."""
        self.seconds, self.usage = time.perf_counter() - self.begun, usage
        return self.seconds


@contextmanager
def _timed(meter: Meter, stage: str) -> Iterator[_Timed]:
    """Time a call, and note it whatever becomes of it."""
    timed, number = _Timed(begun=time.perf_counter()), meter.begin()
    error = None
    try:
        with meter.clock.busy():
            yield timed
    except (GeneratorExit, asyncio.CancelledError):
        error = None if timed.seconds is not None else STOPPED
        raise
    except BaseException as exc:
        error = f"{type(exc).__name__}: {exc}"
        raise
    finally:
        if timed.seconds is None:
            timed.end(TokenUsage())
        meter.note(number, stage, timed.seconds or 0.0, timed.usage, error=error)


STOPPED = "stopped by the caller"
"""The `error` of a call whose caller had enough."""


class MeteredChat:
    """A chat model as one method gets it for one item. The wrapped model is neither changed nor closed."""

    def __init__(self, inner: ChatModel, meter: Meter, memo: Memo | None) -> None:
        """Wrap `inner`; without a memo every call is made."""
        self._inner = inner
        self._meter = meter
        self._memo = memo

    @property
    def name(self) -> str:
        """The wrapped model's name."""
        return self._inner.name

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the reply, made or reused."""
        kept, key = await self._reply(request)
        if kept is not None:
            return kept
        try:
            with _timed(self._meter, request.stage) as call:
                completion = await self._inner.complete(request)
                seconds = call.end(completion.usage)
            self._keep(key, completion, seconds)
            return completion
        finally:
            self._let_go(key)

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        """Yield the reply; one that is reused comes in one piece."""
        kept, key = await self._reply(request)
        if kept is not None:
            yield Delta(text=kept.text, completion=kept)
            return
        try:
            with _timed(self._meter, request.stage) as call:
                async with aclosing(self._inner.stream(request)) as deltas:  # type: ignore[type-var]
                    async for delta in deltas:
                        if delta.completion is not None:
                            self._keep(key, delta.completion, call.end(delta.completion.usage))
                        yield delta
        finally:
            self._let_go(key)

    async def aclose(self) -> None:
        """Do nothing: whoever made the wrapped model closes it."""

    async def _reply(self, request: ChatRequest) -> tuple[Completion | None, bytes | None]:
        """Return a reply that was made before, or the key that the caller is to make it under (None: not kept)."""
        if self._memo is None or not repeatable(request):
            return None, None
        key, number = key_of(self.name, request), self._meter.begin()
        kept = await _taken(self._meter, self._memo.replies, key)
        if kept is not None:
            self._meter.note(number, request.stage, kept.seconds, kept.value.usage, reused=True)
        return (None if kept is None else kept.value), key

    def _keep(self, key: bytes | None, completion: Completion, seconds: float) -> None:
        if key is not None and self._memo is not None:
            self._memo.replies.put(key, completion, seconds)

    def _let_go(self, key: bytes | None) -> None:
        if key is not None and self._memo is not None:
            self._memo.replies.give_up(key)


class MeteredScorer(MeteredChat):
    """A chat model that can also score labels."""

    def __init__(self, inner: ChatModel, scorer: LabelScorer, meter: Meter, memo: Memo | None) -> None:
        """Wrap `inner`, which `scorer` is too."""
        super().__init__(inner, meter, memo)
        self._scorer = scorer

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        """Return the scores, made or reused. They are counted as one call."""
        memo = self._memo
        if memo is None:
            return (await self._scores(request, labels))[0]
        key, number = key_of(self.name, request, list(labels)), self._meter.begin()
        kept = await _taken(self._meter, memo.labels, key)
        if kept is not None:
            self._meter.note(number, request.stage, kept.seconds, TokenUsage(), reused=True)
            return kept.value
        try:
            scores, seconds = await self._scores(request, labels)
            memo.labels.put(key, scores, seconds)
            return scores
        finally:
            memo.labels.give_up(key)

    def count_tokens(self, text: str) -> int:
        """Count with the wrapped model."""
        return self._scorer.count_tokens(text)

    async def _scores(self, request: ChatRequest, labels: Sequence[str]) -> tuple[tuple[float, ...], float]:
        with _timed(self._meter, request.stage) as call:
            scores = await self._scorer.label_logprobs(request, labels)
            return scores, call.end(TokenUsage())


def metered_chat(inner: ChatModel | None, meter: Meter, memo: Memo | None) -> MeteredChat | None:
    """Return `inner` metered, as a LabelScorer where it is one; None stays None."""
    if inner is None:
        return None
    return (
        MeteredScorer(inner, inner, meter, memo) if isinstance(inner, LabelScorer) else MeteredChat(inner, meter, memo)
    )


async def _taken(meter: Meter, shelf: Shelf[T], key: bytes) -> Kept[T] | None:
    """Return what is kept, when the time that it took has passed; None: the caller is to make it."""
    begun = meter.clock.now()
    with meter.clock.busy():  # another item may be waiting for the same thing to be made
        kept = await shelf.take(key)
    if kept is not None:
        await meter.clock.spend(kept.seconds - (meter.clock.now() - begun))
    return kept


class MeteredEntailer:
    """A verifier as one method gets it for one item. The wrapped one is neither changed nor closed."""

    def __init__(self, inner: Entailer, meter: Meter, memo: Memo | None) -> None:
        """Wrap `inner`; without a memo every pair is scored."""
        self._inner = inner
        self._meter = meter
        self._memo = memo
        self.bounds: tuple[float, float] | None = getattr(inner, "bounds", None)
        """Floor and ceiling for the policy `bounded`, where the wrapped verifier has some."""
        self.warnings: tuple[str, ...] = tuple(getattr(inner, "warnings", ()))
        """What users of the wrapped verifier should know."""
        self.explain: Callable[[Evidence, str], str | None] | None = getattr(inner, "explain", None)
        """The wrapped verifier's own reasons, where it gives some."""

    @property
    def name(self) -> str:
        """The wrapped verifier's name."""
        return self._inner.name

    @property
    def max_tokens(self) -> int:
        """The wrapped verifier's limit."""
        return self._inner.max_tokens

    def count_tokens(self, text: str) -> int:
        """Count with the wrapped verifier."""
        return self._inner.count_tokens(text)

    async def aclose(self) -> None:
        """Do nothing: whoever made the wrapped verifier closes it."""

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        """Score the pairs that were not scored before, all in one call, and reuse the others.

        Where that call fails and there are others, its pairs alone fail. Raises BackendError as the wrapped one does.
        """
        shelf = Shelf[Entailment](len(pairs) + 1) if self._memo is None else self._memo.pairs
        keys = {pair: key_of(self.name, pair) for pair in pairs}
        batch = Claims(shelf, keys)
        failure: BackendError | None = None
        try:
            while batch.claimed or batch.waiting:
                try:
                    await self._score(batch)
                except BackendError as exc:
                    failure = exc
                    batch.fail(str(exc))
                with self._meter.clock.busy():  # another item may be scoring the same pair
                    await batch.take()
        finally:
            batch.close()
        if batch.reused:
            self._meter.note_pairs(len(batch.reused), sum(batch.reused), reused=len(batch.reused))
            await self._meter.clock.spend(sum(batch.reused))
        if failure is not None and all(isinstance(result, PairFailure) for result in batch.found.values()):
            raise failure
        return batch.results(pairs)

    async def _score(self, batch: Claims) -> None:
        """Score what the batch has claimed."""
        pairs = list(batch.claimed)
        if not pairs:
            return
        begun = time.perf_counter()
        try:
            with self._meter.clock.busy():
                results = await self._inner.entail(pairs)
        finally:
            seconds = time.perf_counter() - begun
            self._meter.note_pairs(len(pairs), seconds)
        if len(results) != len(pairs):
            raise BadReply(f"the verifier {self.name!r} gave {len(results)} results for {len(pairs)} pairs")
        for pair, result in zip(pairs, results, strict=True):
            batch.settle(pair, result, seconds / len(pairs))
