"""A verifier with the deterministic check of numbers, units, dates and polarity beside it.

Small verifiers miss contradictions that differ only in a value ("12 km" for "1.2 km") and see some where one value
is only written otherwise ("1,200 metres"). `corrigenda.quantities.compare` decides such pairs by rule, rarely and
only where it is safe; there its word replaces the model's probabilities, and everywhere else the model's stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from corrigenda.backends.around import AroundEntailer
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


class NumberChecked(AroundEntailer):
    """An Entailer that wraps another one; see the module's docstring. The inner one still reads every pair."""

    @property
    def name(self) -> str:
        """The inner verifier's name, and that numbers are checked."""
        return f"{self._inner.name} + numbers"

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        """Score with the inner verifier, then let the rule decide the pairs that it can decide.

        A pair that the inner verifier failed on stays failed: a rule that fires rarely is no second verifier.
        """
        scores = await self._inner.entail(pairs)
        return [
            score if isinstance(score, PairFailure) else _BY_KIND.get(_compare(pair).kind, score)
            for pair, score in zip(pairs, scores, strict=True)
        ]

    @property
    def explain(self) -> Callable[[Evidence, str], str | None]:
        """The rule's reason for a window that the rule decided, None for any other; in place of the inner one's."""
        return self._explain

    def _explain(self, evidence: Evidence, claim: str) -> str | None:
        verdict = _compare(Pair(premise=evidence.text, hypothesis=claim))
        return verdict.reason if _BY_KIND.get(verdict.kind) == evidence.scores else None


def _compare(pair: Pair) -> NumericVerdict:
    return compare(pair.premise, pair.hypothesis, detect_language(pair.hypothesis))
