"""`chat`: a chat model as the verifier, read by the log-probabilities of one word.

The model is shown the premise, the hypothesis and a few solved examples, and asked for one word. It writes
nothing: only how probable each word is as its first one counts. A fitted map turns those into probabilities
(`nli_chat_scheme`), since a small model's own are biased. The examples and the premise come before the
hypothesis, and pairs with one premise follow each other, so that a backend that caches reads them once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from corrigenda.backends.nli_chat_scheme import Calibration, calibration_for
from corrigenda.errors import BackendError, ConfigError
from corrigenda.ports import LabelScorer
from corrigenda.types import Entailment, Pair, PairFailure
from corrigenda.windows import is_blank

DEFAULT_MAX_TOKENS = 320
"""Premise and hypothesis together. See docs/calibration.md for what longer premises cost in accuracy and time."""


class ChatEntailer:
    """An Entailer over a chat model that reports log-probabilities (`LabelScorer`).

    The chat model may be shared with other stages, so `aclose` does not close it: who made it does.
    """

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
        """`chat:MODEL`, and that it is not calibrated where it is not."""
        return f"chat:{self._model.name}" + ("" if self._calibration.fitted else " (not calibrated)")

    @property
    def calibration(self) -> Calibration:
        """The wording and the constants in use."""
        return self._calibration

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Floor and ceiling that suit the probabilities, for the policy `bounded`; None where nothing was fitted."""
        return self._calibration.bounds

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user of the scores should know."""
        if self._calibration.fitted:
            return ()
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

        Equal pairs are asked about once. Raises BackendError when the chat model fails on every pair (the first
        failure), and after `aclose`.
        """
        if self._closed:
            raise BackendError(f"the verifier {self.name!r} was closed; make a new one")
        gate = asyncio.Semaphore(self._concurrency)
        order = _by_premise(pairs)
        # A semaphore lets in who asked first, so this is also the order in which the model is asked.
        async with asyncio.TaskGroup() as group:
            tasks = {pair: group.create_task(self._outcome(pair, gate)) for pair in order}
        outcomes = {pair: task.result() for pair, task in tasks.items()}
        errors = [outcome for outcome in outcomes.values() if isinstance(outcome, BackendError)]
        if errors and len(errors) == len(outcomes):
            raise errors[0]
        return [_value(outcomes[pair]) for pair in pairs]

    async def aclose(self) -> None:
        """Refuse further work. May be called twice. The chat model stays open."""
        self._closed = True

    async def _outcome(self, pair: Pair, gate: asyncio.Semaphore) -> Entailment | PairFailure | BackendError:
        """Score one pair. The chat model's failure is returned, so that the other pairs go on."""
        if is_blank(pair.premise) or is_blank(pair.hypothesis):
            return PairFailure(reason="the reference or the claim is blank")
        scheme = self._calibration.scheme
        try:
            async with gate:
                tokens = self.count_tokens(pair.premise) + self.count_tokens(pair.hypothesis)
                if tokens > self._max_tokens:
                    return PairFailure(
                        reason=f"reference and claim have {tokens} tokens, but the verifier reads at most "
                        f"{self._max_tokens}; they are never cut"
                    )
                logprobs = await self._model.label_logprobs(scheme.request(pair), scheme.labels)
        except BackendError as exc:
            return exc
        except Exception as exc:  # a caller's own model: one pair must not take the others down
            return BackendError(f"the chat model {self._model.name!r} broke: {type(exc).__name__}: {exc}")
        return self._calibration.score(logprobs)


def _by_premise(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the distinct pairs, those of one premise together, otherwise in the order given."""
    groups: dict[str, dict[Pair, None]] = {}
    for pair in pairs:
        groups.setdefault(pair.premise, {})[pair] = None
    return [pair for group in groups.values() for pair in group]


def _value(outcome: Entailment | PairFailure | BackendError) -> Entailment | PairFailure:
    if isinstance(outcome, BackendError):
        return PairFailure(reason=f"the chat model failed on this pair: {outcome}")
    return outcome
