"""What a passage and a query are compared by: their terms, and the weights of BM25. Pure.

All retrievers of the project cut texts here, so that a small collection in memory and a large index on disk find
the same. A query is never parsed: its words are looked up, and no character of it has a meaning of its own.
"""

from __future__ import annotations

import re
import unicodedata

from corrigenda.text import FUNCTION_WORDS

TERMS_VERSION = 1
"""Grows when `terms` gives other terms for a text; an index that was made with another version is refused."""
K1 = 1.2
"""How soon more occurrences of a term stop to count (Robertson and Zaragoza 2009); tantivy's fixed value."""
B = 0.75
"""How much a passage's length counts, from 0 to 1; tantivy's fixed value."""
MAX_QUERY_TERMS = 256
"""Terms of a query that are looked up; a claim has a few dozen, and each costs time."""
_MAX_LENGTH = 64

# Scripts that are written without spaces: Thai to Tibetan and Myanmar, Khmer, kana, Han.
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Scripts of India: vowel signs are marks, which Python does not count among the letters.
_MARKED = "\u0900-\u0963\u0966-\u0dff"
_TERM = re.compile(
    rf"(?P<run>[{_UNSPACED}]+)"
    rf"|(?P<number>\d+(?:[.,]\d+)*)(?![^\W_])"
    rf"|(?:(?![{_UNSPACED}])[^\W_]|[{_MARKED}])+"
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+\Z")
_ACCENTS = re.compile("[\u0300-\u036f]+")


def terms(text: str) -> list[str]:
    """Return the terms of a text, in order, with repetitions.

    Letter case, accents and forms of width do not matter (`Zoë` and `ZOE` are one term). A word, or a number with
    its inner marks (`3.5`; `1,901` is `1901`), is a term; an English plural is its singular (the S stemmer of
    Harman 1991, applied to every word, so that texts and queries are treated alike). Scripts that are written
    without spaces give all pairs of neighbouring characters.
    """
    found: list[str] = []
    for match in _TERM.finditer(_folded(text)):
        term = match.group()
        if match["run"]:
            found += [term[i : i + 2] for i in range(len(term) - 1)] or [term]
        elif match["number"]:
            found.append((term.replace(",", "") if _THOUSANDS.match(term) else term)[:_MAX_LENGTH])
        else:
            found.append(_singular(term)[:_MAX_LENGTH])
    return found


def query_terms(text: str) -> list[str]:
    """Return the terms of a query, each once, in order, at most `MAX_QUERY_TERMS`.

    Function words of English and Italian are left out, unless there is nothing else (`The Who`): in a small
    collection they are not frequent enough to weigh as little as they mean.
    """
    found = dict.fromkeys(terms(text))
    return list([term for term in found if term not in _FUNCTION_TERMS] or found)[:MAX_QUERY_TERMS]


def _folded(text: str) -> str:
    """Return a text in small letters, without accents, in one form of width."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold())))


def _singular(word: str) -> str:
    """Return an English word without its plural ending; any other word changes alike wherever it stands."""
    if len(word) <= 3 or word[-1] != "s":
        return word
    if word.endswith("ies"):
        return word if word[-4] in "ae" else f"{word[:-3]}y"
    if word.endswith("es"):
        return word if word[-3] in "aeo" else word[:-1]
    return word if word[-2] in "us" else word[:-1]


_FUNCTION_TERMS = frozenset(terms(" ".join(FUNCTION_WORDS["en"] | FUNCTION_WORDS["it"])))
