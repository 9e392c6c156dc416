"""From a chat request to what is done for it: passed through or verified, with which question and which settings.

The question is the last user message. What it refers to may stand in earlier ones, so up to three of these go before
it, newest first, as long as they have 1,000 characters together. The assistant's earlier turns stay out: they hold
what the model said before, and a reference must not be recalled from that. So do system messages, which are
instructions. The upstream gets the whole conversation, as the client wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from corrigenda.server.limits import Limits
from corrigenda.server.options import Mode
from corrigenda.server.problems import ApiError, wrong
from corrigenda.server.wire import ChatBody, Choice, Contexts, Passage, Turn, understood
from corrigenda.settings import Choices, Settings
from corrigenda.types import ChatRequest, Message, Reference
from corrigenda.windows import is_blank

EARLIER = 3
"""How many earlier user messages may go before the question."""
EARLIER_CHARS = 1_000
"""How many characters these may have together."""
_OURS = frozenset(
    {"corrigenda", "model", "stream", "stream_options", "temperature", "top_p", "max_tokens", "seed", "n"}
)
"""Fields that the pipeline sets itself; all others go to an OpenAI-compatible upstream as they came."""
_NO_EFFECT = frozenset(
    {"max_completion_tokens", "messages", "user", "metadata", "store", "service_tier", "safety_identifier"}
    | {"prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls", "top_logprobs"}
)
"""Fields that do not change a plain answer, or that were taken into account already."""
_ROLES: Mapping[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is done for a chat request."""

    body: Mapping[str, Any]
    """The request as it came, without our own field and with its model in the upstream's words."""
    mode: Mode
    model: str | None
    """The upstream's model; None: the one that the server was started with."""
    stream: bool
    include_usage: bool
    passed: str | None
    """Why the reply is passed through unverified: a word, a colon and an explanation; None: it is verified."""
    request: ChatRequest | None = None
    """What the chat model gets; None where only an OpenAI-compatible upstream can serve the request."""
    question: str = ""
    """What a reference is recalled from."""
    references: tuple[Reference, ...] | None = None
    choices: Choices = field(default_factory=Choices)
    whole: bool = True
    """Whether the answer is decided as a whole before any of it leaves."""
    deadline: float | None = None
    """Seconds that the request asks for, at most."""


def plan(
    data: Any, header: str | None, *, limits: Limits, mode: Mode, settings: Settings, openai: bool, own: frozenset[str]
) -> Plan:
    """Return what to do for the body `data` and the X-Corrigenda header. Raises ApiError.

    `mode` is for a request that chooses none; `openai`: the upstream is an OpenAI-compatible server; `own`: names by
    which a request means the model that the server was started with.
    """
    chat = understood(ChatBody, data)
    if len(chat.messages) > limits.messages:
        raise wrong(f"there are {len(chat.messages)} messages; this server takes {limits.messages}", "messages")
    choice = chat.corrigenda or Choice()
    chosen = choice.mode or _of_header(header) or mode
    body = {name: value for name, value in data.items() if name != "corrigenda"}
    model = None if chat.model is None or chat.model in own else chat.model
    if model is None:
        body.pop("model", None)
    texts = [_text(turn, f"messages.{i}.content") for i, turn in enumerate(chat.messages)]
    passed = _passed(chosen, body, chat, texts)
    request = None
    if passed is None or passed.startswith("off:"):
        request = _request(chat, texts, body, limits, settings, openai)
    return Plan(
        body=body,
        mode=chosen,
        model=model,
        stream=bool(chat.stream),
        include_usage=bool(chat.stream_options and chat.stream_options.include_usage),
        passed=passed,
        request=request,
        question=_question(chat.messages, texts) if passed is None else "",
        references=references_of(choice.contexts, limits, "corrigenda.contexts"),
        choices=choices_of(choice, correct=chosen == "correct"),
        whole=choice.decision == "buffered" or (choice.decision is None and not chat.stream),
        deadline=deadline_of(choice.deadline, limits, "corrigenda.deadline"),
    )


def choices_of(choice: Any, *, correct: bool) -> Choices:
    """Return what a request decides for itself as the pipeline takes it; its deadline is left to who knows the time."""
    return Choices(
        policy=choice.policy, k=choice.k, threshold=choice.threshold, language=choice.language, correct=correct
    )


def references_of(contexts: Contexts | None, limits: Limits, param: str) -> tuple[Reference, ...] | None:
    """Return passages that a request gives; None where it gives none at all. Raises ApiError beyond the limits."""
    if contexts is None:
        return None
    passages = [contexts] if isinstance(contexts, str) else contexts
    if len(passages) > limits.contexts:
        raise wrong(f"there are {len(passages)} contexts; this server takes {limits.contexts}", param)
    texts = [p.text if isinstance(p, Passage) else p for p in passages]
    if sum(map(len, texts)) > limits.context_chars:
        raise wrong(f"the contexts have more than {limits.context_chars} characters, this server's limit", param)
    named = [p.source if isinstance(p, Passage) else None for p in passages]
    only = len(passages) == 1
    return tuple(
        Reference(text=text, source=name or ("context" if only else f"context {number}"))
        for number, (text, name) in enumerate(zip(texts, named, strict=True), start=1)
    )


def deadline_of(asked: float | None, limits: Limits, param: str) -> float | None:
    """Return the seconds that a request asks for. Raises ApiError beyond the limit."""
    if asked is not None and asked > limits.deadline_s:
        raise wrong(f"{param} may be {limits.deadline_s:g} s at most on this server, got {asked:g}", param)
    return asked


