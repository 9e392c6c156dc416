"""How two quantities of one dimension relate: one follows from the other, they exclude each other, or neither."""

from __future__ import annotations

import re
from enum import Enum
from fractions import Fraction

from corrigenda.quantities.model import Quantity, QuantityKind

TIME = frozenset({"date", "day-of-year"})
"""The dimensions that say when."""

_APPROXIMATE_CORE, _APPROXIMATE_WIDE = Fraction(1, 20), Fraction(1, 4)
# Bytes are counted in thousands or in 1024s.
_DATA_CORE, _DATA_WIDE = Fraction(1, 40), Fraction(1, 10)
_AMBIGUOUS_GROUP = re.compile(r"(?<![0-9.,])[0-9]{1,3}[.,][0-9]{3}(?![0-9.,])")


class Relation(Enum):
    """What a premise's quantity says about a hypothesis's."""

    EQUAL = "equal"
    OVERLAP = "overlap"
    DISJOINT = "disjoint"


def relate(premise: Quantity, hypothesis: Quantity) -> Relation:
    """Return `equal` when the hypothesis follows from the premise, `disjoint` when both cannot hold, else `overlap`.

    The quantities must have the same dimension. Disjoint needs a gap wider than the rounding of both; a value
    given as approximate agrees within 5% and is excluded beyond 25%.
    """
    if _follows(premise, hypothesis):
        return Relation.EQUAL
    low, high = _widened(premise, _APPROXIMATE_WIDE)
    other_low, other_high = _widened(hypothesis, _APPROXIMATE_WIDE)
    apart = (low is not None and other_high is not None and low > other_high) or (
        high is not None and other_low is not None and high < other_low
    )
    return Relation.DISJOINT if apart else Relation.OVERLAP


def _widened(quantity: Quantity, share: Fraction) -> tuple[Fraction | None, Fraction | None]:
    """Return the interval with its rounding, and with `share` of the value where it is approximate."""

    def slack(value: Fraction) -> Fraction:
        loose = Fraction(0)
        if quantity.dimension == "data":
            loose = _DATA_WIDE if share == _APPROXIMATE_WIDE else _DATA_CORE
        if quantity.approximate and quantity.dimension in TIME:
            return Fraction(372 * 100 if share == _APPROXIMATE_WIDE else 372)
        return abs(value) * max(loose, share if quantity.approximate else Fraction(0)) + quantity.rounding

    low = None if quantity.low is None else quantity.low - slack(quantity.low)
    high = None if quantity.high is None else quantity.high + slack(quantity.high)
    return low, high


def _follows(premise: Quantity, hypothesis: Quantity) -> bool:
    if premise.uncertain or hypothesis.uncertain:
        return _same_writing(premise, hypothesis)
    bounded = hypothesis.kind in {QuantityKind.BOUND, QuantityKind.RANGE}
    if premise.approximate and not hypothesis.approximate and not bounded:
        return False
    low, high = _widened(hypothesis, _APPROXIMATE_CORE) if not bounded else (hypothesis.low, hypothesis.high)
    below = low is None or (premise.low is not None and premise.low >= low)
    above = high is None or (premise.high is not None and premise.high <= high)
    if hypothesis.strict and not premise.strict:
        below = below and (low is None or premise.low != low)
        above = above and (high is None or premise.high != high)
    return below and above


def _same_writing(premise: Quantity, hypothesis: Quantity) -> bool:
    return premise.text.lower() == hypothesis.text.lower() and premise.low == hypothesis.low


def thousandfold(premise: Quantity, hypothesis: Quantity) -> bool:
    """Return whether the two may differ only in what their separators mean ("1.250" and "1,25")."""
    if not (_AMBIGUOUS_GROUP.search(premise.text) or _AMBIGUOUS_GROUP.search(hypothesis.text)):
        return False
    one, other = premise.low or Fraction(0), hypothesis.low or Fraction(0)
    return any(
        Fraction(99, 100) * low < high < Fraction(101, 100) * low
        for low, high in ((1000 * one, other), (1000 * other, one))
    )
