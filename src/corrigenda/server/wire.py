"""OpenAI's chat API and our own calls as they come over the wire: what a request may hold, and what replies hold.

A chat request is checked as far as this server acts on it; everything else in it is the upstream's business and
travels on as it came. In our own calls and in the field `corrigenda`, an unknown name is an error.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from corrigenda.report import plain, to_dict
from corrigenda.server.problems import ApiError, wrong
from corrigenda.types import Claim, Completion, FinishReason, Report, TokenUsage

Language = Annotated[str, Field(pattern=r"^(auto|[a-z]{2,3})$", description="auto, or an ISO 639-1 code.")]
PolicyName = Literal["paper", "fixed", "bounded", "conformal"]
Unit = Annotated[float, Field(ge=0, le=1)]


B = TypeVar("B", bound=BaseModel)
_BRANCHES = frozenset({"str", "Passage"})
"""Names that the validator puts into the place of an error where a field may have several forms."""
_MOST_FAULTS = 100
"""How many are looked at to choose the one that is told."""
_NAME_CHARS = 60
"""How much of an unknown field's name is said back."""


class _First(FailFast):
    """Lets a list be left at its first fault: to describe each of millions takes minutes and gigabytes."""

    __hash__ = object.__hash__  # forms of a field must be hashable, and pydantic's own is not


class _Closed(BaseModel):
    """A record of ours: unknown names are errors, and so are NaN, infinity, and a text where a number belongs."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Passage(_Closed):
    """A passage to check against, with the name under which the report shows it."""

    text: str
    source: str | None = Field(default=None, max_length=500)


Contexts = str | Annotated[list[str | Passage], _First()]


class Choice(_Closed):
    """What a request decides for itself; what it leaves out is as the server was started."""

    mode: Literal["off", "check", "correct"] | None = Field(
        default=None, description="off: no check; check: a report; correct: a report and a corrected answer."
    )
    policy: PolicyName | None = Field(default=None, description="The decision policy.")
    k: float | None = Field(default=None, ge=0, le=1000, description="Sensitivity of the threshold µ + kσ.")
    threshold: Unit | None = Field(default=None, description="Threshold of the policies fixed and conformal.")
    contexts: Contexts | None = Field(
        default=None, description="Passages to check against, in place of a reference recalled from the question."
    )
    language: Language | None = None
    deadline: float | None = Field(default=None, gt=0, description="Seconds for the whole report.")
    decision: Literal["incremental", "buffered"] | None = Field(
        default=None,
        description="incremental: each sentence is decided over the scores so far; buffered: over the whole answer. "
        "Default: incremental for streams, buffered otherwise.",
    )


class StreamOptions(BaseModel):
    """OpenAI's settings of a stream."""

    model_config = ConfigDict(extra="allow", strict=True)
    include_usage: bool | None = None


class Turn(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="allow", strict=True)
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Annotated[list[dict[str, Any]], _First()] | None = None


