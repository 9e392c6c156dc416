"""What `cove` reads out of a model's replies: a plan of verification questions, the label of a comparison. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corrigenda.errors import ParseError
from corrigenda.replies import parse_json_object, shorten
from corrigenda.types import Sentence
from corrigenda.windows import is_blank

PLAN_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "questions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sentence": {"type": "integer"}, "question": {"type": "string"}},
                "required": ["sentence", "question"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["questions"],
    "additionalProperties": False,
}
CONSISTENT, INCONSISTENT, PARTIALLY = "CONSISTENT", "INCONSISTENT", "PARTIALLY"
QUESTION_LIMIT = 300
"""Code points; what is longer is no question but the answer retold."""
_LINE = re.compile(r"\s*(?:\d+\s*[.):]|[-*•])\s+(.*\?)\s*")
_LABEL = re.compile(
    r"[\s*_#>\"'“”‘’`(\[]*(inconsistent|consistent|partially)(?:(?<=partially)[\s_-]+(?:in)?consistent)?\b"
    r"[*_\"'“”‘’`)\]]*(?=\s*(?:[.:,;!–—-]|\n|\Z))",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A verification question, and the sentence of the answer that it checks."""

    text: str
    sentence: Sentence | None
    """None where the plan does not say which: then it is compared with the whole answer."""


def plan_of(reply: str, sentences: Sequence[Sentence], limit: int) -> tuple[Question, ...]:
    """Return the questions of a plan, at most `limit`, in order and each once.

    Takes a JSON object with `questions`, a list of `{"sentence": n, "question": t}` or of texts, or lines that are
    numbered or bulleted and end in a question mark. Left out is what is blank, longer than `QUESTION_LIMIT`, or
    holds the sentence that it is about word for word. Raises ParseError when nothing is left.
    """
    numbers = {number: sentence for number, sentence in enumerate(sentences, 1)}
    found: dict[str, Question] = {}
    for number, text in _planned(reply):
        question, sentence = " ".join(text.split()), numbers.get(number) if number is not None else None
        if len(sentences) == 1:
            sentence = sentences[0]
        stated = "" if sentence is None else sentence.text.strip(" .!").casefold()
        if is_blank(question) or len(question) > QUESTION_LIMIT or (stated and stated in question.casefold()):
            continue
        found.setdefault(question.casefold(), Question(text=question, sentence=sentence))
    if not found:
        raise ParseError(f"the plan holds no usable question: {shorten(reply)!r}")
    return tuple(found.values())[:limit]


def _planned(reply: str) -> list[tuple[int | None, str]]:
    """Return (sentence's number or None, question) as the reply gives them. Raises ParseError."""
    try:
        items = parse_json_object(reply).get("questions")
    except ParseError:
        lines = [match[1] for match in map(_LINE.fullmatch, reply.splitlines()) if match]
        if not lines:
            raise
        return [(None, line) for line in lines]
    found: list[tuple[int | None, str]] = []
    for item in items if isinstance(items, list) else []:
        number = item.get("sentence") if isinstance(item, Mapping) else None
        text = item.get("question") if isinstance(item, Mapping) else item
        if isinstance(text, str):
            found.append((number if isinstance(number, int) and not isinstance(number, bool) else None, text))
    return found


def label_of(reply: str) -> str:
    """Return the label that a reply opens with. Raises ParseError for anything else."""
    match = _LABEL.match(reply)
    if match is None:
        raise ParseError(f"the reply does not begin with CONSISTENT, INCONSISTENT or PARTIALLY: {shorten(reply)!r}")
    return match[1].upper()
