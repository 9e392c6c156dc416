"""A sentence in the form that two sentences are compared in: content words and quantities, in order."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from corrigenda.quantities.find import read_quantities
from corrigenda.quantities.lexicon import Lexicon, lexicon_for
from corrigenda.quantities.model import Quantity
from corrigenda.quantities.tokens import Token, tokenize

UP, DOWN = "<up>", "<down>"

_BREAKS = frozenset(",;:—–")
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_KEPT_SYMBOLS = frozenset("%$€£¥/+*=#&@^°²³×½¼¾<>_\\|-−")
_APOSTROPHES = frozenset("'’")
_CONTRACTED = {"won": "will", "can": "can", "shan": "shall"}


@dataclass(frozen=True, slots=True)
class Item:
    """One content word (`key`) or one quantity of a sentence."""

    key: str
    quantity: Quantity | None = None
    attributive: bool = False
    """Whether an indefinite article stands before it ("a 2005 film")."""
    definite: bool = False
    """Whether a definite article stands before it ("the 5 km tunnel")."""
    segment: int = 0
    """Number of the comma-bounded part that it stands in."""
    aside: bool = False
    """Whether it stands in parentheses."""
    word: str = ""
    """The word as written, in lower case; empty for a quantity."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence. `items` leaves out articles, punctuation and negations; `negations` counts the latter."""

    items: tuple[Item, ...]
    words: frozenset[str]
    """Every word as written, in lower case."""
    first: str
    negations: int
    """How many words of negation it has."""
    negated_at: int
    """Index in `items` of what a single "not" denies; -1 unless there is exactly one."""
    question: bool


def read_statement(text: str, language: str) -> Statement:
    """Read one sentence. Words are lower-cased for matching only; quantities keep their case. Never raises."""
    lexicon = lexicon_for(language)
    tokens = tokenize(text)
    reader = _Reader(tokens, lexicon)
    quantities = {first: (quantity, end) for quantity, first, end in read_quantities(tokens, text, language)}
    index = 0
    while index < len(tokens):
        if index in quantities:
            quantity, end = quantities[index]
            reader.add_quantity(quantity, index)
            index = end
        else:
            index += reader.add_token(index)
    words = frozenset(token.lower for token in tokens if token.kind == "word")
    first = next((token.lower for token in tokens if token.kind != "symbol"), "")
    negated = reader.negated[0] if len(reader.negated) == 1 else -1
    question = text.rstrip("\"”»') ").endswith("?")
    return Statement(tuple(reader.items), words, first, len(reader.negated), negated, question)


class _Reader:
    """Collects the items of one sentence."""

    def __init__(self, tokens: list[Token], lexicon: Lexicon) -> None:
        self.tokens, self.lexicon = tokens, lexicon
        self.items: list[Item] = []
        self.negated: list[int] = []
        self.segment = self.depth = 0

    def _at(self, index: int) -> str:
        return self.tokens[index].lower if 0 <= index < len(self.tokens) else ""

    def _append(self, key: str, word: str = "") -> None:
        self.items.append(Item(key, segment=self.segment, aside=self.depth > 0, word=word))

    def add_quantity(self, quantity: Quantity, index: int) -> None:
        """Add a quantity; the preposition of time before it says nothing of its own and goes."""
        if quantity.dimension in {"date", "day-of-year"}:
            while self.items and self.items[-1].key in self.lexicon.time_prepositions:
                self.items.pop()
        before = self._at(index - 1)
        indefinite = before in self.lexicon.indefinite
        definite = before in self.lexicon.articles and not indefinite
        self.items.append(Item("", quantity, indefinite, definite, self.segment, self.depth > 0))

    def add_token(self, index: int) -> int:
        """Add the word or symbol at `index`; return how many tokens it took."""
        token = self.tokens[index]
        if token.kind == "symbol":
            return self._symbol(token)
        if token.kind == "word" and self._contraction(index):
            return 3
        word = token.lower
        if token.kind == "word" and word in self.lexicon.negations:
            self.negated.append(len(self.items))
            if word not in {"not", "non", "never", "mai"}:
                self._append(f"<{word}>")
            return 1
        if word not in self.lexicon.articles:
            self._append(self._canonical(word, self._at(index - 1) in self.lexicon.articles), word)
        return 1

    def _symbol(self, token: Token) -> int:
        if token.text in _OPEN:
            self.depth += 1
        elif token.text in _CLOSE:
            self.depth = max(0, self.depth - 1)
        elif token.text in _BREAKS:
            self.segment += 1
        elif token.text in _KEPT_SYMBOLS and token.text != "-":
            self._append(token.text)
        return 1

    def _contraction(self, index: int) -> bool:
        """Read "wasn't" (three tokens) as "was" and a negation."""
        word = self._at(index)
        if self._at(index + 1) not in _APOSTROPHES or self._at(index + 2) != "t" or not word.endswith("n"):
            return False
        self._append(_CONTRACTED.get(word, word[:-1]))
        self.negated.append(len(self.items))
        return True

    def _canonical(self, word: str, noun: bool) -> str:
        """Words of one direction are one word; a plural is its singular. Tense is kept, for it tells the time.

        A `noun` ("the fall of Rome") has no direction.
        """
        if word in self.lexicon.up and not noun:
            return UP
        if word in self.lexicon.down and not noun:
            return DOWN
        if self.lexicon.decimal == ",":
            return word
        word = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
        plural = len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
        return word[:-1] if plural else word
