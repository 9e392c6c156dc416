"""Wrappers that ask nothing twice: equal pairs are scored once, equal questions are recalled once.

What was made is found in memory, then on disk (`corrigenda.cache`), and is made only then; what is being made is
waited for. Failures are never kept. A reply that is reused keeps the usage that it had when it was made, so that a
report is the same whether it was or not; `one_report` counts what was saved.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, get_args

from corrigenda import __version__
from corrigenda.backends.around import AroundEntailer
from corrigenda.errors import BackendError, BadReply
from corrigenda.ports import ChatModel, Entailer, LabelScorer
from corrigenda.shelf import Claims, Kept, Shelf, repeatable
from corrigenda.types import (
    ChatRequest,
    Completion,
    Delta,
    Entailment,
    FinishReason,
    Pair,
    PairFailure,
    TokenUsage,
)

MAX_REPLIES = 2_000
"""Replies that a wrapper keeps in memory; those that were not used for longest go first, and are on disk still."""
MAX_PAIRS = 10_000
"""The same for scores of pairs."""


class Store(Protocol):
    """Where replies and scores outlive the process; `corrigenda.cache.Cache` is one. It never raises."""

    async def get(self, kind: str, keys: Sequence[bytes]) -> Mapping[bytes, Kept[Any]]:
        """Return what is kept under these keys: plain JSON values, from a file that anybody may have written."""
        ...

    def put(self, kind: str, made: Mapping[bytes, Kept[Any]]) -> None:
        """Keep plain JSON values, soon. `kind` is `recall` or `entail`."""
        ...


@dataclass(kw_only=True)
class Reused:
    """What the wrappers did for one report, or since they were made."""

    calls: int = 0
    """Calls of the chat model that were not made, since the reply was there."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Tokens that the calls not made had used, as far as they were reported."""
    pairs: int = 0
    """Pairs that were not scored, since the scores were there."""
    pairs_scored: int = 0
    """Pairs that were."""
    _drawn: Counter[bytes] = field(default_factory=Counter, repr=False, compare=False)

    def note_call(self, usage: TokenUsage) -> None:
        """Count a call that was not made, by the usage that it had when it was."""
        self.calls += 1
        self.prompt_tokens += usage.prompt_tokens or 0
        self.completion_tokens += usage.completion_tokens or 0

    def note_pairs(self, *, reused: int, scored: int) -> None:
        """Count pairs."""
        self.pairs += reused
        self.pairs_scored += scored

    def draw(self, key: bytes) -> int:
        """Return how many draws of `key` came before in this report, and count this one."""
        self._drawn[key] += 1
        return self._drawn[key] - 1


_REPORT: ContextVar[Reused | None] = ContextVar("corrigenda_reused", default=None)


@contextmanager
def one_report() -> Iterator[Reused]:
    """Count what is reused while one report is made, in this task and those that it starts.

    It also tells the independent references of one report apart: the second draw of a question is reused for the
    second draw of another report, never for the first one of the same.
    """
    reused = Reused()
    token = _REPORT.set(reused)
    try:
        yield reused
    finally:
        _REPORT.reset(token)


