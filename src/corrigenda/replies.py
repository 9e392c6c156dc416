"""What a model wrote, as untrusted text: completions, JSON with prose around it, refusals, wrapped rewrites.

Everything here is pure. Chat backends use `visible_text` and `ThinkFilter` (from `reasoning`), so that no other
part ever sees reasoning; the stages use the rest. Whatever a model writes, only ParseError leaves this module.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

from corrigenda.errors import ParseError
from corrigenda.prompts import Prompts
from corrigenda.reasoning import THINK_TAGS, ThinkFilter, visible_text, well_formed
from corrigenda.types import Completion, FinishReason, TokenUsage

__all__ = [
    "THINK_TAGS",
    "ThinkFilter",
    "completion_of",
    "content_text",
    "finish_reason_of",
    "finished",
    "is_abstention",
    "is_refusal",
    "parse_json_object",
    "shorten",
    "unwrap_rewrite",
    "visible_text",
]


def shorten(text: str, limit: int = 200) -> str:
    """Return `text` for an error message: at most `limit` characters, the cut marked with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


# Servers that are compatible with OpenAI's have a few names of their own.
_FINISH: Mapping[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "refusal": "refusal",
}


def finish_reason_of(value: object) -> FinishReason:
    """Return our name for a server's finish reason; `other` for one that is missing or unknown."""
    return _FINISH.get(value, "other") if isinstance(value, str) else "other"


def content_text(content: object) -> str:
    """Return the text of a message's `content`: a string, None, or a list of parts of which some are text."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [p.get("text") for p in content if isinstance(p, Mapping) and p.get("type", "text") == "text"]
        return "".join(p for p in parts if isinstance(p, str))
    return ""


def completion_of(message: Mapping[str, Any], finish_reason: object, usage: TokenUsage) -> Completion:
    """Return a chat message in OpenAI's form as a Completion. Reasoning fields are never read."""
    text, _ = visible_text(content_text(message.get("content")))
    return finished(text, message.get("refusal"), finish_reason, usage)


def finished(text: str, refusal: object, finish_reason: object, usage: TokenUsage) -> Completion:
    """Return a Completion of visible `text`; a refusal without text is the finish reason `refusal`."""
    said = well_formed(refusal) if isinstance(refusal, str) and refusal else None
    reason = "refusal" if said is not None and not text else finish_reason_of(finish_reason)
    return Completion(text=text, finish_reason=reason, usage=usage, refusal=said)


