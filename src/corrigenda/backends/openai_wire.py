"""OpenAI's chat API as JSON: requests out of ours, completions out of theirs. Pure; no network, no library.

Servers that call themselves compatible differ in what they accept and leave out, so nothing is taken for
granted here: every field may be missing, null or of another type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corrigenda.backends.openai_errors import Server
from corrigenda.errors import BadReply
from corrigenda.reasoning import ThinkFilter
from corrigenda.replies import completion_of, content_text, finished
from corrigenda.types import ChatRequest, Completion, TokenUsage

TOP_LOGPROBS = (20, 5, None)
"""How many alternatives are asked for, most first: OpenAI gives 20, other servers cap it lower or give none."""
EVENTS_PER_TOKEN, SPARE_EVENTS = 4, 1000
CHARACTERS_PER_TOKEN, SPARE_CHARACTERS = 16, 4000
"""How much of a stream is read: far more than the tokens that were asked for can be."""
DEFAULT_CAP = 100_000
"""Tokens, where the request has no cap."""

_MENTIONS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "response_format": r"response_?\s?format|json_?\s?schema|structured.outputs?|guided|grammar",
        "stream_options": r"stream_options|include_usage",
        "top_logprobs": r"top_logprobs",
        "seed": r"\bseed\b",
        "max_tokens": r"\bmax_tokens\b",
        "temperature": r"\btemperature\b",
        "top_p": r"\btop_p\b",
    }.items()
}
"""Settings that a server may refuse, and how its complaint names them."""


def body_of(request: ChatRequest, model: str, *, stream: bool) -> dict[str, Any]:
    """Return the JSON body of a chat completion call. Settings that are None are left out."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
    }
    body = {key: value for key, value in body.items() if value is not None}
    if request.json_schema is not None:
        schema = _plain(request.json_schema)
        form: dict[str, Any] = {"name": "reply", "schema": schema}
        if _is_strict(schema):
            form["strict"] = True
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    if request.extra is not None:
        if "max_completion_tokens" in request.extra:
            body.pop("max_tokens", None)  # the same cap by its newer name; servers refuse both together
        body |= _plain(request.extra)
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return body


def arguments(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with which the official library sends exactly `body`.

    A field is never an argument itself: it may come from a stranger, and some of the library's (`extra_headers`,
    `extra_query`, `timeout`, …) reach further than the body.
    """
    return {"model": "", "messages": [], "extra_body": dict(body)}


def _plain(value: Any) -> Any:
    """Return a deep copy made of dicts and lists, so that nothing of the caller's can be changed."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _is_strict(schema: Any) -> bool:
    """Return whether OpenAI's strict mode takes the schema: closed objects, every property required."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
    return all(map(_is_strict, schema.values()))


def complained_of(error: Any, body: Mapping[str, Any]) -> set[str]:
    """Return which settings of `body` a server's 4xx answer complains of.

    `error` is the decoded answer or its text. Where the answer names the parameter in a field of its own, that
    alone counts; otherwise its messages are searched, but never a part that echoes the request.
    """
    named, texts = _complaint(error)
    for places in (named, texts):
        found = {k for k, pattern in _MENTIONS.items() if k in body and any(map(pattern.search, places))}
        if found:
            return found
    return set()


def _complaint(error: Any) -> tuple[list[str], list[str]]:
    """Return the parameters that an error answer names, and its messages."""
    if isinstance(error, str):
        return [], [error]
    named: list[str] = []
    texts: list[str] = []
    if isinstance(error, list):
        for item in error:
            more = _complaint(item)
            named, texts = named + more[0], texts + more[1]
    elif isinstance(error, Mapping):
        location = error.get("loc")
        named += [str(part) for part in location] if isinstance(location, list) else []
        named += [error["param"]] if isinstance(error.get("param"), str) else []
        for key in ("message", "msg", "error", "detail", "errors"):
            more = _complaint(error.get(key))
            named, texts = named + more[0], texts + more[1]
    return named, texts


def usage_of(value: Any) -> TokenUsage:
    """Return the token counts of a `usage` object; what is missing or not a count is None, never 0."""
    if not isinstance(value, Mapping):
        return TokenUsage()
    return TokenUsage(
        prompt_tokens=_count(value.get("prompt_tokens")), completion_tokens=_count(value.get("completion_tokens"))
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def first_choice(answer: Mapping[str, Any], server: Server) -> Mapping[str, Any]:
    """Return the first choice of an answer. Raises BadReply when there is none."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        keys = server.excerpt(", ".join(sorted(answer))) or "none"
        raise BadReply(f"{server.place} answered without 'choices'; is it a chat completion server? its keys: {keys}")
    return choices[0]


