"""Whether a model's claims say what their sentence says: nothing left out, nothing put in, nothing turned round.

Word by word, no parser: names and numbers exactly, other content words but for their endings. Where the rules are
unsure the claims are refused, and the sentence gets the deterministic ones: those never leave anything out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from corrigenda.grammar import NUMBER_WORDS, negations
from corrigenda.text import content_words, same_word, word_list, words_of

_TOKEN = re.compile(r"[^\W_]+(?:[.,:/@&-][^\W_]+)*")
_LIGHT = word_list(
    "also however moreover furthermore additionally respectively well such known called named located situated "
    "including includes include being having making while whereas too therefore thus both like "
    "inoltre tuttavia rispettivamente chiamato chiamata noto nota situato situata incluso inclusi compreso compresi "
    "ed essendo avendo facendo quindi dunque pure entrambi entrambe s ll ve re"
)
"""Words that a claim of its own does without."""
_ELIDED = word_list("l d c dell nell all dall sull un quest quell")
_CONTRACTED_NOT = re.compile(r"\b\w+n['’]t\b", re.IGNORECASE)
_CONDITIONS = word_list("if unless except may might se")
"""Words that carry no content and yet change what is stated."""
_JOINT = re.compile(r"[,;:]\s|\s(?:and|but|while|whereas|yet|or|e|ed|ma|mentre|però|oppure|o)\s", re.IGNORECASE)


def invented(claim: str, known: str) -> str | None:
    """Return a number or a name of `claim` that does not stand in `known`, or None."""
    there = {part.casefold() for part in _parts(known)} | set(words_of(known))
    for part in _parts(claim):
        if _is_exact(part) and not _is_there(part.casefold(), there, exact=True):
            return part
    return None


def left_out(sentence: str, claims: Sequence[str]) -> str | None:
    """Return what the sentence says and the claims together do not (a word of it), or None.

    A negation counts as left out, or put in, where it is in another clause of the sentence than the claim is from.
    """
    there = {part.casefold() for claim in claims for part in _parts(claim)}
    for part in _parts(sentence):
        word, exact = part.casefold(), _is_exact(part)
        needed = exact or word in _CONDITIONS or bool(content_words(part))
        if needed and not _is_there(word, there, exact=exact):
            return part
    return None if _same_polarity(sentence, claims) else "not"


def _parts(text: str) -> list[str]:
    """Return the words of a text as they are written, elided articles, light words and `n't` left out."""
    found = (match.group() for match in _TOKEN.finditer(_CONTRACTED_NOT.sub(" ", text)))
    return [part for part in found if part.casefold() not in _LIGHT | _ELIDED]


def _is_exact(part: str) -> bool:
    """Return whether a word is a number or may be a name, so that no other form of it will do."""
    number = part[0].isdigit() or part.casefold() in NUMBER_WORDS
    return number or (part[0].isupper() and bool(content_words(part)))


def _is_there(word: str, there: set[str], *, exact: bool) -> bool:
    """Return whether a word is among others, with another ending where it need not be exact."""
    if word in there:
        return True
    if exact:
        return not word[0].isdigit() and (f"{word}s" in there or (len(word) > 3 and word.removesuffix("s") in there))
    return any(same_word(word, other) for other in there)


def _same_polarity(sentence: str, claims: Sequence[str]) -> bool:
    """Return whether the claims have their negations where the sentence has them."""
    total = negations(sentence)
    counts = [negations(claim) for claim in claims]
    if total == 0 or len(claims) == 1:
        return sum(counts) == total
    if sum(counts) < total:
        return False
    shared = set.intersection(*(set(content_words(claim)) for claim in claims))
    clauses = [(set(content_words(c)), negations(c) > 0) for c in _JOINT.split(sentence)]
    for claim, count in zip(claims, counts, strict=True):
        own = {word for word in content_words(claim) if word not in shared}
        sides = {negated for words, negated in clauses if any(_is_there(w, words, exact=False) for w in own)}
        if sides != {count > 0}:
            return False
    return True