class RecallOnceChat:
    """A chat model that recalls equal questions once. Requests of other stages pass; the inner one is not changed."""

    def __init__(
        self, inner: ChatModel, cache: Store | None = None, *, model: str | None = None, max_replies: int = MAX_REPLIES
    ) -> None:
        """Wrap `inner`. Without a cache, what was recalled is kept in memory alone.

        `model` is what the replies are known by beside the whole request: the model's name by default; say more where
        that leaves something open (the server's address, the checksum of a model's file). It must hold no secret.
        """
        self._inner = inner
        self._cache = cache
        self._model = model
        self._shelf: Shelf[Completion] = Shelf(max_replies)
        self.reused = Reused()
        """What was reused since this object was made."""

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self._inner.name

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the reply, made or reused."""
        key = self._key(request) if request.stage == "recall" else None
        if key is None:
            return await self._inner.complete(request)
        kept = await self._shelf.take(key)
        if kept is not None:
            return self._again(kept.value)
        try:
            found = await self._look_up(key)
            if found is not None:
                self._shelf.put(key, found.value, found.seconds)
                return self._again(found.value)
            begun = time.perf_counter()
            made = Kept(await self._inner.complete(request), time.perf_counter() - begun)
            self._shelf.put(key, made.value, time.perf_counter() - begun)
            if self._cache is not None:
                self._cache.put("recall", {key: Kept(_plain(made.value), made.seconds)})
            return made.value
        finally:
            self._shelf.give_up(key)

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        """Yield the reply; one that is recalled comes in one piece."""
        if request.stage == "recall":
            completion = await self.complete(request)
            yield Delta(text=completion.text, completion=completion)
            return
        async with aclosing(self._inner.stream(request)) as deltas:  # type: ignore[type-var]
            async for delta in deltas:
                yield delta

    async def aclose(self) -> None:
        """Close the inner model. The cache is its owner's to close."""
        await self._inner.aclose()

    @property
    def _known_as(self) -> str:
        return self._inner.name if self._model is None else self._model

    def _key(self, request: ChatRequest) -> bytes | None:
        """Return what a reply is known by; None where equal requests are to get replies of their own."""
        key = _digest("recall", self._known_as, _told(request))
        if repeatable(request):
            return key
        report = _REPORT.get()
        return None if report is None else _digest(key.hex(), report.draw(key))

    async def _look_up(self, key: bytes) -> Kept[Completion] | None:
        kept = None if self._cache is None else (await self._cache.get("recall", [key])).get(key)
        reply = None if kept is None else _completion(kept.value)
        return None if kept is None or reply is None else Kept(reply, kept.seconds)

    def _again(self, completion: Completion) -> Completion:
        for counted in (self.reused, _REPORT.get()):
            if counted is not None:
                counted.note_call(completion.usage)
        return completion


class RecallOnceScorer(RecallOnceChat):
    """The same for a chat model that can also score labels, which passes."""

    def __init__(self, inner: ChatModel, scorer: LabelScorer, cache: Store | None = None, **settings: Any) -> None:
        """Wrap `inner`, which `scorer` is too; `settings` as for `RecallOnceChat`."""
        super().__init__(inner, cache, **settings)
        self._scorer = scorer

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        """Score with the inner model."""
        return await self._scorer.label_logprobs(request, labels)

    def count_tokens(self, text: str) -> int:
        """Count with the inner model."""
        return self._scorer.count_tokens(text)


def recall_once(inner: ChatModel, cache: Store | None = None, **settings: Any) -> RecallOnceChat:
    """Return `inner` wrapped (settings as for `RecallOnceChat`), as a LabelScorer where it is one."""
    if isinstance(inner, LabelScorer):
        return RecallOnceScorer(inner, inner, cache, **settings)
    return RecallOnceChat(inner, cache, **settings)