def completion_from(answer: Mapping[str, Any], server: Server) -> Completion:
    """Return a whole (not streamed) answer as a Completion. Raises BadReply when it holds no choice."""
    choice = first_choice(answer, server)
    message = choice.get("message")
    return completion_of(
        message if isinstance(message, Mapping) else {}, choice.get("finish_reason"), usage_of(answer.get("usage"))
    )


def label_logprobs_from(answer: Mapping[str, Any], labels: Sequence[str], server: Server) -> tuple[float, ...]:
    """Return the log-probability of each label as the answer's first token; `-inf` where it isn't reported.

    A label counts with and without one space before it, since tokenizers have both; the two are summed.
    Raises BadReply when the answer has no log-probabilities.
    """
    logprobs = first_choice(answer, server).get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(content, list) or not content or not isinstance(content[0], Mapping):
        raise BadReply(
            f"{server.place} gives no log-probabilities, which the verifier `chat` reads; "
            "choose another verifier (--nli) or another chat model for it"
        )
    alternatives = content[0].get("top_logprobs")
    known: dict[str, float] = {}
    for item in [content[0], *(alternatives if isinstance(alternatives, list) else [])]:
        if isinstance(item, Mapping) and isinstance(item.get("token"), str) and _is_logprob(item.get("logprob")):
            known[item["token"]] = min(0.0, float(item["logprob"]))
    return tuple(_sum_logs([known[form] for form in (label, f" {label}") if form in known]) for label in labels)


def _is_logprob(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _sum_logs(values: Sequence[float]) -> float:
    """Return the logarithm of the sum of probabilities given by their logarithms."""
    top = max(values, default=-math.inf)
    if top == -math.inf:
        return top
    return min(0.0, top + math.log(sum(math.exp(v - top) for v in values)))


@dataclass(kw_only=True, slots=True)
class StreamedReply:
    """A reply as its chunks arrive.

    Of a reply that goes far beyond the `cap` in tokens that was asked for, only the beginning is read.
    """

    cap: int | None = None
    held: bool = False
    """Whether the reply may begin inside a block of reasoning, so that nothing may be shown too early."""
    finish_reason: object = None
    done: bool = False
    """Whether the server said `[DONE]`."""
    _usage: TokenUsage = field(default_factory=TokenUsage)
    _refusal: str = ""
    think: ThinkFilter = field(init=False)
    _shown: list[str] = field(default_factory=list)
    _events: int = 0
    _characters: int = 0

    def __post_init__(self) -> None:
        """Start with an empty text."""
        self.think = ThinkFilter(held=self.held)

    @property
    def ended(self) -> bool:
        """Whether the reply is known to be whole."""
        return self.done or self.finish_reason is not None

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Take a chunk; return the visible text that it brings, possibly none."""
        if isinstance(chunk.get("usage"), Mapping):
            self._usage = usage_of(chunk["usage"])
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, Mapping) or choice.get("index") not in (0, None):
            return ""
        if choice.get("finish_reason") is not None:
            self.finish_reason = choice["finish_reason"]
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return ""
        reasoning = _reasoning(delta)
        if reasoning:
            self.think.release()  # this server takes reasoning out itself
        content = self._within_cap(content_text(delta.get("content")), reasoning)
        if isinstance(delta.get("refusal"), str):
            self._refusal += self._within_cap(delta["refusal"])
        return self._show(self.think.feed(content))

    def _within_cap(self, text: str, reasoning: int = 0) -> str:
        """Return as much of a piece of text as may still come, counting hidden characters too.

        A stream that has no more to give is done, as one is that has reached its cap by itself.
        """
        cap = DEFAULT_CAP if self.cap is None else self.cap
        most = CHARACTERS_PER_TOKEN * cap + SPARE_CHARACTERS
        left = max(0, most - self._characters)
        self._events += 1
        self._characters += len(text) + reasoning
        if self._characters > most or self._events > EVENTS_PER_TOKEN * cap + SPARE_EVENTS:
            self.finish_reason, self.done = "length", True
        return text[:left]

    def finish(self) -> tuple[str, Completion]:
        """Return the text that was held back, and the whole completion."""
        rest = self._show(self.think.finish())
        return rest, finished("".join(self._shown), self._refusal, self.finish_reason, self._usage)

    def _show(self, text: str) -> str:
        self._shown.append(text)
        return text


def _reasoning(delta: Mapping[str, Any]) -> int:
    """Return how many characters of reasoning a delta holds in fields of its own."""
    fields = (delta.get("reasoning_content"), delta.get("reasoning"))
    return sum(len(text) for text in fields if isinstance(text, str))
