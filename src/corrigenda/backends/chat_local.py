"""The embedded chat model: a GGUF file in this process, through llama.cpp (`xllamacpp`).

Each request gets a slot, a piece of context memory of its own. Requests in different slots are worked on
together, token by token, so that recall runs beside generate. Scoring labels has two more slots for itself:
its requests come one after the other and share long beginnings, which those slots keep, one for each of the
last two system messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from corrigenda import replies
from corrigenda.backends.local_runtime import PrefixSlots, Run, Runtime, Slots
from corrigenda.errors import BackendError, BadReply, ConfigError, ReasoningLeaked, RequestRefused
from corrigenda.types import ChatRequest, Completion, Delta, TokenUsage

DEFAULT_MAX_TOKENS = 1024
"""Cap on a reply whose request sets none, so that no reply is endless."""
TOP_LOGPROBS = 100
"""How many of the most probable first tokens are looked through for the labels."""

LABEL_SLOTS = 3
"""One for each of the verifier's two wordings (`nli_chat_scheme`), so that neither drives out the other's examples, and
one for whoever else scores labels (a judge, FActScore): without it an evaluation took twice as long."""

_CONTROL_TOKEN = re.compile(r"<\|([\w. -]+)\|>")

_Chunk = dict[str, Any]
_Item = _Chunk | BaseException | None


def default_threads() -> int:
    """Return how many threads to use: the processors that this process may use, half of them above four.

    Above four they are mostly two per core, of which llama.cpp needs one.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    usable = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        usable = min(usable, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass  # no control groups, or no limit ("max")
    return usable if usable <= 4 else max(4, usable // 2)


class LocalChat:
    """A GGUF model as a ChatModel and a LabelScorer. Keeps nothing of a request but the cache of its slot."""

    def __init__(
        self,
        path: str | Path,
        *,
        name: str,
        n_ctx: int = 4096,
        threads: int | None = None,
        parallel: int = 2,
        seed: int | None = None,
        cache_prefix: bool = True,
        exact: bool = True,
    ) -> None:
        """Load the model at `path`; this takes seconds.

        `name` is for reports. `n_ctx` is the context of each request in tokens, prompt and reply together.
        `threads` defaults to the processors at hand. `parallel` chat requests (at least 1) are worked on at a
        time, others wait. `seed` is used for requests that bring none. `cache_prefix` says whether
        `label_logprobs` reads only what a request does not share with the last one that had the same system
        message; the attribute of that name may be changed later. `exact` makes label scores independent of the
        cache; without it the model writes faster and takes more memory (docs/models.md).

        Raises MissingExtra, ConfigError for a number out of range, ModelError when the file cannot be used.
        """
        for what, value, least in (("n_ctx", n_ctx, 256), ("threads", threads, 1), ("parallel", parallel, 1)):
            if value is not None and value < least:
                raise ConfigError(f"{what} must be at least {least}, got {value!r}")
        self._name = name
        self._seed = seed
        self.cache_prefix = cache_prefix
        self._runtime: Runtime | None = Runtime(
            Path(path), n_ctx=n_ctx, threads=threads or default_threads(), slots=parallel + LABEL_SLOTS, exact=exact
        )
        self._chat_slots = Slots(range(parallel))
        self._label_slots = PrefixSlots(range(parallel, parallel + LABEL_SLOTS))
        self._workers = ThreadPoolExecutor(parallel + 1, thread_name_prefix="corrigenda-local")
        self._runs: set[Run] = set()

    @property
    def name(self) -> str:
        """Name for reports."""
        return self._name

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the whole reply. Raises RequestRefused when it is too long, BackendError on failure."""
        completion = None
        async with contextlib.aclosing(self.stream(request)) as deltas:
            async for delta in deltas:
                completion = delta.completion
        if completion is None:
            raise BadReply("the embedded chat model ended without a reply")
        return completion

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """Yield the reply as it is made. Closing the iterator stops the model; see `Run.cancel`."""
        body = self._body(request)
        try:
            async with contextlib.aclosing(self._deltas(body)) as deltas:
                async for delta in deltas:
                    yield delta
        except RequestRefused as exc:
            # The port lets a backend ignore a schema that it cannot enforce.
            if "response_format" not in body or "schema" not in str(exc):
                raise
            del body["response_format"]
            async with contextlib.aclosing(self._deltas(body)) as deltas:
                async for delta in deltas:
                    yield delta

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        """Return the log-probability of each label as the first token of the reply, before any sampling.

        A label is one token of the model; a variant with one leading space counts for the same label and is
        added. A label that is not among the 100 most probable first tokens gets `-inf`. The request's
        sampling settings and token cap are ignored. Raises BackendError.
        """
        body = self._body(request) | {
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": True,
            "top_logprobs": TOP_LOGPROBS,
            "cache_prompt": self.cache_prefix,
            "chat_template_kwargs": {"enable_thinking": False},
        }
        body.pop("response_format", None)
        found: list[Mapping[str, Any]] = []
        async with contextlib.aclosing(self._chunks(body, self._label_slots)) as chunks:
            async for chunk in chunks:
                for choice in chunk["choices"]:
                    for token in (choice.get("logprobs") or {}).get("content") or ():
                        found = found or token["top_logprobs"]
        if not found:
            raise BadReply("the embedded chat model gave no token probabilities")
        return tuple(_log_sum(t["logprob"] for t in found if t["token"].removeprefix(" ") == x) for x in labels)

    def count_tokens(self, text: str) -> int:
        """Return the number of the model's tokens in `text`: exact, or its UTF-8 bytes if it can't be counted.

        The bytes are an upper bound for tokenizers that work on bytes, as those of the known models do.
        """
        if self._runtime is None:
            raise BackendError("the embedded chat model was closed")
        if not text:
            return 0
        counted = self._runtime.count_tokens(_defused(text))
        return counted if counted is not None else len(text.encode("utf-8", "replace"))

    async def aclose(self) -> None:
        """Stop what is running and unload the model. May be called twice."""
        runtime, self._runtime = self._runtime, None
        if runtime is None:
            return
        for run in tuple(self._runs):
            run.cancel()
        await asyncio.to_thread(self._workers.shutdown)
        await asyncio.to_thread(runtime.close)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the request in llama.cpp's (OpenAI's) form."""
        seed = request.seed if request.seed is not None else self._seed
        optional = {"temperature": request.temperature, "top_p": request.top_p, "seed": seed}
        body: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
        body["messages"] = [{"role": m.role, "content": _defused(m.content)} for m in request.messages]
        # A single token is worked on with other rounding than several at once, also with `exact`; that is enough
        # to change a sampled token, so that a seed repeats a reply only if the prompt is read in the same pieces.
        body["cache_prompt"] = seed is None
        body["max_tokens"] = request.max_tokens if request.max_tokens is not None else DEFAULT_MAX_TOKENS
        if request.json_schema is not None:
            schema = {"name": "reply", "schema": _plain(request.json_schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    async def _deltas(self, body: dict[str, Any]) -> AsyncGenerator[Delta, None]:
        """Turn llama.cpp's pieces into deltas, the last one with the completion."""
        think, usage = replies.ThinkFilter(), TokenUsage()
        texts: list[str] = []
        finish: object = None
        async with contextlib.aclosing(self._chunks(body, self._chat_slots)) as chunks:
            async for chunk in chunks:
                for choice in chunk["choices"]:
                    finish = choice.get("finish_reason") or finish
                    visible = think.feed((choice.get("delta") or {}).get("content") or "")
                    if visible:
                        texts.append(visible)
                        yield Delta(text=visible)
                usage = _usage_of(chunk) or usage
        rest = think.finish()
        if think.leaked:
            raise ReasoningLeaked(self.name)
        completion = replies.finished("".join(texts) + rest, None, finish, usage)
        yield Delta(text=rest, completion=completion)

    async def _chunks(self, body: dict[str, Any], slots: Slots) -> AsyncGenerator[_Chunk, None]:
        """Run `body` in a slot of `slots` and yield the pieces; leaving early cancels the run."""
        prompt = "\0".join(m["content"] for m in body["messages"])
        number = await _granted(slots, prompt)
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[_Item]()

        def put(item: _Item) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, item)

        run = Run()
        self._start(body | {"id_slot": number}, run, put, lambda: slots.give_back(number, prompt))
        try:
            while (item := await queue.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            # The slot is given back when llama.cpp has let go of it; whoever cancels does not wait for that.
            run.cancel()

    def _start(self, body: dict[str, Any], run: Run, put: Callable[[_Item], None], release: Callable[[], None]) -> None:
        """Let a worker run `body`. It puts the pieces, then any exception, then None."""
        runtime = self._runtime
        if runtime is None:
            release()
            raise BackendError("the embedded chat model was closed")

        def work() -> None:
            last: _Item = None
            try:
                runtime.run(body, run, put)
            except BaseException as exc:
                last = exc
            self._runs.discard(run)
            release()
            # The event loop may be gone by now; then nobody waits for these.
            with contextlib.suppress(RuntimeError):
                if last is not None:
                    put(last)
                put(None)

        self._runs.add(run)
        self._workers.submit(work)


async def _granted(slots: Slots, prompt: str) -> int:
    """Wait for a slot. A slot that is granted while the waiting task is being cancelled is given back."""
    future = slots.take(prompt)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if not future.cancel():
            slots.give_back(future.result(), "")
        raise


def _usage_of(chunk: Mapping[str, Any]) -> TokenUsage | None:
    """Return the token counts of the one piece that carries them."""
    usage = chunk.get("usage")
    if not isinstance(usage, Mapping):
        return None
    return TokenUsage(prompt_tokens=usage.get("prompt_tokens"), completion_tokens=usage.get("completion_tokens"))


def _plain(schema: Mapping[str, Any]) -> Any:
    """Return a copy of a schema that holds dicts, whatever mappings it is made of."""
    return json.loads(json.dumps(schema, default=dict))


def _log_sum(logs: Iterable[float]) -> float:
    """Return the logarithm of the sum of the probabilities whose logarithms are given; -inf for none."""
    values = list(logs)
    return math.log(sum(math.exp(v) for v in values)) if values else -math.inf


def _defused(text: str) -> str:
    """Return `text` with the likes of `<|im_end|>` spelled `<| im_end |>`.

    llama.cpp reads them as control tokens wherever they stand, so that material under check could end the
    user's turn and speak as the system.
    """
    return _CONTROL_TOKEN.sub(r"<| \1 |>", text)