class ChatBody(BaseModel):
    """A chat completion request. Fields that are not listed here are passed on to the upstream as they are."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    model: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="The upstream's model; `corrigenda`, or nothing: the one that the server was started with.",
    )
    messages: Annotated[list[Turn], _First()] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    n: int | None = Field(default=None, ge=1)
    corrigenda: Choice | None = None


class _Checking(_Closed):
    mode: Literal["check", "correct"] | None = Field(
        default=None, description="check: verdicts alone; correct: and a corrected answer."
    )
    policy: PolicyName | None = Field(default=None, description="The decision policy.")
    k: float | None = Field(default=None, ge=0, le=1000, description="Sensitivity of the threshold µ + kσ.")
    threshold: Unit | None = Field(default=None, description="Threshold of the policies fixed and conformal.")
    language: Language | None = None
    deadline: float | None = Field(default=None, gt=0, description="Seconds for the whole call.")


class Item(_Closed):
    """One answer to check."""

    answer: str = Field(min_length=1)
    question: str | None = Field(default=None, description="Without contexts, a reference is recalled from it.")
    contexts: Contexts | None = Field(default=None, description="Passages that the answer must agree with.")


class VerifyBody(_Checking, Item):
    """An answer to check."""


class BatchBody(_Checking):
    """Several answers to check with the same settings."""

    items: Annotated[list[Item], _First()] = Field(min_length=1)


class DecideBody(_Closed):
    """A report to decide anew from its scores. No model runs."""

    report: dict[str, Any] = Field(description="A report, as this server gave it.")
    policy: PolicyName | None = None
    k: float | None = Field(default=None, ge=0, le=1000)
    threshold: Unit | None = Field(default=None, description="Threshold of the policies fixed and conformal.")


def understood(kind: type[B], data: Any, where: str = "") -> B:
    """Return `data` as a `kind`. Raises ApiError 400 that names the first field at fault."""
    if not isinstance(data, Mapping):
        raise wrong(f"{where or 'the body'} must be a JSON object")
    try:
        return kind.model_validate(data)
    except ValidationError as exc:
        raise _explained(exc, where) from None


def _explained(exc: ValidationError, where: str) -> ApiError:
    """Return one complaint, in words. It shows no value: values are texts of the client's.

    Of several the one with the longest place: where a field may have several forms, that is the form that was meant.
    """
    if exc.error_count() > _MOST_FAULTS:
        return wrong(f"{where or 'the body'}: there are {exc.error_count()} faults; see /docs for what it may hold")
    found = exc.errors(include_url=False, include_input=False, include_context=False)
    first = max(found, key=lambda complaint: len(complaint["loc"]))
    unknown = first["type"] == "extra_forbidden"
    *place, last = first["loc"] or ("",)
    # The last part of an unknown field's place is its name, which may be anything; elsewhere the names are ours.
    named = [part for part in (*place, *(() if unknown else (last,))) if _is_ours(part)]
    named += [last if len(str(last)) <= _NAME_CHARS else f"{str(last)[:_NAME_CHARS]}…"] if unknown else []
    param = ".".join(str(part) for part in ([where] if where else []) + named) or None
    if unknown:
        return wrong(f"unknown field {param!r}; see /docs for those that there are", param, code="unknown_field")
    if first["type"] == "missing":
        return wrong(f"the field {param!r} is missing", param, code="missing_field")
    return wrong(f"{param or 'the body'}: {first['msg']}", param)


def _is_ours(part: int | str) -> bool:
    """Return whether a part of a place is an index or the name of a field, and not of one of a field's forms."""
    return isinstance(part, int) or (part.isidentifier() and part not in _BRANCHES)


FINISH: Mapping[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "refusal": "stop",
    "other": "stop",
}
"""Our finish reasons in OpenAI's words; a refusal stands in the message's own field."""


class Reply:
    """What the parts of one reply have in common."""

    def __init__(self, model: str) -> None:
        """Name the model that answers."""
        self.model = model
        self.id = f"chatcmpl-{uuid.uuid4().hex}"
        self.created = int(time.time())

    def whole(self, text: str, completion: Completion | None, corrigenda: Mapping[str, Any]) -> dict[str, Any]:
        """Return a reply in one piece. A `completion` of None: the time limit ended the answer."""
        refusal = None if completion is None else completion.refusal
        message = {"role": "assistant", "content": None if refusal is not None and not text else text}
        choice = {
            "index": 0,
            "message": message | {"refusal": refusal},
            "logprobs": None,
            "finish_reason": finish_reason(completion),
        }
        return self._head("chat.completion") | {
            "choices": [choice],
            "usage": usage_of(completion),
            "corrigenda": dict(corrigenda),
        }

    def chunk(self, delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
        """Return a piece of a streamed reply."""
        choice = {"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": finish}
        return self._head("chat.completion.chunk") | {"choices": [choice]} | more

    def usage_chunk(self, completion: Completion | None) -> dict[str, Any]:
        """Return the piece that carries the usage and nothing else."""
        return self._head("chat.completion.chunk") | {"choices": [], "usage": usage_of(completion)}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def finish_reason(completion: Completion | None) -> str:
    """Return OpenAI's word for how an answer ended; one that the time limit ended counts as cut off."""
    return "length" if completion is None else FINISH[completion.finish_reason]


def usage_of(completion: Completion | None) -> dict[str, int] | None:
    """Return the usage of the answer's own call in OpenAI's form; None where the upstream did not say it."""
    usage = TokenUsage() if completion is None else completion.usage
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def report_of(report: Report) -> dict[str, Any]:
    """Return what stands in `corrigenda` beside a verified answer: the report."""
    return to_dict(report)


def claims_of(claims: Sequence[Claim]) -> dict[str, Any]:
    """Return what stands in `corrigenda` beside a released piece of an answer."""
    return {"claims": [plain(claim) for claim in claims]}


def passed_through(reason: str) -> dict[str, Any]:
    """Return what stands in `corrigenda` beside a reply that was not verified."""
    return {"status": "passed_through", "reason": reason}
