"""`openai:MODEL`: any server that speaks OpenAI's chat completion API, through the official library.

What a server refuses (a JSON schema, `stream_options`, `seed`, …) is left out once it has said so, and that is
remembered for as long as the object lives. Connection failures, 408, 409, 429 and 5xx are tried again by the
library: exponential waits from 0.5 to 8 s with up to 25% taken off at random, or what `Retry-After` says (up
to 2 minutes). A reply that has begun to arrive is never asked for again.
"""

from __future__ import annotations

import asyncio
import copy
import json
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from corrigenda.backends import openai_wire as wire
from corrigenda.backends.openai_errors import Server, from_error_object, translate, was_refused
from corrigenda.backends.openai_secrets import checked_headers, checked_key
from corrigenda.backends.sse import Event, EventReader
from corrigenda.errors import BackendError, BadReply, ConfigError, ReasoningLeaked, Unreachable
from corrigenda.types import ChatRequest, Completion, Delta

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OPENAI_URL = "https://api.openai.com/v1"
_NO_KEY = "none"
"""Sent where a server needs no key: the library insists on an Authorization header."""
_MAX_UNREAD = 16_000_000
"""Bytes of a single event, or of an answer that isn't a stream of events, where one was asked for."""
_REASONS = re.compile(r"think|reason|\bqwq\b|(?<![a-z0-9])r1(?![0-9])", re.IGNORECASE)
"""In the names of models whose templates put the opening `<think>` into the prompt."""
T = TypeVar("T")


