"""Whether a sentence states something that can be checked: not a question, an opinion, filler or a bare heading."""

from __future__ import annotations

import re
from collections.abc import Sequence

from corrigenda.grammar import has_verb, is_statement
from corrigenda.prompts import Prompts
from corrigenda.replies import is_abstention, is_refusal
from corrigenda.text import hypothesis_text, is_row
from corrigenda.types import Sentence, SentenceKind


def why_not_checkable(sentence: Sentence, prompts: Prompts, language: str) -> str | None:
    """Return why a sentence states nothing that can be checked, or None when it does."""
    text = hypothesis_text(sentence.text)
    bare = re.sub(r"^\W+", "", text).replace("’", "'").casefold()
    if re.search(r"""[?？؟]["”’»')\]*_~」』）]*$""", text):
        return "question"
    if sentence.kind is SentenceKind.HEADING and (is_row(sentence) or not is_statement(text, language)):
        return "table head" if is_row(sentence) else "heading"
    if is_refusal(text, prompts):
        return "refusal"
    if is_abstention(text, prompts):
        return "says that it does not know"
    if _opens_with(bare, prompts.words("decompose", "opinion")):
        return "opinion"
    if any(re.search(rf"\b{re.escape(phrase)}\b", bare) for phrase in prompts.words("decompose", "opinion_anywhere")):
        return "opinion"
    if re.sub(r"\W+$", "", bare) in prompts.words("decompose", "filler") or any(
        bare.startswith(opening) for opening in prompts.words("decompose", "filler_openings")
    ):
        return "filler"
    return _announcement(sentence, text, bare, prompts, language)


def _announcement(sentence: Sentence, text: str, bare: str, prompts: Prompts, language: str) -> str | None:
    """Return `filler` or `heading` for a sentence that only announces or entitles what follows."""
    if text.endswith((":", "：")):
        announces = _opens_with(bare, prompts.words("decompose", "announcements")) and not re.search(r"\d", bare)
        last = bare.rstrip(": ").split(" ")[-1]
        if announces or not has_verb(text, language) or has_verb(last, language):
            return "filler"
    titled = re.fullmatch(r"(\*\*|__)[^*_]+\1:?", sentence.text)
    return "heading" if titled and sentence.kind is SentenceKind.PROSE and not is_statement(text, language) else None


def _opens_with(bare: str, openings: Sequence[str]) -> bool:
    return any(re.match(rf"{re.escape(opening)}\b", bare) for opening in openings)
