"""What goes wrong with an OpenAI-compatible server, said in our words: where, what, and what to do about it.

    openai.APITimeoutError, httpx TimeoutException            → TimedOut
    openai.APIConnectionError, httpx RequestError             → Unreachable (of DecodingError: BadReply)
    openai.APIStatusError by its status (401 … 429, 4xx, 5xx) → Unauthorized, RateLimited, RequestRefused, …
    openai.APIResponseValidationError                         → BadReply
    any other openai.OpenAIError (with a status: by that)     → BackendError

Exceptions are told apart by the names in their class hierarchy, not by importing the libraries: the transport
below `openai` is one package in some of its versions and another one in others, and both have these names.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from corrigenda.backends.openai_secrets import forms_of, has_login
from corrigenda.backends.scripts import error_for_status
from corrigenda.errors import BackendError, BadReply, ConfigError, RequestRefused, TimedOut, Unreachable
from corrigenda.replies import shorten
from corrigenda.terminal import safe

_REMEDIES = {
    400: "the server does not take this request; is it meant for this model?",
    401: "check the API key (OPENAI_API_KEY, or the setting api_key)",
    403: "the key has no right to this model or server",
    404: "check the model's name and the base URL, which usually ends in /v1",
    413: "the request is too long for this server",
    422: "the server does not take this request; is it meant for this model?",
    429: "wait, raise the limit of the account, or lower the number of parallel calls",
}


class Server:
    """Where a chat server is, for messages, and the secrets that no message may show."""

    def __init__(self, base_url: str, secrets: Iterable[object]) -> None:
        """Take the address apart. Raises ConfigError when it isn't one."""
        try:
            parts = urlsplit(base_url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                "base_url must be an address that starts with http:// or https://, such as http://localhost:8000/v1"
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.place = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
        """Scheme, host and port: a path, a query or a user's name may hold a secret."""
        self.hostname = parts.hostname
        self.has_login = has_login(parts)
        """Whether the address holds a name or a password, which then take the place of a key in each request."""
        self._secrets = forms_of(parts, secrets)

    def hide(self, text: str) -> str:
        """Return `text` with every secret replaced by three asterisks."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def excerpt(self, text: str) -> str:
        """Return the beginning of a body for a message: on one line, harmless for a terminal, without secrets.

        Secrets go before it is cut.
        """
        return safe(shorten(re.sub(r"\s+", " ", self.hide(text)).strip(), 200))


def translate(exc: Exception, server: Server, timeout_s: float) -> BackendError:
    """Return our exception for one of the libraries' own; raise it with `from exc`.

    The text of `exc` is cleared of secrets too, since a traceback shows it.
    """
    exc.args = tuple(server.hide(a) if isinstance(a, str) else a for a in exc.args)
    if isinstance(getattr(exc, "message", None), str):
        exc.message = server.hide(exc.message)  # type: ignore[attr-defined]
    names = {cls.__name__ for cls in type(exc).__mro__}
    if names & {"APITimeoutError", "TimeoutException"}:
        return TimedOut(f"{server.place} did not answer within {timeout_s:g} s; raise request_timeout, or try again")
    if names & {"APIConnectionError", "RequestError", "StreamError"}:
        return _of_connection(exc, server)
    if "APIResponseValidationError" in names:
        return BadReply(f"{server.place} answered in another form than a chat completion: {_body(exc, server)}")
    status = getattr(exc, "status_code", None)
    if isinstance(status, int) and 300 <= status < 400:
        return _of_redirect(status, exc, server)
    if isinstance(status, int):
        error = for_status(status, _body(exc, server), server)
        error.retry_after_s = _retry_after(getattr(getattr(exc, "response", None), "headers", {}))
        return error
    return BackendError(f"{server.place}: {server.excerpt(str(exc)) or type(exc).__name__}")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server wants to be left alone; None where it does not say, or not in a known form."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(TypeError, ValueError):
            seconds = float(headers.get(name, "")) * unit
            if math.isfinite(seconds) and seconds >= 0:
                return seconds
    with suppress(TypeError, ValueError, OverflowError):
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, until.timestamp() - time.time())
    return None


def _of_connection(exc: BaseException, server: Server) -> BackendError:
    """Return our exception for a connection that could not be made, that broke, or that brought damaged bytes."""
    cause = exc.__cause__ or exc
    names = {cls.__name__ for each in (exc, cause) for cls in type(each).__mro__}
    why = server.excerpt(str(cause)) or type(cause).__name__
    if "DecodingError" in names:
        return BadReply(
            f"{server.place} sent a body that cannot be decompressed ({why}); try again, and if it stays so, look for "
            "a proxy in between that changes what passes"
        )
    if names & {"ReadError", "WriteError", "CloseError", "RemoteProtocolError", "StreamError"}:
        return Unreachable(f"the connection to {server.place} broke ({why}); try again")
    return Unreachable(f"no connection to {server.place} ({why}); is the server running, and is base_url right?")


def _of_redirect(status: int, exc: Exception, server: Server) -> BackendError:
    """Return our exception for a redirect. None is followed: the question and the headers would go with it."""
    target = getattr(getattr(exc, "response", None), "headers", {}).get("location", "")
    try:
        parts = urlsplit(target)
        place = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
    except ValueError:
        parts, place = urlsplit(""), ""
    if target.startswith("/") and not parts.hostname:
        place = "another path of its own"
    elif not parts.scheme or not parts.hostname:
        return for_status(status, _body(exc, server), server)
    return BackendError(
        f"{server.place} answered {status}: it redirects to {server.excerpt(place)}, where nothing was sent; "
        "if that is the right place, set base_url (--base-url) to its address"
    )


def for_status(status: int, body: str, server: Server) -> BackendError:
    """Return our exception for an HTTP status, with the excerpt `body` of the answer and the remedy."""
    remedy = _REMEDIES.get(status, "try again later" if status >= 500 else "see the server's own message")
    message = f"{server.place} answered {status}: {body or 'nothing'}; {remedy}"
    if 200 <= status < 400:
        return BackendError(message)
    return error_for_status(status, message)


def from_error_object(error: Any, server: Server) -> BackendError:
    """Return our exception for an `error` object that came inside a 200 answer or a stream."""
    code = error.get("code", error.get("status")) if isinstance(error, dict) else None
    if isinstance(code, int) and 400 <= code <= 599:
        return for_status(code, server.excerpt(_said(error)), server)
    return BackendError(f"{server.place} reported an error: {server.excerpt(_said(error)) or 'without a message'}")


def was_refused(error: BackendError) -> bool:
    """Return whether the server refused the request itself, so that another form of it may be taken."""
    return isinstance(error, RequestRefused) and error.status in (400, 404, 422)


def _body(exc: Exception, server: Server) -> str:
    return server.excerpt(_said(getattr(exc, "body", None)))


def _said(body: Any) -> str:
    """Return what an error answer says: its message, where it has one, or all of it."""
    if isinstance(body, str):
        return body
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return str(body["message"])
    return "" if body is None else json.dumps(body, ensure_ascii=False, default=str)
