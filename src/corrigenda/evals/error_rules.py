"""The paper's categories of error as rules: word lists and counts over a claim and its reference. Pure, no model.

Rules are tried in the order of `RULES`; the first that fires names the category. What it looked at is kept in the
finding, so that a reader can disagree with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from corrigenda.grammar import has_number, subject_of
from corrigenda.prompts import load
from corrigenda.quantities import find_quantities
from corrigenda.replies import is_abstention, is_refusal
from corrigenda.sentences import split_sentences
from corrigenda.text import FUNCTION_WORDS, content_words, detect_language, word_list, words_of

Category = Literal["temporal", "subtle substitution", "fabrication", "rare fact", "other"]
CATEGORIES: tuple[Category, ...] = ("temporal", "subtle substitution", "fabrication", "rare fact", "other")

SHARED = 0.6
"""From this share of a claim's content words in one sentence of the reference, the two say nearly the same."""
UNRELATED = 0.2
"""Up to this share of a claim's content words in the reference, the reference knows nothing of it."""
TIME_WORDS = {
    "en": word_list(
        "before after since until till during ago later earlier previously formerly currently now nowadays today "
        "yesterday still recently century centuries decade decades"
    ),
    "it": word_list(
        "dopo finché durante successivamente precedentemente attualmente adesso oggi ieri ancora recentemente secolo "
        "secoli decennio decenni"
    ),
}
"""Words of time and order. Those that more often mean something else (`first`, `prima`, `fa`) are left out."""
HEDGES = word_list(
    "uncertain unclear unknown disputed perhaps possibly probably reportedly allegedly maybe forse incerto ignoto"
)
_NAMED_AFTER = re.compile(r"\b(?:named|called)\s+after\b|\bafter\s+all\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:[.,:'’/-][^\W_]+)*")
_OPENING = " \"'“«(*_#-"
"""What may stand before a sentence's first word."""
_SHORTEST, _ENDING = 4, 3
"""From how many letters on, and by how many letters at most, `text.same_word` lets two words differ."""
_KEPT = 4
"""Texts of which what was found in them is kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What the rules look at: one claim of an error."""

    claim: str
    reference: str | None
    """All that the claim was checked against; None where the method keeps no reference."""
    evidence: str | None = None
    """The window of the reference that decided."""
    false: bool
    """Whether the claim (or the answer that it is of) is hallucinated."""

    @property
    def language(self) -> str:
        """The language of the claim."""
        return detect_language(self.claim)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Which category, by which rule, and what made it fire."""

    category: Category
    rule: str
    claim: str
    """The claim that the rule fired on."""
    values: Mapping[str, Any] = field(default_factory=dict)


Rule = Callable[[Case], Finding | None]


def categorise(cases: Sequence[Case]) -> Finding:
    """Return the finding for an error with these claims: the first rule that fires on any of them, else `other`.

    Raises ValueError when there is no claim.
    """
    if not cases:
        raise ValueError("an error needs at least one claim to be sorted")
    for rule in RULES:
        for case in cases:
            found = rule(case)
            if found is not None:
                return found
    return Finding(category="other", rule="no rule fires", claim=cases[0].claim)


def temporal(case: Case) -> Finding | None:
    """Fire on a date, a year or a word of time in the claim."""
    dates = _dates(case.claim, case.language)
    plain = _NAMED_AFTER.sub(" ", case.claim)
    of_time = TIME_WORDS.get(case.language, TIME_WORDS["en"])
    words = [word for word in words_of(plain) if word in of_time]
    if not dates and not words:
        return None
    values = {"dates": dates, "words": words}
    return Finding(category="temporal", rule="the claim has a date or a word of time", claim=case.claim, values=values)


def substitution(case: Case) -> Finding | None:
    """Fire where a sentence of the reference has most of the claim's words, but not a name or number of it."""
    near = _nearest(case.claim, case.reference, case.language)
    if near is None or near.share < SHARED:
        return None
    names = names_in(case.claim, case.language)
    other = _other_names(names, near, names_in(near.text, case.language))
    telling = [name for name in names if name in other]
    telling += [word for word in near.missing if has_number(word)]
    if not telling:
        return None
    values = {"sentence": near.text, "shared": round(near.share, 3), "missing": telling}
    rule = "a sentence of the reference differs in a name or a number"
    return Finding(category="subtle substitution", rule=rule, claim=case.claim, values=values)


