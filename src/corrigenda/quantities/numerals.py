"""Read the value of a number: digits with separators, number words, scale words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from corrigenda.quantities.lexicon import Lexicon
from corrigenda.quantities.tokens import Token, touching

MAX_DIGITS = 40
"""Longer digit strings are names or noise, never quantities; the limit also bounds the arithmetic."""

_GROUPED = re.compile(r"[0-9]{1,3}(?:[.,'’\u00a0\u202f\u2009][0-9]{3})+")
_ITALIAN_THOUSANDS = re.compile(r"(?:(?P<head>[a-zé]+?)mila|mille)(?P<tail>[a-zé]*)")


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number as written: its value, half of its last written place (0 for a count) and where it ends."""

    value: Fraction
    half: Fraction
    end: int
    """Index of the token after it."""
    uncertain: bool = False
    grouped: bool = False
    """Whether it is written with thousands separators."""
    scale: int = 1
    """The last scale word's factor (10**6 in "8 million")."""


def read_digits(text: str, lexicon: Lexicon) -> tuple[Fraction, Fraction, bool] | None:
    """Return (value, half of the last place, whether another reading exists), or None if it is no number.

    A separator that repeats separates thousands; of two kinds, the last is the decimal one; a single one before
    exactly three digits is read as the language writes it, else it is decimal.
    """
    if len(text) > MAX_DIGITS:
        return None
    separators = [c for c in text if not c.isdigit()]
    if not separators:
        return Fraction(int(text)), _half_of_integer(text), False
    last = separators[-1]
    whole, _, decimals = text.rpartition(last)
    plain = "".join(c for c in whole if c.isdigit())
    groups_only = len(set(separators)) == 1 and _GROUPED.fullmatch(text) is not None and text[0] != "0"
    if groups_only and (len(separators) > 1 or last not in ".," or last != lexicon.decimal):
        digits = plain + decimals
        return Fraction(int(digits)), _half_of_integer(digits), False
    if last not in ".," or last in separators[:-1]:
        return None
    if len(separators) > 1 and (len(set(separators[:-1])) > 1 or not _GROUPED.fullmatch(whole)):
        return None
    place = Fraction(1, 10 ** len(decimals))
    return Fraction(int(plain + decimals)) * place, place / 2, groups_only


def _half_of_integer(digits: str) -> Fraction:
    """0 for a number that looks exact; half of the last place that is not a rounded zero for "1,200" or "400"."""
    zeros = len(digits) - len(digits.rstrip("0"))
    return Fraction(10 ** (zeros - 1), 2) if 2 <= zeros < len(digits) else Fraction(0)


def read_numeral(tokens: list[Token], index: int, lexicon: Lexicon) -> Numeral | None:
    """Return the number that begins at the token `index`, with the scale words after it; None if there is none."""
    token = tokens[index]
    if token.kind != "number":
        read = _read_english if lexicon.decimal == "." else _read_italian
        return read(tokens, index, lexicon)
    digits = read_digits(token.text, lexicon)
    if digits is None:
        return None
    value, half, uncertain = digits
    number = Numeral(value, half, index + 1, uncertain, grouped=not token.text.isdigit() and value >= 1000)
    return _with_scale(tokens, number, lexicon, half or Fraction(1, 2))


def _word(tokens: list[Token], index: int) -> str:
    return tokens[index].lower if index < len(tokens) else ""


def _with_scale(tokens: list[Token], number: Numeral, lexicon: Lexicon, half: Fraction) -> Numeral:
    """Multiply by the scale words that follow: "1,25 milioni", "8 million", "5k". A dozen is exact."""
    end, scale = number.end, 1
    while end < number.end + 2:
        word = _word(tokens, end)
        if word == "k" and tokens[end].text == "k" and touching(tokens, end - 1):
            scale *= 1000
        elif word in lexicon.scales:
            scale *= lexicon.scales[word]
        else:
            break
        end += 1
    if scale == 1:
        return number
    rounding = number.half if scale == 12 else half * scale
    return Numeral(number.value * scale, rounding, end, number.uncertain, number.grouped, scale)


def _below_1000(tokens: list[Token], index: int, lexicon: Lexicon) -> tuple[int, int] | None:
    """English words below a thousand: "seven", "twenty-one", "two hundred and fifty"."""
    value, end = _below_100(tokens, index, lexicon)
    if not value and _word(tokens, index) in lexicon.one and _word(tokens, index + 1) in lexicon.scales:
        value, end = 1, index + 1
    if not value:
        return None
    if _word(tokens, end) == "hundred":
        value, end = 100 * value, end + 1
        rest, after = _below_100(tokens, end + (_word(tokens, end) == "and"), lexicon)
        if rest:
            value, end = value + rest, after
    return value, end


def _below_100(tokens: list[Token], index: int, lexicon: Lexicon) -> tuple[int, int]:
    """Return (value, index after it), the value 0 when there is no such word."""
    value = lexicon.numerals.get(_word(tokens, index), 0)
    end = index + 1
    if value < 20:
        return value, end
    joint = end + (_word(tokens, end) == "-")
    unit = 1 if _word(tokens, joint) == "one" else lexicon.numerals.get(_word(tokens, joint), 10)
    return (value + unit, joint + 1) if unit < 10 else (value, end)


def _read_english(tokens: list[Token], index: int, lexicon: Lexicon) -> Numeral | None:
    total, end, half, scale = 0, index, Fraction(0), 10**15
    while group := _below_1000(tokens, end, lexicon):
        value, end = group
        factor = lexicon.scales.get(_word(tokens, end), 1)
        if factor >= scale:
            return None
        total, scale = total + value * factor, factor
        if factor == 1:
            half = Fraction(50 if value % 100 == 0 else 0)
            break
        half = Fraction(0) if factor == 12 else Fraction(factor, 2)
        end += 1
    return Numeral(Fraction(total), half, end, scale=scale) if total else None


def _read_italian(tokens: list[Token], index: int, lexicon: Lexicon) -> Numeral | None:
    word = tokens[index].lower
    value = lexicon.numerals.get(word) or _thousands(word, lexicon)
    if word in lexicon.one and _word(tokens, index + 1) in lexicon.scales:
        value = 1
    if not value:
        return None
    return _with_scale(tokens, Numeral(Fraction(value), Fraction(0), index + 1), lexicon, Fraction(1, 2))


def _thousands(word: str, lexicon: Lexicon) -> int | None:
    """Italian thousands in one word: "duemila", "millenovecento"."""
    match = _ITALIAN_THOUSANDS.fullmatch(word) if len(word) <= MAX_DIGITS else None
    if match is None:
        return None
    head, tail = match.group("head"), match.group("tail")
    thousands = lexicon.numerals.get(head, 0) if head else 1
    rest = lexicon.numerals.get(tail, 0) if tail else 0
    return 1000 * thousands + rest if thousands and bool(rest) == bool(tail) else None
