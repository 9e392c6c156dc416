"""What the verifiers that run in process share: threads of their own, batches by length, failures as values.

Each has a tokenizer that builds the pair and a model that turns a padded batch into logits; everything between
is here, once. The work runs in threads of the verifier's own: the event loop stays free, two calls never compete
for the same cores, and a cancelled call stops at the next batch.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from corrigenda.errors import BackendError, ConfigError
from corrigenda.nli import plan_batches, probabilities
from corrigenda.types import Entailment, Pair, PairFailure

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """One pair as the model's own tokenizer builds it, special tokens included, not padded."""

    ids: Sequence[int]
    type_ids: Sequence[int]
    """0 for the premise's tokens, 1 for the hypothesis's, or all 0: as the tokenizer says; as long as `ids`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchLimits:
    """How large a batch may be; see `corrigenda.nli.plan_batches`."""

    pairs: int = 32
    tokens: int = 384
    """With padding. On a CPU larger batches are slower: what attention makes of them no longer fits the cache.
    A single pair may have more."""
    at_once: int = 1
    """How many batches run side by side; only for models that may be called from several threads."""
    equal_only: bool = False
    """For models that can't mask padding: only pairs of equal length share a batch."""

    def __post_init__(self) -> None:
        """Refuse limits that allow no pair at all."""
        if self.pairs < 1 or self.tokens < 1 or self.at_once < 1:
            raise ConfigError(f"batch_size must be at least 1, got {self.pairs!r} pairs and {self.tokens!r} tokens")


class BatchedEntailer(ABC):
    """An Entailer that scores batches in a worker thread. Subclasses give the tokenizer and the model."""

    def __init__(
        self, *, name: str, max_length: int, special_tokens: int, order: tuple[int, int, int], limits: BatchLimits
    ) -> None:
        """Keep what was found out about the model.

        `max_length`: tokens of a whole input, of which `special_tokens` are the tokenizer's own. `order`: see
        `corrigenda.nli.label_order`.
        """
        self._name = name
        self._max_length = max_length
        self._special_tokens = special_tokens
        self._order = order
        self._limits = limits
        self._closed = False
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="corrigenda-nli")
        self._runners = ThreadPoolExecutor(max_workers=limits.at_once, thread_name_prefix="corrigenda-nli-batch")

    @property
    def name(self) -> str:
        """Name for reports, in the form of the `--nli` flag."""
        return self._name

    @property
    def max_tokens(self) -> int:
        """How many tokens a premise and a hypothesis may have together, special tokens left out."""
        return self._max_length - self._special_tokens

    @abstractmethod
    def count_tokens(self, text: str) -> int:
        """Return the number of the model's tokens in `text`, special tokens left out."""

    @abstractmethod
    def _encode(self, pairs: Sequence[tuple[str, str]]) -> list[Encoded]:
        """Return each (premise, hypothesis) as the tokenizer builds it, never cut, in order."""

    @abstractmethod
    def _logits(self, batch: Sequence[Encoded]) -> list[list[float]]:
        """Return the model's logits for each pair of a batch, in order. May raise anything.

        Called from `BatchLimits.at_once` threads at a time.
        """

    def _release(self) -> None:  # noqa: B027  (most have nothing to do)
        """Drop what holds memory; called once."""

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        """Score every pair, in the order given. See `corrigenda.ports.Entailer`.

        A pair of more than `max_tokens` tokens is a PairFailure, as is one whose logits are unusable or on which
        the model breaks. Raises BackendError when it breaks on every pair, and after `aclose`.
        """
        if self._closed:
            raise BackendError(f"the verifier {self._name!r} was closed; make a new one")
        if not pairs:
            return []
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._worker, self._score, tuple(pairs), stop)
        finally:
            stop.set()

    async def aclose(self) -> None:
        """Wait for the batch in work, then free memory and the thread. May be called twice."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._worker.shutdown, cancel_futures=True)
            self._runners.shutdown()
            self._release()

    def _score(self, pairs: Sequence[Pair], stop: threading.Event) -> list[Entailment | PairFailure]:
        """Score all pairs (in the worker thread), batch by batch, until done or told to stop."""
        try:
            encoded = self._encode([(encodable(pair.premise), encodable(pair.hypothesis)) for pair in pairs])
        except Exception as error:
            raise BackendError(f"the verifier {self._name!r} could not read its input: {_told(error)}") from error
        results: list[Entailment | PairFailure] = [self._too_long(item) for item in encoded]
        fitting = [i for i, item in enumerate(encoded) if len(item.ids) <= self._max_length]
        plan = self._plan([len(encoded[i].ids) for i in fitting])

        def run(batch: Sequence[int]) -> Sequence[list[float] | Exception]:
            return [] if stop.is_set() else self._run([encoded[fitting[i]] for i in batch])

        broken: list[Exception] = []
        for batch, outcomes in zip(plan, self._each(run, plan), strict=True):
            for i, outcome in zip(batch, outcomes, strict=False):
                if isinstance(outcome, Exception):
                    broken.append(outcome)
                    results[fitting[i]] = PairFailure(reason=f"the verifier broke on this pair: {_told(outcome)}")
                else:
                    results[fitting[i]] = probabilities(outcome, self._order)
        if broken and len(broken) == len(pairs):
            raise BackendError(f"the verifier {self._name!r} broke on every pair: {_told(broken[0])}") from broken[0]
        return results

    def _plan(self, lengths: Sequence[int]) -> list[list[int]]:
        """Group the pairs; with several batches at once, small enough that each runner gets one."""
        limits = self._limits
        share = -(-sum(lengths) // limits.at_once) or 1
        return plan_batches(
            lengths, max_pairs=limits.pairs, max_tokens=min(limits.tokens, share), equal_only=limits.equal_only
        )

    def _each(self, run: Callable[[Sequence[int]], T], plan: Sequence[Sequence[int]]) -> Iterable[T]:
        """Apply `run` to every batch, several at once where that is allowed; in order."""
        return map(run, plan) if min(len(plan), self._limits.at_once) <= 1 else self._runners.map(run, plan)

    def _run(self, batch: Sequence[Encoded]) -> Sequence[list[float] | Exception]:
        """Return logits, or what was raised, for each pair; a batch that breaks is tried again pair by pair."""
        try:
            return self._logits(batch)
        except Exception as error:  # any library's: one pair must not take the others down
            if len(batch) == 1:
                return [error]
            return [self._run([item])[0] for item in batch]

    def _too_long(self, item: Encoded) -> PairFailure:
        """Return the failure of a pair that does not fit (it is overwritten for one that does)."""
        tokens = len(item.ids) - self._special_tokens
        return PairFailure(
            reason=f"reference and claim have {tokens} tokens, but the verifier reads at most {self.max_tokens}; "
            "they are never cut"
        )


def encodable(text: str) -> str:
    """Return `text` with each lone surrogate, which no tokenizer takes, as U+FFFD; otherwise as it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _told(error: Exception) -> str:
    """Return an exception of another library in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
