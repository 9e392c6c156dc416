"""The paper's categories of error as rules: word lists and counts over a claim and its reference. Pure, no model.

Rules are tried in the order of `RULES`; the first that fires names the category. What it looked at is kept in the
finding, so that a reader can disagree with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from corrigenda.grammar import has_number, subject_of
from corrigenda.prompts import load
from corrigenda.quantities import find_quantities
from corrigenda.replies import is_abstention, is_refusal
from corrigenda.sentences import split_sentences
from corrigenda.text import FUNCTION_WORDS, content_words, detect_language, same_word, word_list, words_of

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
    words = [w for w in words_of(plain) if w in TIME_WORDS.get(case.language, TIME_WORDS["en"])]
    if not dates and not words:
        return None
    values = {"dates": dates, "words": words}
    return Finding(category="temporal", rule="the claim has a date or a word of time", claim=case.claim, values=values)


def substitution(case: Case) -> Finding | None:
    """Fire where a sentence of the reference has most of the claim's words, but not a name or number of it."""
    near = _nearest(case.claim, case.reference, case.language)
    if near is None or near.share < SHARED:
        return None
    there = names_in(near.text, case.language)
    telling = [name for name in names_in(case.claim, case.language) if _is_other_name(name, near, there)]
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
        absent = not _mentions(subject, words_of(case.reference))
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
    for sentence in split_sentences(text, language):
        subject = subject_of(sentence.text, language)
        run: list[str] = []
        end = 0
        for match in _WORD.finditer(sentence.text):
            word = match.group()
            capital = word[0].isupper() and word.casefold() not in FUNCTION_WORDS.get(language, FUNCTION_WORDS["en"])
            opens = not sentence.text[: match.start()].strip(" \"'“«(*_#-") and subject is None
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
    best: _Near | None = None
    for sentence in split_sentences(text or "", language):
        there = words_of(sentence.text)
        missing = [word for word in wanted if not _among(word, there)]
        share = 1 - len(missing) / len(wanted) if wanted else 0.0
        if share > (best.share if best else 0.0):
            best = _Near(share, sentence.text, missing)
    return best


def _is_other_name(name: str, near: _Near, names: Sequence[str]) -> bool:
    """Return whether a sentence lacks a name, or has another that shares a part of it (`Marie Curie`, `Pierre Curie`).

    A name that is only shortened there (`Thatcher`) is the same name.
    """
    parts = content_words(name)
    if not any(_among(part, near.missing) for part in parts):
        return False
    others = [content_words(other) for other in names]
    sharing = [other for other in others if any(_among(part, other) for part in parts)]
    if not sharing:
        return not _mentions(name, words_of(near.text))
    return any(not _among(word, parts) for other in sharing for word in other)


def _unmentioned(claim: str, reference: str, names: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
    """Return the rule and its values when a reference has none of a claim's names or, without any, of its words."""
    there = words_of(reference)
    if names:
        if any(_mentions(name, there) for name in names):
            return None
        return "the reference has none of the claim's names", {"names": list(names)}
    wanted = content_words(claim)
    share = sum(_among(w, there) for w in wanted) / len(wanted) if wanted else 1.0
    if share > UNRELATED:
        return None
    return "the reference has next to none of the claim's words", {"shared": round(share, 3)}


def _mentions(name: str, words: Sequence[str]) -> bool:
    return any(_among(part, words) for part in content_words(name))


def _among(word: str, words: Sequence[str]) -> bool:
    return any(same_word(word, other) for other in words)
