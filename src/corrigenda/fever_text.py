"""The text of FEVER's files as a person would write it: escapes, titles, the `lines` field, tokenisation (pure).

FEVER's claims, evidence and Wikipedia dump (Thorne et al. 2018) come out of a tokeniser in the style of the Penn
Treebank: brackets, colons and slashes are escaped (`-LRB-`, `-COLON-`), quotation marks are doubled (two
backticks open, two apostrophes close), punctuation and clitics stand alone (`did n't`, `Rome 's`). A title in the
dump may be composed (NFC) where the evidence names it decomposed (NFD), or the other way round.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

_ESCAPES = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "-COLON-": ":",
    "-SLASH-": "/",
}
_ESCAPE = re.compile("|".join(_ESCAPES))
_TOKENISED = re.compile(r"-[LR][RSC]B-|\s[.?!]\s*\Z")
_LINE_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_LEFT = frozenset([".", ",", ";", ":", "!", "?", "...", "…", ")", "]", "}", "''", "'", "’", "”"])
"""Tokens that belong to the word before them."""
_RIGHT = frozenset(["(", "[", "{", "``", "`", "“", "‘"])
"""Tokens that belong to the word behind them."""
_CLITICS = frozenset(
    f"{before}{mark}{after}"
    for mark in "'’"
    for before, after in (("n", "t"), ("", "s"), ("", "re"), ("", "ve"), ("", "ll"), ("", "d"), ("", "m"))
)
_CURRENCIES = frozenset("$£€¥")


def unescape(text: str) -> str:
    """Return `text` with FEVER's escapes for brackets, colons and slashes undone; all else stays as it is."""
    return _ESCAPE.sub(lambda found: _ESCAPES[found.group()], text)


def display_title(title: str) -> str:
    """Return a page's title for a reader: `Lyon-COLON-_A_City` becomes `Lyon: A City`. Composed (NFC)."""
    return " ".join(unicodedata.normalize("NFC", unescape(title)).replace("_", " ").split())


def title_key(title: str) -> str:
    """Return what a page is looked up by: the same for every way in which FEVER's files write one title.

    Escaped or not, underscores or spaces, composed or decomposed letters. Letter case matters, as on Wikipedia.
    """
    return display_title(title)


def wiki_lines(lines: str) -> dict[int, str]:
    r"""Return the sentences of a page by their numbers, ascending, from the `lines` field of the dump.

    A row is `number\tsentence\tlink\tlink…`; the links are dropped. An empty sentence stays, as an empty text, so
    that the numbers which evidence names still fit. A row without a number is no sentence and is left out; where
    a number comes twice, the first row with it counts. The sentences are detokenised.
    """
    found: dict[int, str] = {}
    for row in lines.split("\n"):
        number, _, rest = row.partition("\t")
        if _LINE_NUMBER.match(number):
            found.setdefault(int(number), detokenise(rest.partition("\t")[0]))
    return dict(sorted(found.items()))


def mostly_tokenised(rows: Collection[Iterable[str]]) -> bool:
    """Whether more than half of the rows, each of some texts, show the tokenisation in at least one of them.

    It shows in an escaped bracket, or in a full stop, question or exclamation mark that stands alone at the end.
    """
    return 2 * sum(any(map(_TOKENISED.search, texts)) for texts in rows) > len(rows)


def detokenise(text: str) -> str:
    """Return `text` on one line, with escapes and tokenisation undone: `( born 1901 ) .` becomes `(born 1901).`.

    Text that was never tokenised stays as it is, but for runs of white space, which become one space. What the
    tokeniser made ambiguous (`can not`, dashes) is left alone. Two backticks close an open quotation, as they do in
    the FeverSymmetric data, unless two apostrophes still follow for that.
    """
    pieces = unescape(text).split()
    written: list[str] = []
    opened = False  # whether a quotation is open
    glue = True  # whether the next piece follows without a space
    for place, piece in enumerate(pieces):
        following = pieces[place + 1] if place + 1 < len(pieces) else ""
        left, right = _sides(piece, pieces[place - 1] if place else "", following)
        if piece == '"' or (piece == "``" and not (opened and _next_mark(pieces[place + 1 :]) == "''")):
            left, right, opened = opened, not opened, not opened
        elif piece == "''":
            opened = False
        if not (glue or left):
            written.append(" ")
        written.append(piece.replace("``", '"').replace("''", '"') if piece != "`" else "'")
        glue = right
    return "".join(written)


def _next_mark(pieces: Iterable[str]) -> str | None:
    """Return the first of the doubled quotation marks among `pieces`."""
    return next((piece for piece in pieces if piece in ("``", "''")), None)


def _sides(piece: str, before: str, following: str) -> tuple[bool, bool]:
    """Return whether a piece belongs to the word before it, and whether to the one behind it."""
    left = piece in _LEFT or piece.lower() in _CLITICS or (piece == "%" and before[-1:].isdigit())
    right = piece in _RIGHT or (piece[-1] in _CURRENCIES and following[:1].isdigit())
    return left, right