def fabrication(case: Case) -> Finding | None:
    """Fire where the claim is false and the reference has none of its names, or next to none of its words."""
    if not case.false or not case.reference or _abstains(case.reference, case.language):
        return None
    found = _unmentioned(case.claim, case.reference, names_in(case.claim, case.language))
    return None if found is None else Finding(category="fabrication", rule=found[0], claim=case.claim, values=found[1])


def rare(case: Case) -> Finding | None:
    """Fire where the reference is empty, hedges, or does not mention the claim's subject."""
    if case.reference is None:
        return None
    subject = subject_of(case.claim, case.language)
    near = _nearest(case.claim, case.reference, case.language)
    hedge = None if near is None else next((w for w in words_of(near.text) if w in HEDGES), None)
    found: tuple[str, dict[str, Any]] | None
    if not case.reference.strip():
        found = "the reference is empty", {}
    elif _abstains(case.reference, case.language):
        found = "the reference hedges", {"hedge": "it says that it does not know"}
    elif hedge is not None:
        found = "the reference hedges", {"hedge": hedge}
    elif subject is not None:
        absent = not _mentions(subject, _words_in(case.reference))
        found = ("the reference does not mention the claim's subject", {"subject": subject}) if absent else None
    else:
        found = _unmentioned(case.claim, case.reference, names_in(case.claim, case.language))
    return None if found is None else Finding(category="rare fact", rule=found[0], claim=case.claim, values=found[1])


def temporal_evidence(case: Case) -> Finding | None:
    """Fire, when nothing else does, on a date in a sentence of the evidence that has most of the claim's words."""
    near = _nearest(case.claim, case.evidence, case.language)
    dates = _dates(near.text, case.language) if near is not None and near.share >= SHARED else []
    if not dates:
        return None
    return Finding(category="temporal", rule="the evidence has a date", claim=case.claim, values={"dates": dates})


RULES: tuple[Rule, ...] = (temporal, substitution, fabrication, rare, temporal_evidence)


def names_in(text: str, language: str = "en") -> list[str]:
    """Return the names of a text: runs of capitalised words, those that only open a sentence left out."""
    names: list[str] = []
    functions = FUNCTION_WORDS.get(language, FUNCTION_WORDS["en"])
    for sentence in split_sentences(text, language):
        subject = subject_of(sentence.text, language)
        first = len(sentence.text) - len(sentence.text.lstrip(_OPENING))
        run: list[str] = []
        end = 0
        for match in _WORD.finditer(sentence.text):
            word = match.group()
            capital = word[0].isupper() and word.casefold() not in functions
            opens = match.start() <= first and subject is None
            joined = bool(run) and not sentence.text[end : match.start()].strip()
            if run and not (capital and joined):
                names.append(" ".join(run))
                run = []
            if capital and not opens:
                run.append(word)
                end = match.end()
        if run:
            names.append(" ".join(run))
    return names


def _dates(text: str, language: str) -> list[str]:
    return [q.text for q in find_quantities(text, language) if q.dimension in ("date", "day-of-year")]


@lru_cache(maxsize=_KEPT)
def _abstains(reference: str, language: str) -> bool:
    prompts = load(language)
    return is_abstention(reference, prompts) or is_refusal(reference, prompts)


class _Near(NamedTuple):
    """The sentence of a text that has most of a claim's content words."""

    share: float
    text: str
    missing: list[str]
    """The content words that it does not have."""


