"""Cut a text into words, digit groups and symbols, and into sentences. Linear in the length of the text."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from corrigenda.types import Span

_TOKEN = re.compile(
    r"(?P<number>[0-9]+(?:[.,'’\u00a0\u202f\u2009][0-9]+)*)|(?P<word>[^\W\d_]+)|(?P<symbol>[^\s])",
)
# The counts are bounded and a run of marks is entered at its head only, which keeps the search linear.
_SENTENCE_END = re.compile(r"(?<![.!?])[.!?]{1,5}[\"”»')\]]{0,3}\s+(?=[\"“«'(\[]?[A-ZÀ-Þ0-9])|\n+")
# Words before a full stop that do not end a sentence; a single letter (an initial) never does.
_ABBREVIATION_LIST = (
    "dr mr mrs ms prof st sr jr vs no nr ca approx vol fig inc ltd co corp gen col capt lt sgt rev hon dott sig ing "
    "avv art pag cap ecc jan feb mar apr jun jul aug sep sept oct nov dec"
)
_ABBREVIATIONS = frozenset(_ABBREVIATION_LIST.split())


class Token(NamedTuple):
    """A word (letters only), a digit group with its separators, or one symbol; `[start, end)` as in Span."""

    kind: Literal["number", "word", "symbol"]
    text: str
    lower: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of `text` in order; white space is left out."""
    tokens = []
    for match in _TOKEN.finditer(text):
        group = match.group()
        kind: Literal["number", "word", "symbol"] = "symbol"
        if match.lastgroup == "number":
            kind = "number"
        elif match.lastgroup == "word":
            kind = "word"
        tokens.append(Token(kind, group, group.lower(), match.start(), match.end()))
    return tokens


def touching(tokens: list[Token], left: int) -> bool:
    """Return whether the token `left` and the next one exist and have nothing between them."""
    return left >= 0 and left + 1 < len(tokens) and tokens[left].end == tokens[left + 1].start


def sentence_spans(text: str) -> list[Span]:
    """Return the spans of the sentences of `text`, without white space around them.

    Simple on purpose: a wrong cut makes two statements that match nothing, and nothing is decided then.
    """
    spans = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        before = text[max(start, match.start() - 12) : match.start()].rsplit(maxsplit=1)
        word = before[-1].strip("(\"'.").lower() if before else ""
        if match.group()[0] == "." and (len(word.rsplit(".", 1)[-1]) == 1 or word in _ABBREVIATIONS):
            continue
        spans.append(Span(start, match.end()))
        start = match.end()
    spans.append(Span(start, len(text)))
    return [trimmed for span in spans if (trimmed := _trim(text, span)).start < trimmed.end]


def _trim(text: str, span: Span) -> Span:
    part = span.text_of(text)
    return Span(span.end - len(part.lstrip()), span.start + len(part.rstrip()))
