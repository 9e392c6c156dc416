"""What goes wrong, as HTTP statuses and in OpenAI's form of an error.

| what | status |
|---|---|
| the request is not understood, or asks for what is not there | 400 |
| no key, or a wrong one | 401 |
| an unknown path, model or method | 404, 405 |
| the body is too large, did not arrive in time, or is no JSON by its type | 413, 408, 415 |
| the queue is full | 429 with Retry-After |
| the upstream refuses the request | its own 4xx |
| the upstream fails, answers nonsense, or cannot be reached; with --fail-closed, the check failed | 502 |
| the models are not there | 503 |
| the upstream or the request's own deadline ran out of time | 504 |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from corrigenda.errors import (
    BackendError,
    InputError,
    ModelError,
    RateLimited,
    RequestRefused,
    TimedOut,
    Unauthorized,
)

KINDS: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


_MOST_CHARS = 2000
"""Of a message: what it quotes may be as long as a request."""


class ApiError(Exception):
    """A refusal or failure that is told to the client."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str | None = None,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
        word: str | None = None,
    ) -> None:
        """`status` is the HTTP status; `param` names the field at fault; `more` stands beside `error` in the body.

        `word` is what the log and the metrics call it, where `code` is not ours.
        """
        super().__init__(message)
        self.status = status
        self.message = message if len(message) <= _MOST_CHARS else f"{message[: _MOST_CHARS - 1]}…"
        self.kind = kind or KINDS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
        self.param = param
        self.code = code
        self.word = word or code or self.kind
        self.headers = dict(headers or {})
        self.more = dict(more or {})

    def body(self) -> dict[str, Any]:
        """Return the reply's body."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error, **self.more}

    def event(self) -> dict[str, Any]:
        """Return the body for a stream, whose HTTP status has been sent: it stands in the error here."""
        body = self.body()
        return body | {"error": body["error"] | {"status": self.status}}


def wrong(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Return the error for a request that asks for something wrong in `param`."""
    return ApiError(400, message, param=param, code=code)


def internal() -> ApiError:
    """Return the error for a fault of our own, which says nothing about it: the log does, under the request's id."""
    return ApiError(500, "the server met an error of its own; its log says more under this request's id")


def translated(exc: BaseException, hide: Callable[[str], str] = str) -> ApiError | None:
    """Return what to tell a client about one of our exceptions; None for any other.

    `hide` removes the upstream's secrets from a text.
    """
    if isinstance(exc, ApiError):
        return exc
    if isinstance(exc, InputError):
        return wrong(str(exc))
    if isinstance(exc, ModelError):
        return ApiError(503, str(exc), code="model_unavailable")
    return _of_upstream(exc, hide) if isinstance(exc, BackendError) else None


def _of_upstream(exc: BackendError, hide: Callable[[str], str]) -> ApiError:
    cause = exc.__cause__
    status = getattr(cause, "status_code", None)
    if isinstance(exc, TimedOut):
        return ApiError(504, str(exc), code="upstream_timeout")
    if isinstance(exc, Unauthorized):
        # The client's own key is not meant: it never travels further than this server.
        return ApiError(
            status if isinstance(status, int) else 401,
            "the upstream model's server refuses the credentials that this server is configured with",
            code="upstream_unauthorized",
        )
    if isinstance(exc, RateLimited):
        return _as_said(exc, 429, hide, code="upstream_rate_limit")
    if isinstance(exc, RequestRefused):
        return _as_said(exc, exc.status or 400, hide, code="upstream_refused")
    return ApiError(502, str(exc), code="upstream_error")


def _as_said(exc: BackendError, status: int, hide: Callable[[str], str], code: str) -> ApiError:
    """Return an upstream's refusal in its own words, where it has them, with its Retry-After."""
    cause = exc.__cause__
    said = getattr(cause, "body", None)
    told: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    headers = getattr(getattr(cause, "response", None), "headers", None) or {}
    wait = headers.get("retry-after")
    return ApiError(
        status,
        _text(told, "message", hide) or str(exc),
        kind=_text(told, "type", hide),
        param=_text(told, "param", hide),
        code=_text(told, "code", hide) or code,
        word=code,
        headers={"Retry-After": wait} if isinstance(wait, str) and wait.isascii() and wait.isprintable() else None,
    )


def _text(said: Mapping[str, Any], name: str, hide: Callable[[str], str]) -> str | None:
    value = said.get(name)
    return hide(value)[:2000] if isinstance(value, str) and value else None
