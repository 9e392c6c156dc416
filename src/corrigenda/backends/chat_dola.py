"""The chat model of the method `dola`: on torch and transformers, decoded by contrasting its layers.

DoLa: Chuang et al. 2023, "Decoding by Contrasting Layers Improves Factuality in Large Language Models",
arXiv:2309.03883. For each token the final layer is contrasted with the earlier layer that differs most from it, and
what the later layers have added decides. `dola_step` holds the arithmetic, `dola_runtime` the model.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from corrigenda import replies
from corrigenda.backends.dola_runtime import Contrast, DolaRuntime, Sampling
from corrigenda.errors import BackendError, BadReply, ReasoningLeaked
from corrigenda.types import ChatRequest, Completion, Delta, TokenUsage

DEFAULT_MAX_TOKENS = 1024
"""Cap on a reply whose request sets none, so that no reply is endless."""

_Item = Delta | BaseException


class DolaChat:
    """A ChatModel that decodes with DoLa. One reply is made at a time; others wait in order of arrival.

    Settings of a request: `temperature` None or 0 is greedy (the paper's decoding), above 0 draws from the contrasted
    distribution with `top_p` and `seed`; `json_schema` is left to the caller, as the port allows.
    """

    def __init__(
        self,
        spec: str | Path,
        *,
        name: str | None = None,
        contrast: Contrast | None = None,
        device: str | None = None,
        dtype: str | None = None,
        cache_dir: str | Path | None = None,
        offline: bool = False,
    ) -> None:
        """Load the model; this takes seconds, and for a GGUF file about a minute. See `DolaRuntime`.

        `name` is for reports, by default `dola:` and `spec`. In 32 bits a model takes four bytes of memory for
        each weight. Raises MissingExtra, ConfigError and ModelError.
        """
        self._name = name or f"dola:{spec}"
        self._runtime: DolaRuntime | None = DolaRuntime(
            spec, contrast or Contrast(), device=device, dtype=dtype, cache_dir=cache_dir, offline=offline
        )
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="corrigenda-dola")
        self._running: set[threading.Event] = set()
        self.layers: Counter[int] = Counter()
        """How often each premature layer was chosen so far."""

    @property
    def name(self) -> str:
        """Name for reports."""
        return self._name

    @property
    def candidates(self) -> tuple[int, ...]:
        """The candidate premature layers. Raises BackendError when the model was closed."""
        return self._loaded().candidates

    def count_tokens(self, text: str) -> int:
        """Return the number of the model's tokens in `text`, special tokens left out."""
        return self._loaded().count_tokens(text)

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the whole reply. Raises RequestRefused when it is too long, BackendError on failure."""
        completion = None
        async with contextlib.aclosing(self.stream(request)) as deltas:
            async for delta in deltas:
                completion = delta.completion
        if completion is None:
            raise BadReply(f"{self.name} ended without a reply")
        return completion

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """Yield the reply as it is made. Closing the iterator stops the model before its next token."""
        runtime = self._loaded()
        loop, queue, stop = asyncio.get_running_loop(), asyncio.Queue[_Item](), threading.Event()

        def put(item: _Item) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop that wanted it is gone
                loop.call_soon_threadsafe(queue.put_nowait, item)

        def work() -> None:
            try:
                self._reply(runtime, request, put, stop.is_set)
            except BaseException as exc:
                put(exc)
            finally:
                self._running.discard(stop)

        self._running.add(stop)
        self._worker.submit(work)
        try:
            completion = None
            while completion is None:
                item = await queue.get()
                if isinstance(item, BaseException):
                    raise item
                completion = item.completion
                yield item
        finally:
            stop.set()  # whoever cancels does not wait until the model has noticed

    async def aclose(self) -> None:
        """Stop what is running and drop the model. May be called twice."""
        runtime, self._runtime = self._runtime, None
        if runtime is None:
            return
        for stop in tuple(self._running):
            stop.set()
        await asyncio.to_thread(self._worker.shutdown)

    def _loaded(self) -> DolaRuntime:
        """Return the model. Raises BackendError when it was closed."""
        if self._runtime is None:
            raise BackendError(f"the chat model {self.name} was closed")
        return self._runtime

    def _reply(
        self, runtime: DolaRuntime, request: ChatRequest, put: Callable[[Delta], None], stopped: Callable[[], bool]
    ) -> None:
        """Make one reply, in the worker's thread: put its deltas. Raises BackendError, also when it was stopped."""
        if stopped():
            raise BackendError(f"the chat model {self.name} was stopped before it replied")
        prompt = runtime.prompt(request.messages)
        sampling = Sampling(
            temperature=request.temperature or 0.0,
            top_p=1.0 if request.top_p is None else request.top_p,
            seed=request.seed,
        )
        limit = DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens
        think, text = replies.ThinkFilter(), _Text(runtime)
        shown: list[str] = []
        made, ended = 0, False
        for token in runtime.tokens(prompt, limit, sampling, stopped):
            made, ended = made + 1, token.last
            self.layers[token.layer] += 1
            if not ended and (visible := think.feed(text.feed(token.id))):
                shown.append(visible)
                put(Delta(text=visible))
        if stopped() and not ended:
            raise BackendError(f"the chat model {self.name} was stopped while it replied")
        rest = think.feed(text.finish()) + think.finish()
        if think.leaked:
            raise ReasoningLeaked(self.name)
        usage = TokenUsage(prompt_tokens=len(prompt), completion_tokens=made)
        completion = replies.finished("".join(shown) + rest, None, "stop" if ended else "length", usage)
        put(Delta(text=rest, completion=completion))


class _Text:
    """Turns tokens into pieces of text, none of which ends within a character."""

    def __init__(self, runtime: DolaRuntime) -> None:
        self._runtime = runtime
        self._ids: list[int] = []
        self._sent = ""

    def feed(self, token: int) -> str:
        """Take the next token; return what has become readable, possibly nothing."""
        self._ids.append(token)
        text = self._runtime.text(self._ids)
        return "" if text.endswith("\ufffd") else self._new(text)

    def finish(self) -> str:
        """Return the rest, whether it is readable or not."""
        return self._new(self._runtime.text(self._ids))

    def _new(self, text: str) -> str:
        if not text.startswith(self._sent):
            return ""
        new, self._sent = text[len(self._sent) :], text
        return new
