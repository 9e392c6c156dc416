"""A quantity in the making, and how two of them share a unit or make a range."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from corrigenda.quantities.model import QuantityKind
from corrigenda.quantities.numerals import Numeral
from corrigenda.quantities.units import Unit


@dataclass(slots=True)
class Found:
    """A quantity in the making: tokens `[first, end)` and what Quantity holds."""

    first: int
    end: int
    kind: QuantityKind
    dimension: str
    low: Fraction | None
    high: Fraction | None
    unit: str = ""
    rounding: Fraction = Fraction(0)
    approximate: bool = False
    strict: bool = False
    uncertain: bool = False
    numeral: Numeral | None = None
    measure: Unit | None = None

    def measured_in(self, unit: Unit) -> None:
        """Turn a bare number into one with this unit."""
        assert self.numeral is not None
        value = (self.low or Fraction(0)) * unit.factor + unit.offset
        self.low = self.high = value
        self.rounding = (self.numeral.half or Fraction(1, 2)) * unit.factor
        self.measure, self.dimension, self.unit = unit, unit.dimension, unit.canonical
        self.kind = QuantityKind.MEASURE
        if unit.dimension.startswith("money:"):
            self.kind, self.rounding = QuantityKind.MONEY, self.numeral.half
        elif unit.dimension.startswith("percent"):
            self.kind = QuantityKind.PERCENT


def share_unit(left: Found, right: Found) -> None:
    """Give the left end the unit (and the scale word) that is written once, after the right end."""
    if left.numeral is None or left.measure is not None:
        return
    ours, theirs = left.numeral, right.numeral
    if theirs is not None and theirs.scale > 1 and ours.scale == 1 and not ours.grouped and ours.value < 1000:
        half = (ours.half or Fraction(1, 2)) * theirs.scale
        left.numeral = Numeral(ours.value * theirs.scale, half, ours.end, ours.uncertain, scale=theirs.scale)
        left.low = left.high = left.numeral.value
        left.rounding = half
    if right.measure is not None:
        left.measured_in(right.measure)


def join(left: Found, right: Found) -> Found | None:
    """Return the range between two ends that rise; None where they do not make one."""
    same = left.dimension == right.dimension and left.low is not None and right.high is not None
    if not same or left.low is None or right.high is None or left.low >= right.high:
        return None
    joined = Found(left.first, right.end, QuantityKind.RANGE, left.dimension, left.low, right.high, left.unit)
    joined.rounding = max(left.rounding, right.rounding)
    joined.uncertain = left.uncertain or right.uncertain
    return joined