class CachingEntailer(AroundEntailer):
    """A verifier that scores equal pairs once, also while they are being scored. The inner one is not changed.

    Closing it closes the inner verifier; the cache is its owner's to close.
    """

    def __init__(
        self, inner: Entailer, cache: Store | None = None, *, model: str | None = None, max_pairs: int = MAX_PAIRS
    ) -> None:
        """Wrap `inner`. Without a cache, scores are kept in memory alone.

        `model` is what scores are known by beside the pair's texts and this package's version: the verifier's name by
        default; say more where that leaves something open (the checksum of its files, its calibration). No secret.
        """
        super().__init__(inner)
        self._cache = cache
        self._model = inner.name if model is None else model
        self._shelf: Shelf[Entailment] = Shelf(max_pairs)
        self.reused = Reused()
        """What was reused since this object was made."""

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        """Score what was not scored before, all in one call, and reuse the rest. See `corrigenda.ports.Entailer`.

        Where that call fails and there are others, its pairs alone fail.
        """
        keys = {pair: _digest("pair", self._model, __version__, pair.premise, pair.hypothesis) for pair in pairs}
        claims = Claims(self._shelf, keys)
        failure: BackendError | None = None
        scored = 0
        try:
            while claims.claimed or claims.waiting:
                await self._look_up(claims, keys)
                scored += len(claims.claimed)
                try:
                    await self._score(claims, keys)
                except BackendError as exc:
                    failure = exc
                    claims.fail(str(exc))
                await claims.take()
        finally:
            claims.close()
        for counted in (self.reused, _REPORT.get()):
            if counted is not None:
                counted.note_pairs(reused=len(pairs) - scored, scored=scored)
        if failure is not None and all(isinstance(result, PairFailure) for result in claims.found.values()):
            raise failure
        return claims.results(pairs)

    async def _look_up(self, claims: Claims, keys: Mapping[Pair, bytes]) -> None:
        """Settle what is on disk."""
        if self._cache is None or not claims.claimed:
            return
        found = await self._cache.get("entail", [keys[pair] for pair in claims.claimed])
        for pair in list(claims.claimed):
            kept = found.get(keys[pair])
            scores = None if kept is None else _entailment(kept.value)
            if kept is not None and scores is not None:
                claims.settle(pair, scores, kept.seconds)

    async def _score(self, claims: Claims, keys: Mapping[Pair, bytes]) -> None:
        """Score what is claimed still, and keep it."""
        pairs = list(claims.claimed)
        if not pairs:
            return
        begun = time.perf_counter()
        results = await self._inner.entail(pairs)
        if len(results) != len(pairs):
            raise BadReply(f"the verifier {self.name!r} gave {len(results)} results for {len(pairs)} pairs")
        seconds = (time.perf_counter() - begun) / len(pairs)
        made = {}
        for pair, result in zip(pairs, results, strict=True):
            claims.settle(pair, result, seconds)
            if isinstance(result, Entailment):
                scores = [result.entailment, result.neutral, result.contradiction]
                made[keys[pair]] = Kept(scores, seconds)
        if self._cache is not None and made:
            self._cache.put("entail", made)


def _digest(*parts: str | int) -> bytes:
    """Return a key. JSON, so that no two calls look alike; a digest, so that it is small and tells no text."""
    return hashlib.sha256(json.dumps(parts).encode()).digest()


def _told(request: ChatRequest) -> str:
    """Return all that a request says, as JSON text. Mappings of the caller's own may be of any class."""
    content = {
        "stage": request.stage,
        "messages": [[message.role, message.content] for message in request.messages],
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "json_schema": request.json_schema,
        "extra": request.extra,
    }
    return json.dumps(content, sort_keys=True, default=dict)


def _plain(completion: Completion) -> list[Any]:
    usage = completion.usage
    counts = [usage.prompt_tokens, usage.completion_tokens]
    return [completion.text, completion.finish_reason, *counts, completion.refusal]


def _completion(value: Any) -> Completion | None:
    """Return the reply that the cache holds; None when that is not one."""
    try:
        text, reason, prompt, reply, refusal = value
    except (TypeError, ValueError):
        return None
    counts = all(n is None or (type(n) is int and n >= 0) for n in (prompt, reply))
    if not (isinstance(text, str) and reason in get_args(FinishReason) and counts):
        return None
    if not (refusal is None or isinstance(refusal, str)):
        return None
    usage = TokenUsage(prompt_tokens=prompt, completion_tokens=reply)
    return Completion(text=text, finish_reason=reason, usage=usage, refusal=refusal)


def _entailment(value: Any) -> Entailment | None:
    """Return the scores that the cache holds; None when these are none."""
    try:
        entailment, neutral, contradiction = value
        return Entailment(entailment=entailment, neutral=neutral, contradiction=contradiction)
    except (TypeError, ValueError):
        return None
