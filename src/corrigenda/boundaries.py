"""Whether a sentence ends at a given mark: the segmentation library's word, and rules for what it gets wrong.

The library (`sentencex`, with abbreviation lists for some 300 languages) is asked about a small window, never
about a whole text. So the decision depends on a bounded stretch of text around the mark, which is what makes it
possible to decide while an answer still streams, and in linear time.
"""

from __future__ import annotations

import re
from functools import lru_cache

import sentencex

LOOKAHEAD = 32
"""How many code points after a mark (and the white space behind it) can matter at most."""

LOOKBEHIND = 64
"""How many code points before a mark can matter at most."""

_OPENING = re.compile(r"""["'“‘«„‹(\[*_~`¿¡\-–—…「『（【]*""")
_WORD = re.compile(r"\w+['’]?")
_LAST_TOKEN = re.compile(r"""[^\s"“”„«»()\[\]*_~`]*$""")
_ELISION = re.compile(r"^\w{1,5}['’](?=\w)")
_ACRONYM = re.compile(r"[^\W\d_](?:\.-?[^\W\d_]{1,2})+|[^\W\d_]{1,2}(?:\.-?[^\W\d_])+")
_ENUMERATOR = re.compile(r"\d{1,3}|[A-Za-z]|[ivxIVX]{1,5}")
_NUMBER_LIKE = re.compile(r"[\d#§]|[IVXLCDM]+\b")
_ROMAN_SO_FAR = re.compile(r"[IVXLCDM]+")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_CLOCK = ("a.m", "p.m", "am", "pm")

# Before a name or a word that belongs to it: the sentence never ends here.
_NEVER = {
    "en": "dr mr mrs ms messrs prof rev hon gen col lt sgt capt cmdr adm maj gov sen rep pres supt mt e.g i.e vs cf "
    "viz approx",
    "it": "sig sigg dott dr prof avv ing arch geom rag on sen cav comm mons cfr es p.es vs gen col magg ten cap amm "
    "pres rev card gent spett egr ill s ss",
}
# Before a number: the sentence does not end; before anything else these may be the last word.
_NUMBERED = {
    "en": "no nos p pp vol vols fig figs ch sec eq ver v c ca cca art",
    "it": "art artt n nn nr p pp pag pagg vol voll fig figg cap capp sez par c ca tab sec",
}
_MONTHS = {
    "en": "jan feb mar apr jun jul aug sep sept oct nov dec",
    "it": "gen feb mar apr mag giu lug ago set sett ott nov dic",
}
# May close a sentence or stand inside one: it ends only where the next word is one that opens sentences.
_MAY_END = {
    "en": "inc co corp ltd llc bros jr sr etc al st ave blvd rd dept est ed eds ft univ assn",
    "it": "ecc etc spa srl tel jr sr st",
}
_STARTERS = {
    "en": "the a an it he she they this that these those in on at its his her their we i you there when while after "
    "before as by for from if since although however but and so then today also both most many some such one each "
    "another during with under according unlike despite because where who what which no not other later",
    "it": "il lo la i gli le l' l’ un uno una un' un’ nel nella nello nei nelle negli nell' nell’ dal dalla del della "
    "al alla questo questa questi queste quello si è era ha fu non in a da con per su tra fra dopo prima quando "
    "mentre poi inoltre anche ma e lui lei egli ella esso essa essi loro oggi secondo durante",
}
_WEEKDAYS = frozenset(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))


@lru_cache(maxsize=64)
def _words(kind: str, language: str) -> frozenset[str]:
    tables = {"never": _NEVER, "numbered": _NUMBERED, "months": _MONTHS, "may_end": _MAY_END, "starters": _STARTERS}
    return frozenset(tables[kind].get(language.split("-", maxsplit=1)[0].casefold(), "").split())


@lru_cache(maxsize=4096)
def _library_says(language: str, window: str, follower: str) -> bool:
    """Ask sentencex whether `window` (which ends in the mark) is a sentence's end before `follower`.

    It takes no lone surrogates; the character that stands for what cannot be shown stands for them.
    """
    return len(sentencex.segment(language, _LONE_SURROGATE.sub("\ufffd", f"{window} {follower}"))) > 1


def is_boundary(
    left: str, mark: str, right: str, language: str, *, at_start: bool = True, complete: bool = True
) -> bool | None:
    """Return whether a sentence ends with `mark`, or None where more of `right` is needed to say.

    `left` is the text of the sentence before the mark (its last `LOOKBEHIND` code points are enough; `at_start`
    says that it is the whole of it), `right` what follows the white space behind the mark (`LOOKAHEAD` code
    points are enough), and `complete` that no more of it is coming or would matter.
    """
    opening = _OPENING.match(right)
    assert opening is not None
    rest = right[opening.end() :]
    if not rest:
        return True if complete else None
    if rest[0].islower():
        # `iPhone`, `eBay`: a small letter before a capital one opens a sentence like a capital.
        if len(rest) == 1:
            return False if complete else None
        return rest[1].isupper() and _library_says(language, _window(left, mark), "I")
    if mark == ".":
        known = _known_word(left, rest, language, at_start=at_start, complete=complete)
        if known != "ask":
            return known == "ends" if known else None
    return _library_says(language, _window(left, mark), rest[0])


def _window(left: str, mark: str) -> str:
    """Return the last words before the mark, without the quotes and brackets that would mislead the library."""
    words = re.sub(r"""["“”„«»()\[\]*_~`]""", " ", left).split()[-2:]
    return " ".join(words) + mark.replace("…", "...")[-3:]


def _known_word(left: str, rest: str, language: str, *, at_start: bool, complete: bool) -> str | None:
    """Return `ends`, `goes on` or `ask` (the library) for a single full stop; None where more text is needed."""
    found = _LAST_TOKEN.search(left)
    assert found is not None
    token = _ELISION.sub("", found.group())
    key = token.casefold()
    enumerates = at_start and left.strip() == token and _ENUMERATOR.fullmatch(token)
    if enumerates or key in _words("never", language):
        return "goes on"
    if key in _words("months", language):
        return "goes on" if rest[0].isdigit() else "ends"
    if key in _words("numbered", language) and not (len(token) == 1 and token.isupper()):
        unsure = not complete and _ROMAN_SO_FAR.fullmatch(rest) is not None
        return None if unsure else "goes on" if _NUMBER_LIKE.match(rest) else "ends"
    if len(token) == 1 and token.islower():
        # `where y = x. Then`, but `44 a. C.` and `z. B.`
        unsure = not complete and len(rest) == 1
        return None if unsure else "goes on" if rest[1:2] == "." else "ends"
    short = len(token) == 1 and token.isupper() and token.isascii()
    if not (short or _ACRONYM.fullmatch(token) or key in _words("may_end", language)):
        return "ask"
    return _by_next_word(key, rest, language, complete=complete)


def _by_next_word(key: str, rest: str, language: str, *, complete: bool) -> str | None:
    """Decide after an initial or an abbreviation by whether the next word is one that opens sentences."""
    word = _WORD.match(rest)
    if word is None:
        return "goes on"
    if word.end() == len(rest) and not complete:
        return None
    follower = word.group()
    if follower.casefold() in _words("starters", language):
        return "ends"
    if key in _CLOCK:
        # "at 5 p.m. Rain fell", but "at 5 p.m. EST" and "at 5 p.m. Monday"
        return "ends" if follower.istitle() and follower.casefold() not in _WEEKDAYS else "goes on"
    return "goes on"
