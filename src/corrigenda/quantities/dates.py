"""Read dates: "3 April 2021", "April 3rd, 2021", "2021-04-03", "3/4/2021" (Italian), "aprile 2021", "44 BC"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from corrigenda.quantities.lexicon import Lexicon
from corrigenda.quantities.tokens import Token, touching

_DOTTED = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_BEFORE_CHRIST = (("bc",), ("bce",), ("b", ".", "c", "."), ("a", ".", "c", "."))
_AFTER_CHRIST = (("ad",), ("ce",), ("a", ".", "d", "."), ("d", ".", "c", "."))


@dataclass(frozen=True, slots=True)
class DateReading:
    """The days that a date covers, and the index of the token after it."""

    dimension: str
    low: int
    high: int
    end: int
    is_year: bool = False
    uncertain: bool = False


def day_number(year: int, month: int, day: int) -> int:
    """Return the day's place in an order of all days (see Quantity); it is not a count of days."""
    return 372 * year + 31 * (month - 1) + day - 1


def year_interval(year: int) -> tuple[Fraction, Fraction]:
    """Return the first and the last day of a year."""
    return Fraction(day_number(year, 1, 1)), Fraction(day_number(year, 12, 31))


def read_date(tokens: list[Token], index: int, lexicon: Lexicon) -> DateReading | None:
    """Return the date that begins at the token `index`; None if there is none."""
    token = tokens[index]
    if token.kind != "number":
        return _month_first(tokens, index, lexicon)
    dotted = _DOTTED.fullmatch(token.text) if lexicon.decimal == "," else None
    if dotted:
        return _full(int(dotted[3]), int(dotted[2]), int(dotted[1]), index + 1)
    return _numeric(tokens, index, lexicon) or _day_first(tokens, index, lexicon) or _with_era(tokens, index)


def _full(year: int | None, month: int, day: int, end: int) -> DateReading | None:
    if not (1 <= month <= 12 and 1 <= day <= _MONTH_DAYS[month - 1]):
        return None
    number = day_number(year or 0, month, day)
    return DateReading("day-of-year" if year is None else "date", number, number, end)


def _integer(tokens: list[Token], index: int, most: int) -> int | None:
    """Return the number at `index` when it is plain digits and at most `most`."""
    if index >= len(tokens) or not tokens[index].text.isdecimal() or len(tokens[index].text) > 4:
        return None
    value = int(tokens[index].text)
    return value if tokens[index].kind == "number" and value <= most else None


def _year(tokens: list[Token], index: int) -> int | None:
    value = _integer(tokens, index, 2999)
    return value if value is not None and value >= 100 else None


def _numeric(tokens: list[Token], index: int, lexicon: Lexicon) -> DateReading | None:
    """Three numbers that touch: ISO with hyphens, or day/month/year, whose order English leaves open."""
    if not all(touching(tokens, index + i) for i in range(4)):
        return None
    first, second, third = (_integer(tokens, index + i, 2999) for i in (0, 2, 4))
    if first is None or second is None or third is None:
        return None
    marks = tokens[index + 1].text + tokens[index + 3].text
    if marks == "--" and len(tokens[index].text) == 4:
        return _full(first, second, third, index + 5)
    if marks != "//" or third < 1000:
        return None
    if lexicon.decimal == "," or first > 12:
        return _full(third, second, first, index + 5)
    if second > 12 or first == second:
        return _full(third, first, second, index + 5)
    low, high = sorted((day_number(third, first, second), day_number(third, second, first)))
    return DateReading("date", low, high, index + 5, uncertain=True)


def _month(tokens: list[Token], index: int, lexicon: Lexicon) -> tuple[int, int] | None:
    """Return (month, index after it) for a month's name or abbreviation at `index`."""
    if index >= len(tokens):
        return None
    word = tokens[index].lower
    if word in lexicon.months:
        return lexicon.months[word], index + 1
    if word not in lexicon.month_abbreviations:
        return None
    dot = index + 1 < len(tokens) and tokens[index + 1].text == "." and touching(tokens, index)
    return lexicon.month_abbreviations[word], index + 1 + dot


def _skip(tokens: list[Token], index: int, words: frozenset[str]) -> int:
    return index + 1 if index < len(tokens) and tokens[index].lower in words else index


def _day_first(tokens: list[Token], index: int, lexicon: Lexicon) -> DateReading | None:
    day = _integer(tokens, index, 31)
    if not day:
        return None
    after = _skip(tokens, index + 1, lexicon.ordinal_suffixes)
    month = _month(tokens, _skip(tokens, after, lexicon.of), lexicon)
    if month is None:
        return None
    return _maybe_year(tokens, month[0], day, month[1], lexicon)


def _maybe_year(tokens: list[Token], month: int, day: int, end: int, lexicon: Lexicon) -> DateReading | None:
    after = _skip(tokens, end, frozenset({",", "del", "dell"}) | lexicon.of)
    year = _year(tokens, after)
    return _full(year, month, day, end if year is None else after + 1)


def _month_first(tokens: list[Token], index: int, lexicon: Lexicon) -> DateReading | None:
    month = _month(tokens, index, lexicon)
    if month is None or (tokens[index].lower == "may" and not tokens[index].text[0].isupper()):
        return None
    number, after = month
    day = _integer(tokens, after, 31)
    if day:
        return _maybe_year(tokens, number, day, _skip(tokens, after + 1, lexicon.ordinal_suffixes), lexicon)
    after = _skip(tokens, after, frozenset({",", "del"}) | lexicon.of)
    year = _year(tokens, after)
    if year is None:
        return None
    return DateReading("date", day_number(year, number, 1), day_number(year, number, 31), after + 1)


def _with_era(tokens: list[Token], index: int) -> DateReading | None:
    """Read a year with its era: "44 BC", "79 d.C."."""
    year = _integer(tokens, index, 9999)
    if not year:
        return None
    for names, sign in ((_BEFORE_CHRIST, -1), (_AFTER_CHRIST, 1)):
        for name in names:
            after = tokens[index + 1 : index + 1 + len(name)]
            if tuple(t.lower for t in after) == name and after[-1 if len(name) == 1 else 2].text.isupper():
                low, high = (int(v) for v in year_interval(sign * year))
                return DateReading("date", low, high, index + 1 + len(name), is_year=True)
    return None
