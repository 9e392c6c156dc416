"""A verifier with the deterministic check of numbers, units, dates and polarity beside it.

Small verifiers miss contradictions that differ only in a value ("12 km" for "1.2 km") and see some where one value
is only written otherwise ("1,200 metres"). `corrigenda.quantities.compare` decides such pairs by rule, rarely and
only where it is safe; there its word replaces the model's probabilities, and everywhere else the model's stand.
"""

from __future__ import annotations

from collections.abc import Sequence

from corrigenda.ports import Entailer
from corrigenda.quantities import NumericVerdict, compare
from corrigenda.text import detect_language
from corrigenda.types import Entailment, Evidence, Pair, PairFailure

CONFIDENCE = 0.95
"""Probability given to the class that the rule chooses; the other two share the rest."""
_REST = (1 - CONFIDENCE) / 2
_BY_KIND = {
    "agree": Entailment(entailment=CONFIDENCE, neutral=_REST, contradiction=_REST),
    "conflict": Entailment(entailment=_REST, neutral=_REST, contradiction=CONFIDENCE),
    "open": Entailment(entailment=_REST, neutral=CONFIDENCE, contradiction=_REST),
}


class NumberChecked:
    """An Entailer that wraps another one; see the module's docstring. The inner one still reads every pair."""

    def __init__(self, inner: Entailer) -> None:
        """Wrap `inner`, which is not changed."""
        self._inner = inner
        bounds = getattr(inner, "bounds", None)
        self.bounds: tuple[float, float] | None = bounds
        """Floor and ceiling for the policy `bounded`, where the inner verifier was calibrated with some."""
        self.warnings: tuple[str, ...] = tuple(getattr(inner, "warnings", ()))
        """What users of the inner verifier should know."""
        self.batches: bool = getattr(inner, "batches", True)
        """Whether the inner verifier scores many pairs faster together than one by one."""

    @property
    def name(self) -> str:
        """The inner verifier's name, and that numbers are checked."""
        return f"{self._inner.name} + numbers"

    @property
    def max_tokens(self) -> int:
        """The inner verifier's limit."""
        return self._inner.max_tokens

    def count_tokens(self, text: str) -> int:
        """Count with the inner verifier."""
        return self._inner.count_tokens(text)

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        """Score with the inner verifier, then let the rule decide the pairs that it can decide.

        A pair that the inner verifier failed on stays failed: a rule that fires rarely is no second verifier.
        """
        scores = await self._inner.entail(pairs)
        return [
            score if isinstance(score, PairFailure) else _BY_KIND.get(_compare(pair).kind, score)
            for pair, score in zip(pairs, scores, strict=True)
        ]

    def explain(self, evidence: Evidence, claim: str) -> str | None:
        """Return the rule's reason where the rule decided this window, else None."""
        verdict = _compare(Pair(premise=evidence.text, hypothesis=claim))
        return verdict.reason if _BY_KIND.get(verdict.kind) == evidence.scores else None

    async def aclose(self) -> None:
        """Close the inner verifier."""
        await self._inner.aclose()


def _compare(pair: Pair) -> NumericVerdict:
    return compare(pair.premise, pair.hypothesis, detect_language(pair.hypothesis))
