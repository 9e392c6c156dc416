"""The models behind an app: one `Corrigenda`, its verifier batched, its chat model watched and chosen per request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import replace
from typing import Any

from corrigenda.api import Corrigenda
from corrigenda.backends.batching import BatchingEntailer
from corrigenda.backends.chat_openai import OpenAIChat
from corrigenda.errors import BackendError, CorrigendaError, Unauthorized
from corrigenda.guards import told
from corrigenda.loading import LazyChat
from corrigenda.pipeline import check
from corrigenda.ports import ChatModel, Entailer
from corrigenda.releasing import DecisionMode, Release, ask_releasing
from corrigenda.run import Options, Tools
from corrigenda.server.options import ServerOptions
from corrigenda.server.problems import ApiError
from corrigenda.settings import Choices
from corrigenda.telemetry import Mode, Recording
from corrigenda.types import ChatRequest, Completion, Delta, Reference, Report

ALIAS = "corrigenda"
"""A name by which a request may mean the model that the server was started with."""
_MODELS = 32
"""How many upstream models are remembered with what their server refused; clients choose the names."""
_PROBE_S = 3.0
_PROBE_AGE_S = 5.0
_CHARS_PER_TOKEN = 16


class Watched:
    """A chat model of one request, which notes how the answer's own call failed and ends an endless one."""

    def __init__(self, inner: ChatModel, most_chars: int) -> None:
        """Wrap `inner`. An answer is cut off, as if it had reached its cap, behind `most_chars` characters."""
        self._inner = inner
        self._most_chars = most_chars
        self.failure: BackendError | None = None
        """Why the call that makes the answer failed, also where a part of the answer had come."""

    @property
    def name(self) -> str:
        """The wrapped model's name."""
        return self._inner.name

    async def complete(self, request: ChatRequest) -> Completion:
        """Call the wrapped model."""
        return await self._inner.complete(request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        """Stream from the wrapped model."""
        count = 0
        try:
            async with aclosing(self._inner.stream(request)) as deltas:  # type: ignore[type-var]
                async for delta in deltas:
                    room = self._most_chars - count
                    count += len(delta.text)
                    if request.stage == "generate" and count > self._most_chars:
                        yield Delta(text=delta.text[:room], completion=Completion(text="", finish_reason="length"))
                        return
                    yield delta
        except Exception as exc:  # a chat model of the caller's own may raise anything
            if request.stage == "generate":
                self.failure = exc if isinstance(exc, BackendError) else BackendError(told(exc))
            raise

    async def aclose(self) -> None:
        """Do nothing: whoever made the wrapped model closes it."""


class Engine:
    """What the endpoints make reports with."""

    def __init__(
        self, corrigenda: Corrigenda, options: ServerOptions, on_call: Callable[[int, int], None] | None = None
    ) -> None:
        """Load nothing yet. `on_call(pairs, requests)` is told of every call of the batched verifier."""
        self.corrigenda = corrigenda
        self._options = options
        self._on_call = on_call
        self._batched: tuple[Entailer, Entailer] | None = None
        self._by_model: OrderedDict[str, OpenAIChat] = OrderedDict()
        self._probed: tuple[float, str | None] = (float("-inf"), None)
        self._probe_lock = asyncio.Lock()
        self._server: OpenAIChat | None = None
        self.loaded = False
        """Whether the models have been loaded."""
        self.load_error: BaseException | None = None
        """Why loading them failed, where it did."""

    async def load(self) -> None:
        """Load the models. Raises what loading them raises, and remembers it."""
        self.load_error = None
        try:
            await self._chat()
        except CorrigendaError as exc:
            self.load_error = exc
            raise

    async def _chat(self) -> ChatModel | None:
        """Return the chat model that the server was started with, loaded; None where there is none."""
        tools, _ = await self.corrigenda.prepare()
        chat = await tools.chat.load() if isinstance(tools.chat, LazyChat) else tools.chat
        self._server = chat if isinstance(chat, OpenAIChat) else None
        self.loaded = True
        return chat

    async def upstream(self, model: str | None = None) -> ChatModel:
        """Return the chat model; with a `model`, that of an OpenAI-compatible server by this name.

        Another upstream has one model, which answers under any name. Raises ApiError without a chat model or when the
        name is not allowed, and what loading raises.
        """
        chat = await self._chat()
        if chat is None:
            raise ApiError(
                501, "this server has no chat model; start it with --llm, or use /v1/verify", code="no_chat_model"
            )
        if not isinstance(chat, OpenAIChat) or model is None or chat.name == f"openai:{model}":
            return chat
        if self._options.allowed_models and model not in self._options.allowed_models:
            raise ApiError(
                404, f"this server doesn't offer the model {model[:200]!r}", param="model", code="model_not_found"
            )
        if model not in self._by_model:
            self._by_model[model] = chat.for_model(model)
            if len(self._by_model) > _MODELS:
                self._by_model.popitem(last=False)
        self._by_model.move_to_end(model)
        return self._by_model[model]

    def watched(self, chat: ChatModel) -> Watched:
        """Return `chat` as one request uses it."""
        return Watched(chat, _CHARS_PER_TOKEN * self._options.limits.output_tokens)

    async def releasing(
        self,
        question: str,
        request: ChatRequest,
        chat: Watched,
        *,
        choices: Choices,
        references: Sequence[Reference] | None,
        decision: DecisionMode,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Release, None]:
        """Answer and check; see `corrigenda.releasing.ask_releasing`. The trace of `headers` goes on here."""
        piece: Release | None = None
        with self._recording("ask", headers) as recording:
            tools, options = await self._prepared(choices, chat=True)
            pieces = ask_releasing(
                request, question, replace(tools, chat=chat), options, decision=decision, references=references
            )
            async with aclosing(pieces):
                async for piece in pieces:
                    if piece.report is not None:
                        recording.report = piece.report
                        break
                    yield piece
        # The last one leaves when it has been recorded: whoever hangs up now does not make that report a failure.
        if piece is not None and piece.report is not None:
            yield piece

    async def check(
        self,
        answer: str,
        *,
        question: str | None,
        references: Sequence[Reference] | None,
        choices: Choices,
        headers: Mapping[str, str] | None = None,
    ) -> Report:
        """Check an answer; see `corrigenda.pipeline.check`. The trace of `headers` goes on here."""
        with self._recording("check", headers) as recording:
            tools, options = await self._prepared(choices, chat=references is None and question is not None)
            recording.report = await check(answer, tools, options, question=question, references=references)
            return recording.report

    def _recording(self, mode: Mode, headers: Mapping[str, str] | None) -> AbstractContextManager[Recording]:
        """Record the report that is put into the value, where traces were asked for."""
        telemetry = self._options.telemetry
        if telemetry is None:
            return nullcontext(Recording())
        return telemetry.recording(mode, current=False, headers=headers)

    async def _prepared(self, choices: Choices, *, chat: bool) -> tuple[Tools, Options]:
        tools, options = await self.corrigenda.prepare(choices, chat=chat)
        return replace(tools, entailer=self._batching(tools.entailer)), options

    def _batching(self, entailer: Entailer) -> Entailer:
        """Return the verifier with the pairs of concurrent requests gathered, where that makes it faster."""
        if not getattr(entailer, "batches", True):
            return entailer
        if self._batched is None or self._batched[0] is not entailer:
            made = BatchingEntailer(
                entailer,
                window_s=self._options.batch_window_s,
                max_pairs=self._options.batch_pairs,
                on_call=self._on_call,
            )
            self._batched = entailer, made
        return self._batched[1]

    def hide(self, text: str) -> str:
        """Return `text` without the upstream's secrets."""
        return text if self._server is None else self._server.hide(text)

    async def models(self) -> list[Mapping[str, Any]]:
        """Return what /v1/models lists: the upstream's own list, or the one model that answers."""
        chat = await self._chat()
        if not isinstance(chat, OpenAIChat):
            return (
                [] if chat is None else [{"id": chat.name, "object": "model", "created": 0, "owned_by": "corrigenda"}]
            )
        found = await chat.models(self._options.limits.deadline_s)
        allowed = self._options.allowed_models
        return [model for model in found if not allowed or model["id"] in allowed]

    async def trouble(self) -> str | None:
        """Return why requests cannot be served now; None when all is well. The upstream is asked every few seconds."""
        if self.load_error is not None:
            return f"the models cannot be loaded: {self.load_error}"
        if not self.loaded:
            return "the models are being loaded"
        if self._server is None:
            return None
        async with self._probe_lock:
            now = asyncio.get_running_loop().time()
            if now - self._probed[0] > _PROBE_AGE_S:
                self._probed = (now, await _probe(self._server))
            return self._probed[1]


async def _probe(server: OpenAIChat) -> str | None:
    """Return why an OpenAI-compatible server cannot be used now; None where it answers at all."""
    try:
        await server.models(_PROBE_S)
    except Unauthorized as exc:
        # A key may be good for chat and not for the list of models; a wrong one is good for nothing.
        return "the upstream refuses this server's key" if _status(exc) == 401 else None
    except BackendError as exc:
        return None if (_status(exc) or 500) < 500 else f"the upstream cannot be reached: {exc}"
    return None


def _status(exc: BaseException) -> int | None:
    status = getattr(exc.__cause__, "status_code", None)
    return status if isinstance(status, int) else None