class OpenAIChat:
    """A ChatModel and LabelScorer over an OpenAI-compatible server."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        max_retries: int = 2,
        client: AsyncOpenAI | None = None,
    ) -> None:
        """Name the model and the server; nothing is sent yet, and no environment variable is read.

        `base_url` is OpenAI's own when None. `timeout_s` (above 0) bounds the wait for a connection (10 s at
        most) and each wait for more bytes. `max_retries` is from 0 on. A `client` is used as it is: never
        changed, never closed, and it excludes the other settings. Raises ConfigError.
        """
        if not model.strip():
            raise ConfigError("the chat model 'openai:' names no model; write openai:MODEL, as in openai:gpt-4o-mini")
        if not (math.isfinite(timeout_s) and timeout_s > 0):
            raise ConfigError(f"the timeout of a chat server must be a number of seconds above 0, got {timeout_s!r}")
        if max_retries < 0:
            raise ConfigError(f"the number of retries must be at least 0, got {max_retries!r}")
        if client is not None and (base_url is not None or api_key is not None or headers):
            raise ConfigError("a client brings its own address, key and headers; leave out base_url, api_key, headers")
        self._model = model
        self._given = client
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._headers = checked_headers(headers or {})
        self._key = checked_key(api_key)
        self._base_url = str(client.base_url) if client is not None else base_url or OPENAI_URL
        own = () if client is None else (client.api_key, *client._custom_headers.values())
        self._server = Server(self._base_url, [self._key, *self._headers.values(), *own])
        if client is None:
            self._need_key()
            self._need_one_login()
        self._refused: set[str] = set()
        self._top_logprobs = 0
        self._begins_inside = _REASONS.search(model) is not None
        """Whether a reply may begin inside a block of reasoning. Streams are held back until that is known."""
        self._own: dict[asyncio.AbstractEventLoop, AsyncOpenAI] = {}
        self._closed = False

    @property
    def name(self) -> str:
        """`openai:MODEL`."""
        return f"openai:{self._model}"

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the whole reply. See `ports.ChatModel.complete`."""
        answer = await self._adapting(wire.body_of(request, self._model, stream=False), self._post, request.extra)
        return wire.completion_from(answer, self._server)

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        """Yield the reply as it arrives. See `ports.ChatModel.stream`; closing it hangs up.

        Of a reply that goes on far beyond `max_tokens`, the beginning is given, with the finish reason `length`.
        Raises BadReply when what was given out turns out to be reasoning whose opening tag is missing; later
        replies of this model are then held back until their reasoning has ended.
        """
        chunks = await self._adapting(wire.body_of(request, self._model, stream=True), self._open, request.extra)
        async with aclosing(chunks), aclosing(self._read(chunks, request.max_tokens)) as deltas:
            async for delta in deltas:
                yield delta

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        """Return how probable each label is as the first token. See `ports.LabelScorer.label_logprobs`.

        A server reports its 20 most probable tokens at most; a label outside them gets `-inf`.
        """
        body = wire.body_of(request, self._model, stream=False) | {"max_tokens": 1, "logprobs": True}
        body["top_logprobs"] = wire.TOP_LOGPROBS[0]
        answer = await self._adapting(body, self._post, request.extra)
        return wire.label_logprobs_from(answer, labels, self._server)

    def count_tokens(self, text: str) -> int:
        """Return an upper estimate, as the model's tokenizer is not at hand.

        No byte-level vocabulary makes more than one token of a byte, so everything but plain letters and
        spaces (digits, punctuation, other scripts) counts by its bytes. Runs of plain letters take more than
        two characters a token in every common vocabulary and language, so they count half.
        """
        plain = sum(c.isascii() and (c.isalpha() or c == " ") for c in text)
        return len(text.encode("utf-8", "surrogatepass")) - plain // 2

    def for_model(self, model: str) -> OpenAIChat:
        """Return this server's chat model called `model`, over this object's connections: close only this object."""
        other = copy.copy(self)
        other._model, other._refused, other._top_logprobs = model, set(), 0
        other._begins_inside = _REASONS.search(model) is not None
        return other

    async def forward(self, body: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Send `body` as it is, with this object's key; return the reply's body as it comes. Raises BackendError.

        A `body` without a model asks for this object's. Close the iterator when you stop early.
        """
        return await self._open({"model": self._model, **body})

    async def models(self, timeout_s: float) -> list[Mapping[str, Any]]:
        """Return the server's list of models, asked for once, within `timeout_s` seconds. Raises BackendError."""
        client = await self._client()
        try:
            answer = await client.get("/models", cast_to=object, options={"timeout": timeout_s, "max_retries": 0})
        except Exception as exc:
            raise translate(exc, self._server, timeout_s) from exc
        found = answer.get("data") if isinstance(answer, Mapping) else None
        if not isinstance(found, list):
            raise BadReply(f"{self._server.place} answered without a list of models")
        return [model for model in found if isinstance(model, Mapping) and isinstance(model.get("id"), str)]

    def hide(self, text: str) -> str:
        """Return `text` without the secrets that this object knows."""
        return self._server.hide(text)

    async def aclose(self) -> None:
        """Close the connections that this object opened itself; a client that was passed in stays open."""
        self._closed = True
        own = self._own.pop(asyncio.get_running_loop(), None)
        if own is not None:
            await own.close()
        await self._drop_dead()

    def _need_key(self) -> None:
        """Refuse early what OpenAI would answer with 401. Raises ConfigError."""
        own_header = any(name.lower() in ("authorization", "api-key") for name in self._headers)
        if self._server.hostname == "api.openai.com" and not self._key and not own_header:
            raise ConfigError(
                f"{self.name} needs an API key for {self._server.place}: set the environment variable "
                "OPENAI_API_KEY or the setting api_key, or name another server with base_url (--base-url)"
            )

    def _need_one_login(self) -> None:
        """Refuse two claims to the one Authorization header: the address's would win, and the key never be sent."""
        own_header = any(name.lower() == "authorization" for name in self._headers)
        if self._server.has_login and (self._key or own_header):
            other = "an Authorization header (headers)" if own_header else "an API key (OPENAI_API_KEY, api_key)"
            raise ConfigError(
                f"base_url holds a name or password for {self._server.place}, and there is {other} too, but a request "
                "carries only one of them: take the name and password out of base_url, or leave the other out "
                '(for a key: unset OPENAI_API_KEY, or set api_key = "")'
            )

    async def _client(self) -> AsyncOpenAI:
        """Return the client for the running loop; connections cannot move from one loop to another."""
        if self._given is not None:
            return self._given
        if self._closed:
            raise BackendError(f"{self.name} is closed; make a new one")
        loop = asyncio.get_running_loop()
        if loop not in self._own:
            await self._drop_dead()
            self._own[loop] = self._new_client()
        return self._own[loop]

    async def _drop_dead(self) -> None:
        """Let go of clients whose loop was closed without `aclose`; left alone they complain when collected."""
        for loop in [loop for loop in self._own if loop.is_closed()]:
            with suppress(RuntimeError):  # their connections can only be dropped, not closed in good order
                await self._own.pop(loop).close()

    def _new_client(self) -> AsyncOpenAI:
        """Build a client that takes nothing from the library's own environment variables and follows no redirect.

        A redirect would take the question and the headers to a server that nobody named.
        """
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout  # noqa: PLC0415  # slow, and not always needed

        timeout = Timeout(self._timeout_s, connect=min(10.0, self._timeout_s))
        client = AsyncOpenAI(
            api_key=self._key or _NO_KEY,
            base_url=self._base_url,
            organization="",
            project="",
            webhook_secret="",
            timeout=timeout,
            max_retries=self._max_retries,
            http_client=DefaultAsyncHttpxClient(timeout=timeout, follow_redirects=False),
        )
        # The library merges OPENAI_CUSTOM_HEADERS into the headers and offers no way to say no; and an empty
        # organisation (which keeps OPENAI_ORG_ID out) would be sent as an empty header.
        client.organization = None
        client.project = None
        client._custom_headers = dict(self._headers)
        return client

    async def _adapting(
        self, body: Mapping[str, Any], send: Callable[[dict[str, Any]], Awaitable[T]], given: Mapping[str, Any] | None
    ) -> T:
        """Send `body` in the form that this server takes, leaving out what it refuses, but nothing that was `given`.

        It ends, as each complaint takes something away. Only what led to success is remembered: a complaint
        about a value (a cap that is too large) is no refusal of the setting.
        """
        refused: set[str] = set()
        lowered = self._top_logprobs
        while True:
            adapted = self._adapted(body, refused, lowered) | {name: body[name] for name in given or ()}
            try:
                answer = await send(adapted)
            except BackendError as error:
                complaints = _complaints(error, adapted) - set(given or ())
                if not complaints:
                    raise
                lowered += "top_logprobs" in complaints
                refused |= complaints - {"top_logprobs"}
                continue
            self._refused |= refused
            self._top_logprobs = max(self._top_logprobs, lowered)
            return answer

    def _adapted(self, body: Mapping[str, Any], refused: set[str], lowered: int) -> dict[str, Any]:
        """Return a copy of `body` without what was refused, now or earlier."""
        left_out = refused | self._refused
        adapted = {key: value for key, value in body.items() if key not in left_out}
        if "max_tokens" in left_out and "max_tokens" in body:
            adapted["max_completion_tokens"] = body["max_tokens"]  # newer models know the cap by this name only
        if "top_logprobs" in body:
            adapted["top_logprobs"] = wire.TOP_LOGPROBS[lowered]
            if adapted["top_logprobs"] is None:
                del adapted["top_logprobs"]
        return adapted

    async def _post(self, body: dict[str, Any]) -> Mapping[str, Any]:
        """Send one request that is answered in one piece. Raises BackendError."""
        client = await self._client()
        try:
            response = await client.chat.completions.with_raw_response.create(**wire.arguments(body))
        except Exception as exc:
            raise translate(exc, self._server, self._timeout_s) from exc
        return self._decoded(response.content)

    def _decoded(self, content: bytes) -> Mapping[str, Any]:
        """Return a 200 answer's JSON object. Raises BadReply, or the error that it reports."""
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as exc:
            raise self._not_json(content) from exc
        if not isinstance(answer, dict):
            raise self._not_json(content)
        if answer.get("error"):
            raise from_error_object(answer["error"], self._server)
        return answer

    def _not_json(self, content: bytes) -> BadReply:
        text = content[:2000].decode("utf-8", "replace")
        kind = "HTML" if text.lstrip().startswith("<") else "something else"
        return BadReply(
            f"{self._server.place} answered with {kind} where JSON was expected: '{self._server.excerpt(text)}'; "
            "check base_url, which usually ends in /v1"
        )

    async def _open(self, body: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        """Return the body of a streamed answer once its head has come and is good. Raises BackendError."""
        chunks = self._chunks(body)
        await anext(chunks)
        return chunks

    async def _chunks(self, body: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        """Yield an empty chunk when the head of the answer has come, then its body as it comes."""
        client = await self._client()
        try:
            async with client.chat.completions.with_streaming_response.create(**wire.arguments(body)) as response:
                yield b""
                async for chunk in response.iter_bytes():
                    yield chunk
        except Exception as exc:
            raise translate(exc, self._server, self._timeout_s) from exc

    async def _events(
        self, chunks: AsyncIterator[bytes], reply: wire.StreamedReply, unread: bytearray
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of a stream; what comes before the first one is put into `unread`.

        A connection that breaks after the finish reason has come takes nothing away, so it is no error.
        """
        reader, seen = EventReader(), False
        try:
            async for chunk in chunks:
                if not seen and len(unread) < _MAX_UNREAD:
                    unread += chunk
                for event in reader.feed(chunk):
                    seen = True
                    yield event
                if reader.waiting > _MAX_UNREAD:
                    raise BadReply(
                        f"{self._server.place} sends an event without an end; is it a chat completion server?"
                    )
        except BackendError as error:
            if reply.ended:
                return
            if isinstance(error, Unreachable):
                raise Unreachable(f"stream ended early: {error}") from error
            raise
        for event in reader.finish():
            yield event

    async def _read(self, chunks: AsyncIterator[bytes], cap: int | None) -> AsyncGenerator[Delta, None]:
        """Turn the body of a streamed answer into deltas."""
        reply, unread = wire.StreamedReply(cap=cap, held=self._begins_inside), bytearray()
        async with aclosing(self._events(chunks, reply, unread)) as events:
            async for event in events:
                text = self._take(event, reply)
                self._learn(reply)
                if text:
                    yield Delta(text=text)
                if reply.done:
                    break
        if not reply.ended and bytes(unread).lstrip().startswith((b"{", b"[", b"<")):
            # The server does not stream, and answered in one piece (or with an error page).
            completion = wire.completion_from(self._decoded(bytes(unread)), self._server)
            yield Delta(text=completion.text, completion=completion)
            return
        if not reply.ended:
            raise self._cut_off()
        rest, completion = reply.finish()
        self._learn(reply)
        yield Delta(text=rest, completion=completion)

    def _learn(self, reply: wire.StreamedReply) -> None:
        """Remember whether replies begin inside a block. Raises ReasoningLeaked when this one's was given out."""
        self._begins_inside = self._begins_inside or reply.think.orphaned
        if reply.think.leaked:
            raise ReasoningLeaked(f"{self.name} at {self._server.place}")

    def _take(self, event: Event, reply: wire.StreamedReply) -> str:
        """Add an event to the reply; return the visible text that it brings. Raises BackendError."""
        data = event.data.strip()
        if data == "[DONE]":
            reply.done = True
        if not data or reply.done:
            return ""
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as exc:
            if event.cut:
                raise self._cut_off() from exc
            raise self._not_json(data.encode()) from exc
        if event.name == "error" or (isinstance(chunk, dict) and chunk.get("error")):
            error = chunk.get("error", chunk) if isinstance(chunk, dict) else chunk
            raise from_error_object(error, self._server)
        return reply.add(chunk) if isinstance(chunk, dict) else ""

    def _cut_off(self) -> Unreachable:
        return Unreachable(f"stream ended early: {self._server.place} closed it before the reply was whole; try again")


def _complaints(error: BackendError, body: Mapping[str, Any]) -> set[str]:
    """Return the settings without which a refused request is worth another try."""
    if not was_refused(error):
        return set()
    return wire.complained_of(getattr(error.__cause__, "body", None), body)