_STRING = r'"(?:[^"\\]++|\\.)*+"'
_BRACKETS = re.compile(rf"{_STRING}|[{{}}\[\]]", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_FENCE = re.compile(r"```(?:json)?[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
# Where an object, or a list that could hold one, may begin: `{1,2}` and `{not json}` in prose are neither.
_START = re.compile(r'\{(?=\s*["}])|\[(?=\s*["{\[])')
_MAX_STARTS = 50
"""How many places are tried, so that text full of brackets costs linear time."""


def parse_json_object(text: str) -> dict[str, Any]:
    """Return the first JSON object in a model's reply.

    A byte-order mark, code fences and prose around the object are ignored; raw newlines in strings are
    accepted; commas before a closing bracket are removed, outside strings only. Raises ParseError, showing at
    most 200 characters of the reply, when there is no object, when it is cut off or malformed, when a list of
    objects stands where one object should, and for NaN, Infinity, numbers out of range or lone surrogates.
    """
    body = text.lstrip("\ufeff").strip()
    if not body:
        raise ParseError("the reply is empty; a JSON object was asked for")
    if not body.startswith("{"):
        # A fence is preferred over an example that the prose before it may quote.
        for fenced in _FENCE.finditer(body):
            try:
                return _first_object(fenced.group(1))
            except ParseError:
                continue
    return _first_object(body)


def _first_object(text: str) -> dict[str, Any]:
    """Return the first object of `text`, not looking inside one that is malformed."""
    position, problem = 0, "holds no JSON object"
    for _ in range(_MAX_STARTS):
        start = _START.search(text, position)
        if start is None:
            break
        begin = start.start()
        end = _closing(text, begin)
        if end is None and text[begin] == "[":
            if text[begin + 1 :].lstrip().startswith("{"):
                raise _error("holds a JSON list that is cut off", text)
            position = begin + 1
            continue
        if end is None:
            raise _error("holds a JSON object that is cut off or malformed", text)
        try:
            value = _decode(text[begin:end])
        except (ValueError, RecursionError) as exc:
            problem = f"holds malformed JSON ({shorten(str(exc), 100)})"
        else:
            if isinstance(value, dict):
                return value
            if any(isinstance(item, dict) for item in value):
                raise _error("holds a JSON list where one object was asked for", text)
        position = end
    raise _error(problem, text)


def _error(problem: str, text: str) -> ParseError:
    return ParseError(f"the reply {problem}: {shorten(text)!r}")


def _closing(text: str, begin: int) -> int | None:
    """Return the end of the bracketed group that starts at `begin`; brackets in strings do not count."""
    depth = 0
    for match in _BRACKETS.finditer(text, begin):
        if match.group() in "{[":
            depth += 1
        elif match.group() in "}]":
            depth -= 1
            if depth == 0:
                return match.end()
    return None


def _decode(group: str) -> dict[str, Any] | list[Any]:
    """Decode one bracketed group, as it is or without its trailing commas. Raises ValueError."""
    decoder = json.JSONDecoder(strict=False, parse_constant=_refuse_constant, parse_float=_finite)
    try:
        value: dict[str, Any] | list[Any] = decoder.decode(group)
    except json.JSONDecodeError:
        value = decoder.decode(_TRAILING_COMMA.sub(lambda m: m.group(1) or "", group))
    json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate could be neither stored nor printed
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {shorten(digits, 20)} is out of range")
    return value


@lru_cache(maxsize=64)
def _any_of(entries: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a lexicon list for matching at the start, whatever the case, spaces and kind of apostrophe."""
    forms = [re.escape(e).replace(r"\ ", r"\s+") for e in sorted(entries, key=len, reverse=True) if e]
    forms = [re.sub("['’]", "['’ʼ]", form) for form in forms]
    return re.compile(rf"(?:{'|'.join(forms) or '(?!)'})", re.IGNORECASE)


_DECORATION = "\"“«'‘*_#> \t\r\n"
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"”»'’)]*\s+|\n+")


def is_refusal(text: str, prompts: Prompts) -> bool:
    """Return whether a reply is a refusal: it opens like one and does not go on to answer after all.

    What opens with a refusal and goes on with a contrast (`…, but Rome has seven hills`) may hold facts, so
    it is not one: it is better checked than waved through.
    """
    opening = _any_of(prompts.words("lexicon", "refusals")).match(text.strip(_DECORATION))
    return opening is not None and not _has_contrast(text.strip(_DECORATION)[opening.end() :], prompts)


def is_abstention(text: str, prompts: Prompts) -> bool:
    """Return whether all that a reply says is that it does not know.

    Every sentence must open like an abstention or a refusal, or ask something back, and none may go on with a
    contrast; anything more may hold facts that need checking.
    """
    opening = _any_of(prompts.words("lexicon", "abstentions") + prompts.words("lexicon", "refusals"))
    sentences = [s.strip(_DECORATION) for s in _SENTENCE_END.split(text)]
    sentences = [s if s.endswith("?") else s.rstrip(".!…") + "." for s in sentences if s]
    if not sentences or not _any_of(prompts.words("lexicon", "abstentions")).match(sentences[0]):
        return False
    for sentence in sentences:
        start = opening.match(sentence)
        if start is None and not sentence.endswith("?"):
            return False
        if start is not None and _has_contrast(sentence[start.end() :], prompts):
            return False
    return True


def _has_contrast(text: str, prompts: Prompts) -> bool:
    words = "|".join(re.escape(w) for w in prompts.words("lexicon", "contrasts"))
    return bool(words) and re.search(rf"\b(?:{words})\b", text, re.IGNORECASE) is not None


_PAIRS = (("**", "**"), ('"', '"'), ("“", "”"), ("«", "»"), ("„", "“"), ("‘", "’"), ("'", "'"), ("`", "`"))
_WHOLE_FENCE = re.compile(r"```[a-z]*[ \t]*\r?\n((?:(?!```).)*)```", re.DOTALL)
_WHOLE_TAG = re.compile(r"<(sentence|corrected|correction|output)>((?:(?!</?\1>).)*)</\1>", re.DOTALL | re.IGNORECASE)


def unwrap_rewrite(text: str | None, prompts: Prompts, *, source: str = "") -> str | None:
    """Return the rewritten sentence of a correction reply, or None when there is none to insert.

    Removed are reasoning, a line such as `Here is the corrected sentence:`, a note after the sentence, and
    quotes, a code fence or the prompt's own tags where one pair encloses everything (and does not enclose
    `source`, the sentence that was to be corrected). Nothing else is touched: a sentence that starts with
    `Here are the …` or merely begins and ends with a quote stays as it is. None is returned for nothing, a
    refusal, an abstention, and several paragraphs (an explanation must not get into the answer).
    """
    body = visible_text(text)[0].strip()
    body = _without_enclosure(body, source)
    body = _without_enclosure(_without_opening(body, prompts), source)
    body = _without_notes(body, prompts)
    body = _without_enclosure(body, source)
    if not body or re.search(r"\n\s*\n", body):
        return None
    refused = _any_of(prompts.words("lexicon", "refusals")).match(body)
    return None if refused or is_abstention(body, prompts) else body


def _without_opening(body: str, prompts: Prompts) -> str:
    """Remove `Sure! Here is the corrected sentence:`; only a colon or a new line after it makes it an opening."""
    lead_in = _any_of(prompts.words("lexicon", "lead_ins")).pattern
    opening = _any_of(prompts.words("lexicon", "rewrite_prefixes")).pattern
    line = rf"(?:{lead_in}[,!.:]?\s*)?{opening}[*_]*\s*(?:[:：][*_]*|\n)\s*"
    wrapper = rf"[*_#\s]*(?:{line}|{lead_in}!\s+)"
    match = re.match(wrapper, body, re.IGNORECASE)
    return body[match.end() :].strip() if match else body


def _without_notes(body: str, prompts: Prompts) -> str:
    """Cut before the first later line that opens like a remark about the rewrite."""
    note = _any_of(prompts.words("lexicon", "rewrite_notes"))
    lines = body.splitlines(keepends=True)
    kept = next((i for i, line in enumerate(lines) if i and note.match(line.lstrip("(*_ \t"))), len(lines))
    return "".join(lines[:kept]).strip()


def _without_enclosure(body: str, source: str) -> str:
    """Remove a fence, a tag or one pair of quotes that encloses all of `body`."""
    fence = _WHOLE_FENCE.fullmatch(body)
    if fence:
        return fence.group(1).strip()
    tag = _WHOLE_TAG.fullmatch(body)
    if tag:
        return tag.group(2).strip()
    source = source.strip()
    for left, right in _PAIRS:
        inner = body[len(left) : -len(right)]
        encloses = body.startswith(left) and body.endswith(right) and len(body) >= len(left) + len(right)
        if encloses and left not in inner and right not in inner:
            return body if source.startswith(left) and source.endswith(right) else inner.strip()
    return body
