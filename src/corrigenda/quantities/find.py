"""Find the quantities of a text. Pure, deterministic, linear in the length of the text, and never raises."""

from __future__ import annotations

from fractions import Fraction

from corrigenda.quantities.dates import DateReading, read_date, year_interval
from corrigenda.quantities.found import Found, join, share_unit
from corrigenda.quantities.lexicon import Lexicon, lexicon_for
from corrigenda.quantities.model import Quantity, QuantityKind
from corrigenda.quantities.numerals import Numeral, read_numeral
from corrigenda.quantities.tokens import Token, tokenize, touching
from corrigenda.quantities.units import PHRASES, SYMBOLS, WORDS, Unit
from corrigenda.types import Span

MAX_CHARS = 5_000
"""Only this many code points of a text are read, which bounds the time that hostile text can take."""

_CURRENCIES = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY"}
_MONEY_SCALES = {"m": 10**6, "M": 10**6, "mln": 10**6, "b": 10**9, "B": 10**9, "K": 1000}
_DASHES = frozenset("-‐‑–—−")
_MINUS = frozenset({"-", "−", "minus", "meno"})
_NAME_MARKS = frozenset("-‐‑–—−/:#.^×*=+_'’&@\\")
_OPAQUE_AFTER = frozenset("/:^×⁰¹²³⁴⁵⁶⁷⁸⁹½¼¾⅓⅔_=+@&")
_CENTURY = frozenset({"century", "centuries", "secolo", "secoli"})


def find_quantities(text: str, language: str = "en") -> tuple[Quantity, ...]:
    """Return the quantities of `text`, in order and without overlap.

    `language` is a tag such as "en" or "it"; it decides on separators and words, and every other tag is read as
    English. Numbers that are names ("room 12"), versions, scores, times of day, fractions and powers are no
    quantities. At most `MAX_CHARS` code points are read. Never raises.
    """
    return tuple(quantity for quantity, _, _ in read_quantities(tokenize(text[:MAX_CHARS]), text, language))


def read_quantities(tokens: list[Token], text: str, language: str) -> list[tuple[Quantity, int, int]]:
    """Return (quantity, first token, token after it) for tokens of `text` that are already cut."""
    return _Finder(tokens, text, lexicon_for(language)).run()