def _nearest(claim: str, text: str | None, language: str) -> _Near | None:
    """Return the nearest sentence, the first of equals; None when no sentence has any of the claim's words."""
    wanted = content_words(claim)
    counts, index = Counter(wanted), _Words(wanted)
    best, found = None, set[str]()
    for sentence, words in _sentences_of(text or "", language):
        there = {word for other in words for word in index.like(other)}
        # As the share of those that are missing, or two that are equal could round apart.
        share = 1 - (len(wanted) - sum(counts[word] for word in there)) / len(wanted) if wanted else 0.0
        if share > (best[0] if best else 0.0):
            best, found = (share, sentence), there
    return None if best is None else _Near(*best, [word for word in wanted if word not in found])


def _other_names(names: Sequence[str], near: _Near, there: Sequence[str]) -> set[str]:
    """Return those names that a sentence lacks, or has with another part (`Marie Curie`, `Pierre Curie`).

    `there` are the names in the sentence. A name that is only shortened there (`Thatcher`) is the same name.
    """
    missing, words = _Words(near.missing), _Words(words_of(near.text))
    others = [_Words(content_words(other)) for other in dict.fromkeys(there)]
    found = set()
    for name in dict.fromkeys(names):
        parts = _Words(content_words(name))
        if not any(part in missing for part in parts):
            continue
        sharing = [other for other in others if any(part in other for part in parts)]
        if any(word not in parts for other in sharing for word in other) or not (sharing or _mentions(name, words)):
            found.add(name)
    return found


def _unmentioned(claim: str, reference: str, names: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
    """Return the rule and its values when a reference has none of a claim's names or, without any, of its words."""
    there = _words_in(reference)
    if names:
        if any(_mentions(name, there) for name in names):
            return None
        return "the reference has none of the claim's names", {"names": list(names)}
    wanted = content_words(claim)
    share = sum(word in there for word in wanted) / len(wanted) if wanted else 1.0
    if share > UNRELATED:
        return None
    return "the reference has next to none of the claim's words", {"shared": round(share, 3)}


def _mentions(name: str, words: _Words) -> bool:
    return any(part in words for part in content_words(name))


# What is looked up often: a reference is the same for all the claims of an answer, and either may be long -------------


class _Words:
    """Words to find others among that are one with them but for an ending, as `text.same_word` says.

    That compares two words; this one looks up a word among thousands without going over them.
    """

    def __init__(self, words: Iterable[str]) -> None:
        """Take the words; one that stands twice counts once."""
        self._words = dict.fromkeys(words)
        self._by_stem: dict[str, list[str]] = {}
        self._by_beginning: dict[str, list[str]] = {}
        for word in self._words:
            if len(word) >= _SHORTEST and not word[0].isdigit():
                self._by_stem.setdefault(word[:-1], []).append(word)
                for end in range(max(len(word) - 1 - _ENDING, _SHORTEST - 1), len(word)):
                    self._by_beginning.setdefault(word[:end], []).append(word)

    def __iter__(self) -> Iterator[str]:
        """Yield the words in their order, each once."""
        return iter(self._words)

    def __contains__(self, word: str) -> bool:
        """Return whether one of the words is the same word."""
        return any(True for _ in self.like(word))

    def like(self, word: str) -> Iterator[str]:
        """Yield those that are the same word, perhaps more than once."""
        if word in self._words:
            yield word
        if word[:1].isdigit():
            return
        if len(word) >= _SHORTEST:  # it is the shorter one
            yield from self._by_beginning.get(word[:-1], ())
        for length in range(max(len(word) - _ENDING, _SHORTEST), len(word) + 1):
            yield from self._by_stem.get(word[: length - 1], ())


@lru_cache(maxsize=_KEPT)
def _words_in(text: str) -> _Words:
    return _Words(words_of(text))


@lru_cache(maxsize=_KEPT)
def _sentences_of(text: str, language: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return each sentence of a text with its words, each once."""
    sentences = split_sentences(text, language)
    return tuple((sentence.text, tuple(dict.fromkeys(words_of(sentence.text)))) for sentence in sentences)
