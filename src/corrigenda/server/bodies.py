"""Reading requests and writing replies: strict JSON in, strict JSON out, and no client waited for without an end."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Coroutine, Mapping
from typing import Any, NoReturn, TypeVar

from corrigenda.server.limits import Limits
from corrigenda.server.problems import ApiError, wrong

T = TypeVar("T")
Message = Mapping[str, Any]
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ALIKE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_JSON = "application/json"
DEPTH = 200
"""How deep a body may be nested: what is read is also checked, copied and written, which take more of the stack."""


class ClientGone(Exception):
    """The client hung up, or left its reply unread for too long."""


class Exchange:
    """One request and its reply, over ASGI. Nothing is sent twice."""

    def __init__(self, scope: Mapping[str, Any], receive: Any, send: Any, limits: Limits) -> None:
        """Take what ASGI gives an application."""
        self.scope = scope
        self._receive = receive
        self._send = send
        self._limits = limits
        self.started = False
        """Whether the reply's status has been sent."""
        self.complete = False
        """Whether the whole reply has been sent."""

    def header(self, name: str) -> str | None:
        """Return a header of the request, or None. `name` in lower case."""
        wanted = name.encode("ascii")
        return next((v.decode("latin-1") for k, v in self.scope["headers"] if k == wanted), None)

    async def json(self) -> Any:
        """Return the request's body. Raises ApiError when it is too large, late, or no JSON, and ClientGone."""
        kind = (self.header("content-type") or "").partition(";")[0].strip().lower()
        if kind != _JSON:
            # Also what keeps a page of the web from posting here without the browser asking first.
            raise ApiError(415, f"the body must be JSON, with the header Content-Type: {_JSON}", code="not_json")
        try:
            async with asyncio.timeout(self._limits.read_s):
                raw = await self._body()
        except TimeoutError as exc:
            message = f"the body did not arrive within {self._limits.read_s:g} s"
            raise ApiError(408, message, code="too_slow", headers={"Connection": "close"}) from exc
        return parse(raw)

    async def _body(self) -> bytes:
        most = self._limits.body_bytes
        too_large = ApiError(413, f"the body has more than {most} bytes, the limit of this server", code="too_large")
        length = self.header("content-length") or ""
        if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > most):
            raise too_large
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            if len(body) > most:
                raise too_large
            if not message.get("more_body"):
                return bytes(body)

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`; when the client hangs up, cancel it and raise ClientGone. The body must have been read."""
        task, watch = asyncio.ensure_future(work), asyncio.ensure_future(self._gone())
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and not self.complete:
                task.cancel()
                await asyncio.wait({task})
                if task.cancelled() or task.exception() is not None:
                    raise ClientGone
            return await task
        finally:
            task.cancel()
            watch.cancel()
            await asyncio.wait({task, watch})

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def reply(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        """Send a reply in one piece, as JSON."""
        await self.reply_raw(status, encoded(content), {"content-type": _JSON} | dict(headers or {}))

    async def reply_raw(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a reply in one piece."""
        await self.begin(status, {"content-length": str(len(body))} | dict(headers))
        await self.end(body)

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the status and the headers. Raises ClientGone, as do the others that send."""
        self.started = True
        head = [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
        await self._put({"type": "http.response.start", "status": status, "headers": head})

    async def begin_events(self, headers: Mapping[str, str]) -> None:
        """Begin a stream of events."""
        await self.begin(
            200,
            {
                "content-type": "text/event-stream; charset=utf-8",
                "cache-control": "no-cache",
                "x-accel-buffering": "no",  # nginx would hold the events back
            }
            | dict(headers),
        )

    async def event(self, content: Any) -> None:
        """Send one event with a JSON value."""
        await self.piece(b"data: " + encoded(content) + b"\n\n")

    async def done(self) -> None:
        """End a stream of events as OpenAI does."""
        await self.end(b"data: [DONE]\n\n")

    async def piece(self, body: bytes) -> None:
        """Send a part of the body."""
        await self._put({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self, body: bytes = b"") -> None:
        """Send the last part of the body."""
        self.complete = True
        await self._put({"type": "http.response.body", "body": body, "more_body": False})

    async def _put(self, message: Message) -> None:
        try:
            async with asyncio.timeout(self._limits.write_s):
                await self._send(message)
        except (TimeoutError, OSError) as exc:
            raise ClientGone from exc


def parse(raw: bytes) -> Any:
    """Return strict JSON: UTF-8, no NaN, no infinity, no number beyond what a float holds, no lone surrogates.

    Raises ApiError 400.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise wrong(f"the body is not valid UTF-8 (at byte {exc.start})") from None
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise wrong("the body is nested too deeply") from None
    except json.JSONDecodeError as exc:
        raise wrong(f"the body is not valid JSON: {exc.msg} (at character {exc.pos})") from None
    except ValueError as exc:
        raise wrong(f"the body is not valid JSON: {str(exc)[:100]}") from None
    if _deeper(raw, DEPTH):
        raise wrong("the body is nested too deeply")
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise wrong("the body holds half of a surrogate pair, which is no character") from None
    return value


def _deeper(raw: bytes, most: int) -> bool:
    """Return whether lists and objects stand in each other more than `most` deep in `raw`, which is valid JSON.

    Works on the text, which for millions of small values is several times as fast as going through these.
    """
    if raw.count(b"[") + raw.count(b"{") <= most:
        return False
    without_quotes_in_strings = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    outside_strings = b"".join(without_quotes_in_strings.split(b'"')[::2])
    brackets = outside_strings.translate(_ALIKE, _NO_BRACKETS)
    for _ in range(most):
        brackets = brackets.replace(b"[]", b"")  # the innermost
        if not brackets:
            return False
    return True


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def encoded(content: Any) -> bytes:
    """Return a value as strict JSON in UTF-8; half surrogate pairs, which models may give, become U+FFFD."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")
