"""The records of the numeric comparator: a quantity found in a text, and what comparing two texts gave."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from corrigenda.types import Span


class QuantityKind(StrEnum):
    """What sort of quantity a stretch of text is. A range or a bound keeps its unit in `Quantity.dimension`."""

    NUMBER = "number"
    MEASURE = "measure"
    MONEY = "money"
    PERCENT = "percent"
    DATE = "date"
    YEAR = "year"
    ORDINAL = "ordinal"
    RANGE = "range"
    BOUND = "bound"


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """One quantity of a text, as the interval of values it allows, in the canonical unit of its dimension.

    A plain value has `low == high`. Dates are days counted as `372 * year + 31 * (month - 1) + day - 1`, which
    keeps their order and needs no calendar, so that years before Christ (negative) are no special case; a year or
    a month is the interval of its days. A day without a year has the dimension `day-of-year`.
    """

    span: Span
    """Where it stands in the text, with its sign, unit and cue ("at least"); the counted noun is left out."""
    text: str
    """`span.text_of(text)`."""
    kind: QuantityKind
    dimension: str
    """`count`, `ordinal`, `percent`, `date`, `day-of-year`, `money:EUR`, `length` and so on: only quantities of
    the same dimension can be compared."""
    unit: str
    """The canonical unit of `low`, `high` and `rounding`; empty for counts, ordinals and dates."""
    low: Fraction | None
    """The least allowed value; None when there is no lower bound."""
    high: Fraction | None
    """The greatest allowed value; None when there is no upper bound."""
    rounding: Fraction = Fraction(0)
    """Half of the last place that was written (0.05 km for "1.2 km"), in the canonical unit; 0 means exact."""
    approximate: bool = False
    """True when the text says so ("about", "circa")."""
    strict: bool = False
    """True when a bound excludes the value that is written ("more than 40")."""
    uncertain: bool = False
    """True when the text can be read in another way; such a quantity is never part of a conflict."""
    noun: str = ""
    """The lower-case word that follows a count ("people" in "40 people"); empty when there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NumericVerdict:
    """What comparing a premise and a hypothesis gave; `unknown` leaves the decision to the verifier."""

    kind: Literal["agree", "conflict", "open", "unknown"]
    reason: str
    """For a person; names both values when there are two ("1.2 km against 12 km")."""
