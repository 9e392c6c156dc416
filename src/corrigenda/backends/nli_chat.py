"""`chat`: a chat model as the verifier, read by the log-probabilities of one word.

The model is shown the premise, the hypothesis and a few solved examples, and asked for one word. It writes
nothing: only how probable each word is as its first one counts. A fitted map turns those into probabilities
(`nli_chat_scheme`), since a small model's own are biased. Where they leave a pair unsure, the model may be asked
again in other words, and both answers count together. The examples and the premise come before the hypothesis,
and pairs with one premise follow each other, so that a backend that caches reads them once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from corrigenda.backends.nli_chat_scheme import Calibration, Scheme, Sums, calibration_for, combine
from corrigenda.errors import BackendError, ConfigError
from corrigenda.ports import LabelScorer
from corrigenda.types import Entailment, Pair, PairFailure
from corrigenda.windows import is_blank

_Look = Sums | PairFailure | BackendError
"""What one question about a pair gave. A failure of the model is a value, so that the other pairs go on."""

DEFAULT_MAX_TOKENS = 320
"""Premise and hypothesis together. See docs/calibration.md for what longer premises cost in accuracy and time."""


class ChatEntailer:
    """An Entailer over a chat model that reports log-probabilities (`LabelScorer`).

    The chat model may be shared with other stages, so `aclose` does not close it: who made it does.
    """

    batches = False
    """Every pair is a call of its own, so that pairs of several requests gain nothing from one another's company."""

    def __init__(
        self,
        model: LabelScorer,
        *,
        calibration: Calibration | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        concurrency: int = 1,
    ) -> None:
        """Read `model` with `calibration`, by default the one that ships for a model of this name.

        `max_tokens` (at least 16) bounds premise and hypothesis together; longer pairs are failures.
        `concurrency` (at least 1) is how many requests are under way at a time: more than one helps with a
        remote model, and costs the shared prefix with the embedded one. Raises ConfigError.
        """
        if max_tokens < 16:
            raise ConfigError(f"max_tokens of the chat verifier must be at least 16, got {max_tokens!r}")
        if concurrency < 1:
            raise ConfigError(f"concurrency of the chat verifier must be at least 1, got {concurrency!r}")
        self._model = model
        self._calibration = calibration if calibration is not None else calibration_for(model.name)
        self._max_tokens = max_tokens
        self._concurrency = concurrency
        self._closed = False

    @property
    def name(self) -> str:
        """`chat:MODEL`; with what its constants were fitted on where they are not those that ship, or that none were.

        Thresholds that suit one set of constants need not suit another, so the name tells them apart.
        """
        if not self._calibration.fitted:
            return f"chat:{self._model.name} (not calibrated)"
        shipped = self._calibration == calibration_for(self._model.name)
        return f"chat:{self._model.name}" + ("" if shipped else f" (fitted on {self._calibration.fitted_on})")

    @property
    def calibration(self) -> Calibration:
        """The wordings and the constants in use."""
        return self._calibration

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Floor and ceiling that suit the probabilities, for the policy `bounded`; None where nothing was fitted."""
        return self._calibration.bounds

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user of the scores should know."""
        fitted_for = self._calibration.model
        if self._calibration.fitted and fitted_for == self._model.name:
            return ()
        if self._calibration.fitted:
            return (
                f"the constants of the verifier {self.name!r} were fitted for the chat model {fitted_for!r}, so its "
                "probabilities may be far off; fit them for this model with `corrigenda calibrate-nli`",
            )
        return (
            f"the verifier {self.name!r} has no fitted constants for this model: its probabilities are the model's "
            "own and may be far off; fit them with `corrigenda calibrate-nli`",
        )

    @property
    def max_tokens(self) -> int:
        """How many tokens a premise and a hypothesis may have together; the prompt around them is left out."""
        return self._max_tokens

    def count_tokens(self, text: str) -> int:
        """Return the number of the chat model's tokens in `text`, or its upper estimate."""
        return self._model.count_tokens(text)

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        """Score every pair, in the order given. See `corrigenda.ports.Entailer`.

        Every distinct pair is asked about once, and then once more where that leaves it unsure and the calibration
        has a second look; a second look that fails leaves the first one's probabilities. Raises BackendError when
        the chat model fails on every pair (the first failure), and after `aclose`.
        """
        if self._closed:
            raise BackendError(f"the verifier {self.name!r} was closed; make a new one")
        gate = asyncio.Semaphore(self._concurrency)
        looks = await self._ask(_by_premise(pairs), self._calibration.scheme, gate)
        errors = [look for look in looks.values() if isinstance(look, BackendError)]
        if errors and len(errors) == len(looks):
            raise errors[0]
        found = {pair: self._first(look) for pair, look in looks.items()}
        found |= await self._second(looks, found, gate)
        return [found[pair] for pair in pairs]

    async def aclose(self) -> None:
        """Refuse further work. May be called twice. The chat model stays open."""
        self._closed = True

    def _first(self, look: _Look) -> Entailment | PairFailure:
        if isinstance(look, BackendError):
            return PairFailure(reason=f"the chat model failed on this pair: {look}")
        return look if isinstance(look, PairFailure) else combine(self._calibration.constants, look)

    async def _second(
        self, looks: Mapping[Pair, _Look], found: Mapping[Pair, Entailment | PairFailure], gate: asyncio.Semaphore
    ) -> dict[Pair, Entailment]:
        """Ask again about the unsure pairs; return the probabilities by both looks where both succeeded.

        Whether a pair is unsure depends on nothing but its own first look.
        """
        second = self._calibration.second
        if second is None:
            return {}
        unsure = [pair for pair, e in found.items() if isinstance(e, Entailment) and self._calibration.unsure(e)]
        again = await self._ask(unsure, second.scheme, gate)
        return {
            pair: combine(second.constants, first, then)
            for pair, then in again.items()
            if isinstance(then, tuple) and isinstance(first := looks[pair], tuple)
        }

    async def _ask(self, pairs: Sequence[Pair], scheme: Scheme, gate: asyncio.Semaphore) -> dict[Pair, _Look]:
        """Ask about distinct pairs. A semaphore lets in who came first, so they are asked in the order given."""
        async with asyncio.TaskGroup() as group:
            tasks = {pair: group.create_task(self._look(pair, scheme, gate)) for pair in pairs}
        return {pair: task.result() for pair, task in tasks.items()}

    async def _look(self, pair: Pair, scheme: Scheme, gate: asyncio.Semaphore) -> _Look:
        try:
            async with gate:
                # What is unreadable is so in the first look, and there is no second one then.
                if scheme is self._calibration.scheme and (failure := self._unreadable(pair)) is not None:
                    return failure
                logprobs = await self._model.label_logprobs(scheme.request(pair), scheme.labels)
        except BackendError as exc:
            return exc
        except Exception as exc:  # a caller's own model: one pair must not take the others down
            return BackendError(f"the chat model {self._model.name!r} broke: {type(exc).__name__}: {exc}")
        return scheme.by_class(logprobs)

    def _unreadable(self, pair: Pair) -> PairFailure | None:
        if is_blank(pair.premise) or is_blank(pair.hypothesis):
            return PairFailure(reason="the reference or the claim is blank")
        tokens = self.count_tokens(pair.premise) + self.count_tokens(pair.hypothesis)
        if tokens > self._max_tokens:
            return PairFailure(
                reason=f"reference and claim have {tokens} tokens, but the verifier reads at most "
                f"{self._max_tokens}; they are never cut"
            )
        return None


def _by_premise(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the distinct pairs, those of one premise together, otherwise in the order given."""
    groups: dict[str, dict[Pair, None]] = {}
    for pair in pairs:
        groups.setdefault(pair.premise, {})[pair] = None
    return [pair for group in groups.values() for pair in group]