def _of_header(header: str | None) -> Mode | None:
    if header is None:
        return None
    modes: Mapping[str, Mode] = {"off": "off", "check": "check", "correct": "correct"}
    word = header.strip().lower()
    if word in modes:
        return modes[word]
    raise wrong(f"the header X-Corrigenda must be off, check or correct, got {header[:50]!r}", "X-Corrigenda")


def _text(turn: Turn, param: str) -> str | None:
    """Return a message's text; None where it holds more than text, or nothing. Raises ApiError."""
    content = turn.content
    if content is None and turn.role in ("system", "developer", "user"):
        raise wrong(f"{param} must be a text or a list of parts", param)
    if content is None or isinstance(content, str):
        return content
    texts = []
    for number, part in enumerate(content):
        if part.get("type") == "refusal":
            continue
        if part.get("type") != "text":
            return None
        if not isinstance(part.get("text"), str):
            raise wrong(f"{param}.{number}.text must be a text", f"{param}.{number}.text")
        texts.append(part["text"])
    return "\n".join(texts)


def _passed(mode: Mode, body: Mapping[str, Any], chat: ChatBody, texts: Sequence[str | None]) -> str | None:
    """Return why a reply to this request is not verified; None when it is."""
    form = body.get("response_format")
    media = body.get("modalities") not in (None, ["text"]) or body.get("audio") is not None
    reasons = {
        "off: verification was switched off for this request": mode == "off",
        "n: one answer is verified, not several": (chat.n or 1) > 1,
        "tools: replies in a conversation with tools are not verified": _has_tools(body, chat.messages),
        "response_format: replies in a form other than text are not verified": form is not None
        and not (isinstance(form, Mapping) and form.get("type") == "text"),
        "media: conversations with anything but text are not verified": media
        or any(t is None and turn.content is not None for turn, t in zip(chat.messages, texts, strict=True)),
        "logprobs: log-probabilities belong to the tokens of an answer that is not changed": bool(body.get("logprobs")),
        "no_question: there is no user message to check an answer to": all(t.role != "user" for t in chat.messages),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _has_tools(body: Mapping[str, Any], turns: Sequence[Turn]) -> bool:
    if body.get("tools") or body.get("functions") or body.get("web_search_options") is not None:
        return True  # an empty object of options is how a search of the web is asked for
    extra = [turn.model_extra or {} for turn in turns]
    return any(turn.role in ("tool", "function") for turn in turns) or any(
        more.get("tool_calls") or more.get("function_call") for more in extra
    )


def _question(turns: Sequence[Turn], texts: Sequence[str | None]) -> str:
    """Return the text that a reference is recalled from. Raises ApiError when the last user message is blank."""
    asked = [(i, text or "") for i, (turn, text) in enumerate(zip(turns, texts, strict=True)) if turn.role == "user"]
    index, question = asked[-1]
    if is_blank(question):
        raise wrong("the last user message is empty; it is the question that is answered", f"messages.{index}.content")
    kept: list[str] = []
    for _, text in reversed(asked[:-1][-EARLIER:]):
        if sum(map(len, kept)) + len(text) > EARLIER_CHARS:
            break
        kept += [] if is_blank(text) else [text.strip()]
    return "\n\n".join([*reversed(kept), question])


def _request(
    chat: ChatBody,
    texts: Sequence[str | None],
    body: Mapping[str, Any],
    limits: Limits,
    settings: Settings,
    openai: bool,
) -> ChatRequest | None:
    """Return what the chat model gets; None where it is no conversation of plain texts. Raises ApiError."""
    cap = chat.max_tokens if chat.max_completion_tokens is None else chat.max_completion_tokens
    if cap is not None and cap > limits.output_tokens:
        name = "max_tokens" if chat.max_completion_tokens is None else "max_completion_tokens"
        raise wrong(f"{name} may be {limits.output_tokens} at most on this server, got {cap}", name)
    if any(text is None and turn.role != "assistant" for turn, text in zip(chat.messages, texts, strict=True)):
        return None
    if any(turn.role not in _ROLES for turn in chat.messages):
        return None
    extra = {name: value for name, value in body.items() if name not in _OURS and value is not None}
    temperature, top_p, seed = chat.temperature, chat.top_p, chat.seed
    if openai:
        # Given as the client's own, so that they are never left out: a server that refuses one says so to the client.
        given = {"temperature": temperature, "top_p": top_p, "seed": seed}
        extra |= {name: value for name, value in given.items() if value is not None}
    else:
        for name, value in extra.items():
            _require_no_effect(name, value)
        extra = {}
        cap = settings.max_answer_tokens if cap is None else cap
        temperature = settings.temperature if temperature is None else temperature
        top_p = settings.top_p if top_p is None else top_p
        seed = settings.seed if seed is None else seed
    return ChatRequest(
        stage="generate",
        messages=tuple(
            Message(role=_ROLES[turn.role], content=text or "") for turn, text in zip(chat.messages, texts, strict=True)
        ),
        temperature=temperature,
        top_p=top_p,
        max_tokens=cap,
        seed=seed,
        extra=extra or None,
    )


def _require_no_effect(name: str, value: Any) -> None:
    """Raise ApiError for a setting that a model other than an OpenAI-compatible server's cannot follow."""
    neutral = value in (0, False, "", [], {}) or (name == "response_format" and value == {"type": "text"})
    if name not in _NO_EFFECT and not neutral:
        raise unsupported(name)


def unsupported(param: str) -> ApiError:
    """Return the error for what only an OpenAI-compatible upstream can do."""
    return wrong(
        f"{param!r} is not supported by the model behind this server, which is no OpenAI-compatible server; leave it "
        "out, or start this server with --llm openai:MODEL",
        param,
        code="unsupported_parameter",
    )
