"""`scripted:FILE`: a chat model that replies from a file of rules, for tests, demonstrations and benchmarks.

The rules are tried in order and the first that fits serves. See docs/scripted.md for every key. Its speed
(`first_token_s`, `tokens_per_s`) is simulated: nothing is computed, and a report on it must say so.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from corrigenda.backends.scripts import (
    SECONDS,
    TEXT,
    TIMES,
    Check,
    RequestLog,
    Rule,
    Source,
    check_any_of,
    error_for_status,
    is_count,
    is_number,
    read_script,
    remember,
)
from corrigenda.errors import BackendError, BadReply, ReasoningLeaked
from corrigenda.replies import ThinkFilter, content_text, finished, shorten
from corrigenda.types import ChatRequest, Completion, Delta, TokenUsage

# A word (long ones in parts) or a punctuation mark, each with the white space before it: near to what the
# tokenizers of today's models make of English, and every character is in exactly one piece.
_PIECE = re.compile(r"\s*(?:\w{1,12}|[^\w\s])|\s+")


def pieces(text: str) -> list[str]:
    """Cut `text` into the pieces that stand for tokens; they concatenate to `text`."""
    return _PIECE.findall(text)


def _is_reply(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Mapping) and "content" in value)


def _is_usage(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        k in ("prompt_tokens", "completion_tokens", "total_tokens") and (v is None or is_count(v))
        for k, v in value.items()
    )


def _is_logprobs(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(is_number(v) and v <= 0 for v in value.values())


def _is_error(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and value.keys() <= {"status", "body", "after_tokens"}
        and (value.get("status") is None or (is_count(value["status"]) and 100 <= value["status"] <= 599))
        and isinstance(value.get("body", ""), str)
        and is_count(value.get("after_tokens", 0))
    )


RULE_KEYS: Mapping[str, Check] = {
    "stage": TEXT,
    "contains": TEXT,
    "reply": (_is_reply, "a text, or a message object with 'content'"),
    "finish_reason": TEXT,
    "logprobs": (_is_logprobs, "an object of labels and their log-probabilities (each at most 0)"),
    "usage": (_is_usage, "an object with 'prompt_tokens' and 'completion_tokens' (whole numbers or null)"),
    "first_token_s": SECONDS,
    "tokens_per_s": (lambda v: is_number(v) and v > 0, "a number above 0"),
    "error": (_is_error, "an object with 'status' (100 to 599 or null), 'body' (text), 'after_tokens'"),
    "times": TIMES,
}
DEFAULT_KEYS = frozenset({"finish_reason", "usage", "first_token_s", "tokens_per_s"})


class ScriptedChat:
    """A ChatModel and LabelScorer that replies from rules.

    `requests` holds the latest requests (at least a thousand) in the order in which they came, for tests.
    """

    def __init__(self, rules: Source, log_path: str | Path | None = None) -> None:
        """Read the rules from a JSON file, or from the same content as a dict.

        `log_path` names a file to which every request is appended, a JSON object a line. Raises ConfigError.
        """
        self._script = read_script(
            rules, rule_keys=RULE_KEYS, default_keys=DEFAULT_KEYS, top_keys={"description": TEXT}
        )
        check_any_of(self._script, "reply", "error", "logprobs")
        self._log = RequestLog(log_path)
        self.requests: list[ChatRequest] = []

    @property
    def name(self) -> str:
        """`scripted:FILE`, or `scripted` where the rules came as a dict."""
        return self._script.name

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the reply of the first rule that fits, after the simulated time for all its tokens."""
        completion: Completion | None = None
        async for delta in self._play(self._choose(request, "complete")):
            completion = delta.completion
        assert completion is not None, "a reply always ends with its completion"
        return completion

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        """Yield the reply piece by piece at the simulated speed; see `pieces`."""
        async with aclosing(self._play(self._choose(request, "stream"))) as deltas:
            async for delta in deltas:
                yield delta

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        """Return the rule's `logprobs` for `labels`; a label that it does not name gets `-inf`."""
        rule = self._choose(request, "label_logprobs", labels)
        await asyncio.sleep(rule.settings.get("first_token_s", 0))
        if "error" in rule.settings:
            raise self._error(rule)
        if "logprobs" not in rule.settings:
            raise BadReply(f"{self.name}: rules[{rule.index}] has no 'logprobs', which this request needs; add them")
        known = rule.settings["logprobs"]
        return tuple(float(known.get(label, -math.inf)) for label in labels)

    def count_tokens(self, text: str) -> int:
        """Return the number of pieces in `text`."""
        return len(pieces(text))

    async def aclose(self) -> None:
        """Do nothing; there is nothing to free."""

    def _choose(self, request: ChatRequest, call: str, labels: Sequence[str] | None = None) -> Rule:
        """Record the request and return the first rule that fits. Raises BadReply when none does."""
        remember(self.requests, request)
        text = "\n".join(message.content for message in request.messages)
        rule = next((r for r in self._script.serving() if _fits(r.settings, request.stage, text)), None)
        self._log.write(
            call=call,
            stage=request.stage,
            messages=[{"role": m.role, "content": m.content} for m in request.messages],
            settings={
                "temperature": request.temperature,
                "top_p": request.top_p,
                "max_tokens": request.max_tokens,
                "seed": request.seed,
                "json_schema": None if request.json_schema is None else dict(request.json_schema),
            },
            **({} if labels is None else {"labels": list(labels)}),
            rule=None if rule is None else rule.index,
        )
        if rule is None:
            used_up = sum(r.left <= 0 for r in self._script.rules)
            raise BadReply(
                f"{self.name}: none of the {len(self._script.rules)} rules fits this request of stage "
                f"{request.stage!r} ({used_up} used up by 'times'); add a rule for it: {shorten(text, 600)!r}"
            )
        rule.spend()
        return rule

    async def _play(self, rule: Rule) -> AsyncGenerator[Delta, None]:
        """Yield a rule's reply, each piece at its own point in time, so that delays do not add up."""
        clock = _Clock(rule.settings)
        if "error" not in rule.settings and "reply" not in rule.settings:
            raise BadReply(f"{self.name}: rules[{rule.index}] has no 'reply', which this request needs; add one")
        reply = rule.settings.get("reply", "")
        message: Mapping[str, Any] = {"content": reply} if isinstance(reply, str) else reply
        words = pieces(content_text(message["content"]))
        error = rule.settings.get("error")
        if error is not None:
            words = words[: error.get("after_tokens", 0)]
        think = ThinkFilter()
        shown: list[str] = []
        for index, piece in enumerate(words):
            await clock.until(index)
            visible = think.feed(piece)
            if visible:
                shown.append(visible)
                yield Delta(text=visible)
        if error is not None:
            await clock.until(len(words))
            raise self._error(rule)
        if not words:
            await clock.until(0)
        rest = think.finish()
        if think.leaked:
            raise ReasoningLeaked(self.name)
        usage = rule.settings.get("usage", {})
        completion = finished(
            "".join(shown) + rest,
            message.get("refusal"),
            rule.settings.get("finish_reason", "stop"),
            TokenUsage(
                prompt_tokens=usage.get("prompt_tokens"),
                completion_tokens=usage.get("completion_tokens"),
            ),
        )
        yield Delta(text=rest, completion=completion)

    def _error(self, rule: Rule) -> BackendError:
        error = rule.settings["error"]
        status = error.get("status")
        body = error.get("body") or "the script asks for this error"
        return error_for_status(
            status, f"{self.name}: rules[{rule.index}]: status {status if status is not None else 'none'}: {body}"
        )


def _fits(settings: Mapping[str, Any], stage: str, text: str) -> bool:
    return settings.get("stage", stage) == stage and settings.get("contains", "") in text


class _Clock:
    """Points in time of simulated tokens, counted from the start of the call."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._start = asyncio.get_running_loop().time()
        self._first: float = settings.get("first_token_s", 0)
        self._per_token: float = 1 / settings["tokens_per_s"] if "tokens_per_s" in settings else 0

    async def until(self, index: int) -> None:
        """Wait for the token of this index (from 0); let others run even when it is due already."""
        due = self._start + self._first + index * self._per_token
        await asyncio.sleep(max(0, due - asyncio.get_running_loop().time()))
