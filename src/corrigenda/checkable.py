"""What a sentence states that can be checked: not a question, an opinion, a refusal, filler or a bare heading.

An opening such as `I believe` or `I don't know why,` makes a sentence not checkable only where nothing is stated
behind it. Where something is, that is what gets checked: where the rules are unsure, a sentence is checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from corrigenda.grammar import asks, has_finite_verb, has_number, has_predicate, has_verb, is_statement
from corrigenda.prompts import Prompts
from corrigenda.replies import is_abstention, is_refusal
from corrigenda.text import content_words, hypothesis_text, is_row, word_list, words_of
from corrigenda.types import Sentence, SentenceKind

REFUSAL = "refusal"
ABSTENTION = "says that it does not know"
"""The reasons of a sentence that only says that no answer is given; the report's status rests on them."""

_QUESTION = re.compile(r"""[?？؟]+(["”’»')\]*_~`」』）]*)$""")
_TAG = (
    r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|must)(?:n['’]t)?\s"
    r"(?:it|he|she|they|we|you|i|there|that|this)(?:\snot)?"
)
_COPULA = (
    r"(?:\b(?:is|are|was|were|be|seems?|looks?|feels?|sounds?|remains?|è|é|era|erano|sono|fu|sia|siano|sembra|sembrano|"
    r"pare|resta|rimane|fosse)\b|\b\w+['’](?:s|re|m)\b)"
)
_DEGREE = (
    r"(?:\s(?:not|very|so|really|quite|truly|simply|just|too|rather|pretty|also|still|such|one|of|the|a|an|most|more|"
    r"my|our|non|molto|davvero|proprio|tanto|troppo|anche|così|più|un|una|uno|il|lo|la|i|gli|le|tra|fra|dei|delle)\b){0,5}"
)
_ADVICE = re.compile(
    r"\b(?:you|we|one|everyone|people|i)\s(?:should|must|ought|could|can|would|will|might|have to)\b"
    r"|\b(?:dovresti|dovreste|dovremmo|bisogna|conviene|puoi|potete)\b",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\W*(?:i|we|io|noi)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=\w\s)(?!(?:I|AI|IA|LLM)\b)[^\W\d_a-zà-ÿ]\w")
_JOINS = "and|but|because|since|as|so|given that|e|ed|ma|perché|poiché|siccome|dato che|quindi|visto che"
_JOINT = re.compile(
    rf"(?P<mark>[,;:](?=\s)|：|\s\(|\s[-–—](?=\s)|—)\s*(?:(?:{_JOINS})\s+)?|\s(?P<word>{_JOINS})\s", re.IGNORECASE
)
_GOVERNS = re.compile(
    r"\b(?:if|whether|how|why|what|when|where|who|which|that|se|come|perché|cosa|quando|dove|chi|quale|quali|quant\w)\s\w",
    re.IGNORECASE,
)
_I_PERSONALLY = re.compile(r"^(\W*(?:i|we)) personally\b", re.IGNORECASE)
_BEHIND = re.compile(r"[\s,:;]*(?:(?:that|che)\s)?", re.IGNORECASE)
_LINKING = word_list(
    "is are was were be has have include includes included contain contains say says mean means "
    "è é era erano sono ha hanno comprende comprendono include includono contiene contengono"
)


def why_not_checkable(sentence: Sentence, prompts: Prompts, language: str) -> str | None:
    """Return why a sentence states nothing that can be checked, or None when it does."""
    return statement_of(sentence, prompts, language)[1]


def statement_of(sentence: Sentence, prompts: Prompts, language: str) -> tuple[str, str | None]:
    """Return what a sentence states, as the verifier reads it, and why that can't be checked (None when it can).

    An opinion's opening, an "I don't know", a tag question and the like are left out where a statement stands
    beside them; in any other case the text is that of the whole sentence.
    """
    text = hypothesis_text(sentence.text)
    if _QUESTION.search(text):
        stated = _stated_in_question(text, prompts, language)
        if stated is None:
            return text, "question"
        text = stated
    if sentence.kind is SentenceKind.HEADING and (is_row(sentence) or not is_statement(text, language)):
        return text, "table head" if is_row(sentence) else "heading"
    own, reason = _beside_opening(text, prompts, language)
    if reason is None and own is None:
        reason = _announcement(sentence, text, prompts, language)
    return (own, None) if own is not None else (text, reason)


def _beside_opening(text: str, prompts: Prompts, language: str) -> tuple[str | None, str | None]:
    """Return what stands behind an opening that states nothing, and the reason where that is nothing to check."""
    bare = re.sub(r"^\W+", "", text).replace("’", "'").casefold()
    fillers = (bare.startswith(opening) for opening in prompts.words("decompose", "filler_openings"))
    reason = None
    if is_refusal(text, prompts):
        reason = REFUSAL
    elif is_abstention(text, prompts):
        reason = ABSTENTION
    elif _opening(text, prompts.words("decompose", "preference")) is not None:
        reason = "opinion"
    elif re.sub(r"\W+$", "", bare) in prompts.words("decompose", "filler") or any(fillers):
        reason = "filler"
    if reason is not None:
        return _own_clause(text, prompts, language), reason
    rest = _without_opinion(text, prompts)
    if rest is None:
        return None, None
    if _states_fact(rest, prompts, language):
        return _as_sentence(rest), None
    return _own_clause(rest, prompts, language), "opinion"


def _without_opinion(text: str, prompts: Prompts) -> str | None:
    """Return a text without the words that make it an opinion; None where it has none."""
    rest = _I_PERSONALLY.sub(r"\1", text[:40]) + text[40:]
    openings = prompts.words("decompose", "opinion")
    start = 0
    while (end := _opening(rest, openings, start)) is not None:
        start = _BEHIND.match(rest, end).end()  # type: ignore[union-attr]
    rest = rest[start:]
    for phrase in prompts.words("decompose", "opinion_anywhere"):
        rest = re.sub(rf",?\s*\b{re.escape(phrase)}\b\s*,?\s*", " ", rest, flags=re.IGNORECASE)
    return None if rest == text else re.sub(r"\s+(?=[.!?…]*$)", "", rest.strip())


def _own_clause(text: str, prompts: Prompts, language: str) -> str | None:
    """Return what follows from the first clause on (but the opening one) that states something of its own."""
    joints = list(_JOINT.finditer(text))
    governs = _GOVERNS.search(text)
    ends = [*(joint.start() for joint in joints), len(text)][1:]
    for joint, after in zip(joints, ends, strict=True):
        # `I don't know if Rome has hills and a river`: a bare `and` goes on with what is not known
        bare = (joint["word"] or "").casefold() in ("and", "e", "ed")
        goes_on = bare and governs is not None and governs.end() <= joint.start()
        clause = text[joint.end() : after]
        if goes_on or (asks(clause, language) and not has_number(clause)):
            continue
        aside = not set(words_of(clause)).isdisjoint(prompts.words("decompose", "about_itself"))
        states = has_predicate(clause, language) and _states_fact(clause, prompts, language)
        if states and (_names_or_counts(clause) or not aside):
            return _as_sentence(text[joint.end() :])
    return None


def _states_fact(clause: str, prompts: Prompts, language: str) -> bool:
    """Return whether a clause says more than how something is valued, what to do, or what the speaker likes."""
    if has_number(clause):
        return True
    if _FIRST_PERSON.match(clause) and not _names_or_counts(clause):
        return False
    if not has_finite_verb(clause, language):
        return has_predicate(clause, language)
    neutral = _ADVICE.sub(" ", _valuing(prompts.words("decompose", "evaluations")).sub(" ", clause))
    return has_finite_verb(neutral, language) and bool(content_words(neutral))


def _names_or_counts(clause: str) -> bool:
    return has_number(clause) or _NAME.search(clause) is not None


def _stated_in_question(text: str, prompts: Prompts, language: str) -> str | None:
    """Return what a question states: before a tag (`…, right?`), behind `Did you know that`, in a clause before it."""
    body = _QUESTION.sub("", text).rstrip()
    tags = "|".join(re.escape(tag) for tag in prompts.words("decompose", "tags"))
    tag = re.search(rf"\s*[,;–—-]\s*(?:{_TAG}|{tags})$", body.replace("’", "'"), re.IGNORECASE)
    told = _opening(body, prompts.words("decompose", "telling"))
    stated = None
    if tag is not None:
        stated = body[: tag.start()]
    elif told is not None:
        stated = body[told:].lstrip(" ,:")
    elif (joint := re.search(r"[,;:—](?=\s)", body)) is not None:
        before = body[: joint.start()]
        told_much = has_number(before) or len(content_words(before)) > 2
        stated = before if told_much and _states_fact(before, prompts, language) else None
    if stated is None or asks(stated, language) or not has_predicate(stated, language):
        return None
    return _as_sentence(stated)


def _announcement(sentence: Sentence, text: str, prompts: Prompts, language: str) -> str | None:
    """Return `filler` or `heading` for a sentence that only announces or entitles what follows."""
    if text.endswith((":", "：")) and _announces(text, prompts, language):
        return "filler"
    titled = re.fullmatch(r"(\*\*|__)[^*_]+\1:?", sentence.text)
    return "heading" if titled and sentence.kind is SentenceKind.PROSE and not is_statement(text, language) else None


def _announces(text: str, prompts: Prompts, language: str) -> bool:
    """Return whether a text that ends in a colon states nothing: `Here are 3 facts:`, `The hills of Rome are:`."""
    counts = has_number(text) and has_verb(text, language)
    if counts and set(words_of(text)).isdisjoint(prompts.words("decompose", "announced")):
        return False
    end = _opening(text, prompts.words("decompose", "announcements"))
    if end is not None:
        rest = text[end:]
        follows = re.match(r"\s*[,;]\s*", rest)
        return not (follows and not _announces(rest[follows.end() :], prompts, language))
    return not has_predicate(text, language) or words_of(text)[-1] in _LINKING


def _opening(text: str, openings: Sequence[str], start: int = 0) -> int | None:
    """Return where a text goes on behind the longest of `openings` that stands at `start`, or None."""
    found = _openings(tuple(openings)).match(text, start)
    return None if found is None else found.end()


@lru_cache(maxsize=64)
def _openings(openings: tuple[str, ...]) -> re.Pattern[str]:
    forms = (re.escape(o).replace("'", "['’]") for o in sorted(openings, key=len, reverse=True))
    return re.compile(rf"\W*(?:{'|'.join(forms)})\b", re.IGNORECASE)


@lru_cache(maxsize=8)
def _valuing(evaluations: tuple[str, ...]) -> re.Pattern[str]:
    words = "|".join(re.escape(w) for w in evaluations)
    return re.compile(rf"{_COPULA}{_DEGREE}\s(?:{words})\b", re.IGNORECASE)


def _as_sentence(text: str) -> str:
    """Return a part of a sentence as one of its own."""
    text = text.strip()
    if text.count(")") > text.count("("):
        text = "".join(text.rsplit(")", 1))
    return text[0].upper() + text[1:].rstrip(" ,;:") + ("" if text.endswith((".", "!", "…", "。")) else ".")