class _Finder:
    """One pass over the tokens, then the passes that join neighbours."""

    def __init__(self, tokens: list[Token], text: str, lexicon: Lexicon) -> None:
        self.tokens, self.text, self.lexicon = tokens, text, lexicon
        self.free = 0
        """Index after the last quantity that was found: what lies before it is taken."""

    def run(self) -> list[tuple[Quantity, int, int]]:
        found: list[Found] = []
        index = 0
        while index < len(self.tokens):
            new, index = self._read(index)
            if new is not None:
                found.append(new)
                self.free = new.end
        found = self._ranges(found)
        previous = 0
        for quantity in found:
            self._late_cue(quantity)
            self._cue(quantity, previous)
            previous = quantity.end
        return [(self._finish(q), q.first, q.end) for q in found]

    def _at(self, index: int) -> str:
        return self.tokens[index].lower if 0 <= index < len(self.tokens) else ""

    def _matches(self, index: int, phrase: tuple[str, ...]) -> bool:
        return index >= 0 and tuple(t.lower for t in self.tokens[index : index + len(phrase)]) == phrase

    # --- one quantity -------------------------------------------------------------------------------------------

    def _read(self, index: int) -> tuple[Found | None, int]:
        """Return the quantity that begins at `index`, if any, and where to go on."""
        if self.tokens[index].kind == "symbol":
            return None, index + 1
        date = None if self._glued_before(index) else read_date(self.tokens, index, self.lexicon)
        if date is not None:
            return self._date(index, date)
        ordinal = self._ordinal(index)
        if ordinal is not None:
            return ordinal, ordinal.end
        numeral = read_numeral(self.tokens, index, self.lexicon)
        if numeral is None:
            return None, index + 1
        return self._amount(index, numeral)

    def _date(self, index: int, date: DateReading) -> tuple[Found, int]:
        kind = QuantityKind.YEAR if date.is_year else QuantityKind.DATE
        low, high = Fraction(date.low), Fraction(date.high)
        return Found(index, date.end, kind, date.dimension, low, high, uncertain=date.uncertain), date.end

    def _ordinal(self, index: int) -> Found | None:
        word = self._at(index)
        value, end = self.lexicon.ordinals.get(word), index + 1
        if self.tokens[index].kind == "number" and self._at(end) in self.lexicon.ordinal_suffixes:
            plain = word.isdigit() and len(word) <= 4 and touching(self.tokens, index)
            degrees = self._at(end) == "°" and self._at(end + 1) in {"c", "f", "celsius", "fahrenheit"}
            value, end = (int(word) if plain and not degrees else None), end + 1
        if value is None or self._at(end) in _CENTURY or self._glued_before(index):
            return None
        return Found(index, end, QuantityKind.ORDINAL, "ordinal", Fraction(value), Fraction(value))

    def _amount(self, index: int, numeral: Numeral) -> tuple[Found | None, int]:
        decade = self._decade(index) or self._year_range(index)
        if decade is not None:
            return decade, decade.end
        value = numeral.value
        new = Found(index, numeral.end, QuantityKind.NUMBER, "count", value, value, rounding=numeral.half)
        new.numeral, new.uncertain = numeral, numeral.uncertain
        second = self._second_end(new)
        if second is not None:
            return self._dashed(new, second)
        currency = self._currency_before(new)
        unit = currency or self._unit_after(new)
        if self._opaque(new, unit):
            return None, new.end
        year = None if unit else self._year(new)
        if year is not None:
            return year if year.kind is QuantityKind.YEAR else None, year.end
        self._sign(new)
        if unit is not None:
            new.measured_in(unit)
        self._aftermath(new)
        return new, new.end

    def _glued_before(self, index: int) -> bool:
        """Whether the number is the tail of a name: "COVID-19", "10:30", "#5", "B2"."""
        if not touching(self.tokens, index - 1):
            return False
        mark = self.tokens[index - 1]
        if mark.text in {"-", "−"}:
            return touching(self.tokens, index - 2) and self.tokens[index - 2].text != "("
        elision = mark.text in {"'", "’"} and index >= 2 and self.tokens[index - 2].kind == "word"
        return (mark.kind == "word" and not elision) or (mark.text in _NAME_MARKS and not elision)

    def _opaque(self, new: Found, unit: Unit | None) -> bool:
        """Whether the number is a name, a score, a fraction or a power rather than a quantity."""
        end = new.end
        if self._glued_before(new.first):
            return True
        if end < len(self.tokens) and (
            self.tokens[end].text in _OPAQUE_AFTER
            or (touching(self.tokens, end - 1) and self.tokens[end].kind == "word" and unit is None)
        ):
            return True
        if "x" in {self._at(end), self._at(new.first - 1)} or (self._at(end) in _DASHES and self._digit(end + 1)):
            return True
        if unit is not None or new.first == 0:
            return False
        before = self.tokens[new.first - 1]
        if before.text in {".", "°", "º"} and touching(self.tokens, new.first - 2) and new.first >= 2:
            return self.tokens[new.first - 2].lower in self.lexicon.labels
        named = before.kind == "word" and before.text[0].isupper() and before.lower not in self.lexicon.function
        return before.lower in self.lexicon.labels or (named and self.tokens[new.first].kind == "number")

    def _digit(self, index: int) -> bool:
        return index < len(self.tokens) and self.tokens[index].kind == "number" and touching(self.tokens, index - 1)

    def _sign(self, new: Found) -> None:
        before = new.first - 1
        if before < 0 or self._at(before) not in _MINUS or self._digits_at(before - 1):
            return
        if self.tokens[before].kind == "word" or touching(self.tokens, before):
            new.low = new.high = -(new.low or Fraction(0))
            new.first = before

    def _digits_at(self, index: int) -> bool:
        return index >= 0 and self.tokens[index].kind == "number"

    def _currency_before(self, new: Found) -> Unit | None:
        symbol = new.first - 1
        if symbol < self.free or self.tokens[symbol].text not in _CURRENCIES:
            return None
        code = _CURRENCIES[self.tokens[symbol].text]
        new.first = symbol
        if symbol > self.free and touching(self.tokens, symbol - 1) and self.tokens[symbol - 1].kind == "word":
            country = self.tokens[symbol - 1].text.upper()
            code = code if country == "US" else f"{country}-{code}"
            new.first = symbol - 1
        scale = _MONEY_SCALES.get(self.tokens[new.end].text) if new.end < len(self.tokens) else None
        if scale and new.numeral is not None and touching(self.tokens, new.end - 1):
            half = (new.numeral.half or Fraction(1, 2)) * scale
            new.low = new.high = new.numeral.value * scale
            new.numeral = Numeral(new.low, half, new.end + 1, new.uncertain, scale=scale)
            new.end += 1
        return Unit(f"money:{code}", code)

    def _unit_after(self, new: Found) -> Unit | None:
        """Return the unit after the number and move its end there."""
        start = new.end
        if self._at(start) in self.lexicon.of and new.numeral is not None and new.numeral.scale > 1:
            start += 1  # "milioni di euro"
        elif self._at(start) in {"-", "‑"} and touching(self.tokens, start - 1):
            start += 1  # "16-year-old"
        for size in (3, 2, 1):
            unit = PHRASES.get(tuple(t.lower for t in self.tokens[start : start + size]))
            if unit is not None:
                new.end = min(start + size, len(self.tokens))
                return unit
        if start >= len(self.tokens):
            return None
        token = self.tokens[start]
        unit = SYMBOLS.get(token.text) or WORDS.get(token.lower)
        # A K that touches its number is a thousand as often as a kelvin.
        if unit is None or (token.text == "K" and touching(self.tokens, start - 1)):
            return None
        if token.lower in {"pound", "pounds"} and new.numeral is not None and new.numeral.scale > 1:
            unit = WORDS["£"]
        new.end = start + 1
        return unit

    def _aftermath(self, new: Found) -> None:
        """Read what follows the unit: "below zero", "and a half"."""
        end = new.end
        if self._matches(end, ("below", "zero")) or self._matches(end, ("sotto", "zero")):
            new.low = new.high = -(new.low or Fraction(0))
            new.end = end + 2
        if self._at(end) in {"and", "e"} and (self._at(end + 1) in {"half", "mezzo", "mezza", "a", "three"}):
            new.uncertain = new.uncertain or self._at(end + 1) != "a" or self._at(end + 2) in {"half", "quarter"}

    # --- years ---------------------------------------------------------------------------------------------------

    def _plain_year(self, index: int) -> int | None:
        text = self.tokens[index].text if 0 <= index < len(self.tokens) else ""
        return int(text) if len(text) == 4 and text.isdecimal() and 1000 <= int(text) <= 2100 else None

    def _decade(self, index: int) -> Found | None:
        """Read "1980s" as its ten years."""
        year = self._plain_year(index)
        if year is None or year % 10 or self._at(index + 1) != "s" or not touching(self.tokens, index):
            return None
        span = 99 if year % 100 == 0 else 9
        low, high = year_interval(year)[0], year_interval(year + span)[1]
        return Found(index, index + 2, QuantityKind.RANGE, "date", low, high, uncertain=span == 99)

    def _year_range(self, index: int) -> Found | None:
        """Read "1990–1995"."""
        first, second = self._plain_year(index), self._plain_year(index + 2)
        if first is None or second is None or self._at(index + 1) not in _DASHES or first >= second:
            return None
        low, high = year_interval(first)[0], year_interval(second)[1]
        return Found(index, index + 3, QuantityKind.RANGE, "date", low, high)

    def _year(self, new: Found) -> Found | None:
        """Read four digits as a year where the words around say so; a Found of another kind means undecided."""
        year = self._plain_year(new.first)
        if year is None or new.end != new.first + 1:
            return None
        before, after = self._at(new.first - 1), self.tokens[new.end] if new.end < len(self.tokens) else None
        plural = after is not None and after.kind == "word" and after.lower not in self.lexicon.function
        plural = plural and after is not None and after.text.islower() and self._plural(after.lower)
        cued = before in self.lexicon.year_cues or before in {"(", ","} or before in self.lexicon.articles
        if not cued:
            return None
        low, high = year_interval(year)
        kind = QuantityKind.NUMBER if plural else QuantityKind.YEAR
        return Found(new.first, new.end, kind, "date", low, high)

    def _plural(self, word: str) -> bool:
        if self.lexicon.decimal == ",":
            return word.endswith(("i", "e")) and len(word) > 3
        return (word.endswith("s") and not word.endswith("ss")) or word in {"people", "men", "women", "children"}

    # --- ranges --------------------------------------------------------------------------------------------------

    def _second_end(self, new: Found) -> Numeral | None:
        """Return the number after a dash ("5–8 km"), if there is one."""
        dash = new.end
        tight = touching(self.tokens, dash - 1) == touching(self.tokens, dash)
        if self._at(dash) not in _DASHES or not tight or dash + 1 >= len(self.tokens):
            return None
        return read_numeral(self.tokens, dash + 1, self.lexicon) if self.tokens[dash + 1].kind == "number" else None

    def _dashed(self, new: Found, second: Numeral) -> tuple[Found | None, int]:
        """Join the ends of "5–8 km"; without a unit it may be a score, and nothing is read."""
        other = Found(new.end + 1, second.end, QuantityKind.NUMBER, "count", second.value, second.value)
        other.numeral, other.rounding = second, second.half
        currency = self._currency_before(new)
        unit = currency or self._unit_after(other)
        chained = self._at(other.end) in _DASHES or self._glued_before(new.first)
        if unit is None or chained:
            return None, other.end
        other.measured_in(unit)
        share_unit(new, other)
        return join(new, other), other.end

    def _ranges(self, found: list[Found]) -> list[Found]:
        """Share units between, and join, neighbours such as "between 5 and 8 km"; "from 5 to 8" stays two."""
        done: list[Found] = []
        for right in found:
            left = done[-1] if done else None
            if left is None or right.first - left.end != 1:
                done.append(right)
                continue
            word, before = self._at(left.end), self._at(left.first - 1)
            between = before in self.lexicon.between and word in self.lexicon.both
            plain = word in self.lexicon.to and before not in self.lexicon.start
            if between or word in self.lexicon.to:
                share_unit(left, right)
            joined = join(left, right) if between or plain else None
            if joined is not None:
                joined.first -= between
                done[-1] = joined
            else:
                done.append(right)
        return done

    # --- cues ----------------------------------------------------------------------------------------------------

    def _cue(self, found: Found, previous: int) -> None:
        """Apply the longest cue before the quantity ("no more than")."""
        start = found.first
        if self._at(start - 1) == "." and self._at(start - 2) in {"c", "ca", "approx"}:
            start -= 1
        for size in (3, 2, 1):
            phrase = tuple(self._at(i) for i in range(start - size, start))
            meaning = self.lexicon.cues.get(phrase)
            if meaning is not None and start - size >= previous:
                if self._apply(found, meaning, phrase):
                    found.first = start - size
                return

    def _late_cue(self, found: Found) -> None:
        for size in (2, 1):
            phrase = tuple(self._at(i) for i in range(found.end, found.end + size))
            meaning = self.lexicon.late_cues.get(phrase)
            if meaning is not None and found.dimension not in {"date", "ordinal"}:
                self._apply(found, meaning, phrase)
                found.end += size
                return

    def _apply(self, found: Found, meaning: str, phrase: tuple[str, ...]) -> bool:
        """Apply a cue; return False where it is an ordinary preposition and stays a word of the sentence."""
        timed = found.dimension in {"date", "day-of-year", "ordinal"}
        if timed != (meaning in {"after", "before"}) and meaning not in {"exact", "about"}:
            return False
        if found.dimension in {"duration", "months", "date", "day-of-year"} and phrase[0] in self.lexicon.spatial:
            found.uncertain = True
        if meaning == "exact":
            found.rounding = Fraction(0)
        elif meaning == "about":
            found.approximate = True
        elif meaning in {"least", "more", "after"}:
            found.low, found.high = (found.high if meaning == "after" else found.low), None
        else:
            found.low, found.high = None, (found.low if meaning == "before" else found.high)
        if meaning not in {"exact", "about"}:
            found.kind, found.strict = QuantityKind.BOUND, meaning in {"more", "less", "after", "before"}
        return True

    def _finish(self, found: Found) -> Quantity:
        span = Span(self.tokens[found.first].start, self.tokens[found.end - 1].end)
        after = found.end + (self._at(found.end) in self.lexicon.of)
        following = self.tokens[after] if after < len(self.tokens) else None
        noun = ""
        if found.dimension == "count" and following is not None and following.kind == "word":
            noun = "" if following.lower in self.lexicon.function else following.lower
        return Quantity(
            span=span,
            text=span.text_of(self.text),
            kind=found.kind,
            dimension=found.dimension,
            unit=found.unit,
            low=found.low,
            high=found.high,
            rounding=found.rounding,
            approximate=found.approximate,
            strict=found.strict,
            uncertain=found.uncertain,
            noun=noun,
        )
